"""A file of the replays that were run, so that a crash costs only those under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import is_number
from orchtrace_otel.replay.outcome import STATUSES, Outcome

if TYPE_CHECKING:
    from orchtrace_otel.replay.change import Change

_FORMAT: Final = 1


class Journal:
    """Outcomes by change and seed, one a line, each flushed as it comes.

    A context manager. The first line says which trace it is for. A last line that a crash
    cut off is left out, and run again. What is written holds names of players and edited
    values as `repr` shows them, no other content.

    Args:
        path: The file; made where it is missing, read and added to where it is there.
        trace_id: Whose replays these are.

    Raises:
        ConfigError: If the file is no journal, one of another trace, or cannot be written.
    """

    def __init__(self, path: str | Path, trace_id: str) -> None:
        self._path = Path(path)
        self._trace_id = trace_id
        self._known: dict[tuple[str, int], Outcome] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._open()
        except OSError as error:
            msg = (
                f"journal must be a file that can be read and written, got {str(self._path)!r} "
                f"({error.strerror}); name another file"
            )
            raise ConfigError(msg) from error
        return self

    def _open(self) -> None:
        text = self._path.read_text("utf-8", "replace") if self._path.exists() else ""
        lines = text.split("\n")
        whole, cut = lines[:-1], lines[-1:]
        head = self._line({"orchtrace_journal": _FORMAT, "trace_id": self._trace_id})
        if whole or not head.startswith(text):  # what is no beginning of ours is somebody's
            self._check(lines[0])
        for line in whole[1:]:
            self._read(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a", encoding="utf-8")
        if not whole:
            if text:
                self._file.truncate(0)
            self._file.write(head)
            self._file.flush()
        elif cut != [""]:
            self._file.write("\n")

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def find(self, change: Change, seed: int) -> Outcome | None:
        """Return what came of a replay before; None where it was not run."""
        return self._known.get((change.key(), seed))

    def add(self, change: Change, seed: int, outcome: Outcome) -> None:
        """Write down what came of a replay."""
        key = change.key()
        self._known[key, seed] = outcome
        row = {"change": key, "seed": seed, **outcome._asdict()}
        self._write({name: value for name, value in row.items() if value is not None})

    def _write(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(self._line(row))
            self._file.flush()

    @staticmethod
    def _line(row: dict[str, Any]) -> str:
        return json.dumps(row) + "\n"  # ASCII: a text may be none of UTF-8

    def _check(self, line: str) -> None:
        try:
            head = json.loads(line)
            trace_id = head["trace_id"] if head["orchtrace_journal"] == _FORMAT else None
        except (ValueError, TypeError, KeyError):
            trace_id = None
        if trace_id != self._trace_id:
            msg = (
                f"journal {str(self._path)!r} must be one of trace {self._trace_id!r}, "
                f"found {line[:80]!r}; name another file"
            )
            raise ConfigError(msg)

    def _read(self, line: str) -> None:
        try:
            row = json.loads(line)
            outcome = Outcome(row["status"], row.get("value"), row.get("detail"))
            key = (str(row["change"]), int(row["seed"]))
        except (ValueError, TypeError, KeyError):
            return  # cut off by a crash, and run again
        if outcome.status in STATUSES and is_number(outcome.value) == (outcome.status == "value"):
            self._known[key] = outcome
