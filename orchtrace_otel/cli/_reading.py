"""The traces of files, one at a time: each run's newest revision; what is none is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.cli._console import print_error, print_note
from orchtrace_otel.cli._files import shown, superseded
from orchtrace_otel.schema import read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from orchtrace_otel.model import Trace


class Reading:
    """Goes through files of traces.

    The first fault is told when it comes, and their number at the end.

    Attributes:
        files: The files, oldest first.
        faults: Documents that were no traces, so far.
        read: Traces so far.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.faults = 0
        self.read = 0

    def __iter__(self) -> Iterator[Trace]:
        """Go through the traces."""
        old = superseded(self.files)
        for file in self.files:
            empty = True
            for line in read_lines(file):
                empty = False
                if (file, line.number) in old:
                    continue
                if line.trace is not None:
                    self.read += 1
                    yield line.trace
                else:
                    self._fault(f"{shown(file)}:{line.number}: {line.faults[0]}")
            if empty:
                self._fault(f"{shown(file)}: holds no trace")
        if self.faults > 1:
            print_note(f"{self.faults} documents are no traces; `orchtrace validate` says why")

    def _fault(self, message: str) -> None:
        self.faults += 1
        if self.faults == 1:
            print_error(message)
