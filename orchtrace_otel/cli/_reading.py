"""The traces of files, one at a time: each run's newest revision, with what came late.

What is no trace is told.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from orchtrace_otel.cli._console import print_error, print_note
from orchtrace_otel.cli._files import shown, superseded
from orchtrace_otel.schema import read_lines
from orchtrace_otel.tables.reading import Bad, Late, late_files, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from orchtrace_otel.model import Reward, Trace


class Reading:
    """Goes through files of traces; rewards that came later lie beside them, and are added.

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
        late = self._late()
        for file in self.files:
            empty = True
            for line in read_lines(file):
                empty = False
                if (file, line.number) in old:
                    continue
                if line.trace is not None:
                    self.read += 1
                    yield _with(line.trace, late.get(line.trace.trace_id))
                else:
                    self._fault(f"{shown(file)}:{line.number}: {line.faults[0]}{self._hint(file)}")
            if empty:
                self._fault(f"{shown(file)}: holds no trace")
        if self.faults > 1:
            print_note(f"{self.faults} documents are no traces; `orchtrace validate` says why")

    def _late(self) -> dict[str, list[Reward]]:
        """Rewards that came after their runs, by run."""
        found: defaultdict[str, list[Reward]] = defaultdict(list)
        files = dict.fromkeys(late for file in self.files for late in late_files(file))
        for item in (item for file in files for item in read_file(file)):
            if isinstance(item, Late):
                found[item.run_id].append(item.reward)
            elif isinstance(item, Bad):
                self._fault(f"{item.where}: {item.why}")
        return dict(found)

    def _hint(self, file: Path) -> str:
        """Say what to do with a file of another kind; only the first fault is told."""
        if self.faults or not file.is_file():
            return ""
        from orchtrace_otel.sources import kind_of  # noqa: PLC0415 - rarely any

        is_spans = kind_of(file) is not None
        return "; these are spans, of which `orchtrace convert` builds runs" if is_spans else ""

    def _fault(self, message: str) -> None:
        self.faults += 1
        if self.faults == 1:
            print_error(message)


def _with(trace: Trace, late: Sequence[Reward] | None) -> Trace:
    if not late:
        return trace
    from orchtrace_otel.tables.spool import with_late  # noqa: PLC0415 - rarely any

    return with_late(trace, late)
