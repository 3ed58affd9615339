"""What could not be written, noted beside it as soon as there is room, for `orchtrace doctor`."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import orjson

from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.lines import LineFile

if TYPE_CHECKING:
    from pathlib import Path


class Losses:
    """Counts what was lost on its way to a place, by reason, and keeps a file of it.

    Args:
        path: The file; absent where nothing was lost. None where there is no place for one.
        what: What was lost, such as `lines`.
        max_bytes: Size at which the file is renamed away.

    Example:
        >>> losses = Losses(None, "runs")
        >>> losses.note("No space left on device", 2)
        >>> losses.complaints()
        ['2 runs were lost (No space left on device)']
    """

    def __init__(self, path: Path | None, what: str, max_bytes: int = 1 << 20) -> None:
        self.path: Final = path
        self._what = what
        self._file = None if path is None else LineFile(path, max_bytes)
        self._waiting: Counter[tuple[str, str]] = Counter()
        afresh_in_children(self)

    def start_afresh(self) -> None:
        """Leave to the parent of a fork what it lost."""
        self._waiting.clear()

    def note(self, why: str, count: int = 1, what: str = "") -> None:
        """Count a loss; `own_up` writes it down.

        Args:
            why: The reason.
            count: How many.
            what: What was lost, where it is something else than usual.
        """
        self._waiting[what or self._what, why] += count

    def own_up(self) -> None:
        """Write down what was lost and is not yet written.

        Raises:
            OSError: If there is still no room; it is kept for the next time.
        """
        while self._waiting and self._file is not None:
            (what, why), count = next(iter(self._waiting.items()))
            record = {
                "until_unix": int(time.time()),
                "pid": os.getpid(),
                "lost": count,
                "what": what,
                "why": why,
            }
            self._file.append(orjson.dumps(record))
            del self._waiting[what, why]

    def complaints(self) -> list[str]:
        """Say what was lost, in this process or an earlier one."""
        noted = self._noted()
        if noted is None and not self._waiting:
            return [
                f"{self._what} were lost, and there was no room to note how many in {self.path}"
            ]
        told: list[str] = []
        for (what, why), count in (self._waiting + (noted or Counter())).items():
            where = f"; {self.path} says when" if noted and (what, why) in noted else ""
            told.append(f"{count} {what} were lost ({why}){where}")
        return told

    def _noted(self) -> Counter[tuple[str, str]] | None:
        """Read the file; None where it could be made, and its first line not be written."""
        noted: Counter[tuple[str, str]] = Counter()
        if self.path is None:
            return noted
        with suppress(OSError), self.path.open("rb") as lines:
            if os.fstat(lines.fileno()).st_size == 0:
                return None
            for line in lines:
                with suppress(ValueError, KeyError, TypeError):
                    record = orjson.loads(line)
                    what = str(record.get("what", self._what))
                    noted[what, str(record["why"])] += int(record["lost"])
        return noted
