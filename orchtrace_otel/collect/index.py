"""The index of a store: which runs it holds, and where each one's newest revision lies.

SQLite: every run is a few point look-ups and one row written, in one transaction with what
else it touches, by one process while others read. That is what a B-tree with a log is for,
and it comes with Python. A column store such as DuckDB reads whole columns fast and locks
other processes out; it can read the store's files themselves.

The index holds nothing that the files do not: `catch_up` reads what it has not seen, which
after a crash are the last lines and after its removal all of them.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from orchtrace_otel.model import Trace
from orchtrace_otel.schema import dump

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (inode INTEGER PRIMARY KEY, name TEXT, size INTEGER);
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, task_id TEXT, system TEXT, start_unix_nano INTEGER,
    stop_reason TEXT, revision INTEGER, rewards TEXT, digest BLOB,
    inode INTEGER, start INTEGER, superseded_by TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_task ON runs (task_id);
CREATE INDEX IF NOT EXISTS by_start ON runs (start_unix_nano);
"""

_SELECT: Final = """
SELECT run_id, task_id, system, start_unix_nano, stop_reason, revision, rewards, digest,
    (SELECT name FROM files WHERE files.inode = runs.inode), start, superseded_by
FROM runs"""

_IS_RUN: Final = "superseded_by IS NULL"
_COUNT: Final = "SELECT count(*) FROM runs WHERE superseded_by IS NULL"

_MOST: Final = 2**63 - 1
"""The largest integer of SQLite; senders may say any of 64 bits without a sign."""

_NO_TRACE: Final = (
    ValueError,
    TypeError,
    AttributeError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""What comes of lines that are no traces: others may write to the folder, and write anything."""


def _integer(value: object) -> int:
    return min(max(value, 0), _MOST) if isinstance(value, int) else 0


class Entry(NamedTuple):
    """What the index says of a run.

    Attributes:
        run_id: `<OTel trace id>-<span id of the root>`.
        task_id: What was asked.
        system: What the team runs on.
        start_unix_nano: When it began.
        stop_reason: Why it stopped.
        revision: The newest one in the store.
        rewards: Component to number.
        digest: Of all that the newest revision says, its number aside.
        file: Name of the file that it lies in; None where the store has no lines.
        start: Where in the file its line begins.
        superseded_by: The run that its spans are of since more of them came; None for most.
    """

    run_id: str
    task_id: str
    system: str | None
    start_unix_nano: int
    stop_reason: str | None
    revision: int
    rewards: dict[str, float]
    digest: bytes
    file: str | None
    start: int
    superseded_by: str | None


def digest(line: bytes) -> bytes:
    """Sum up a trace of revision 0 as `schema.dump` writes it."""
    return hashlib.blake2b(line, digest_size=16).digest()


def with_revision(trace: Trace, revision: int) -> Trace:
    """Return a trace whose stop says that revision; of others, without a stop, as it is."""
    stop = trace.stop
    if stop is None or stop.get("revision") == revision:
        return trace
    marked = replace(stop, keys={**stop.keys, "revision": revision})
    return replace(trace, events=(*trace.events[:-1], marked))


class Index:
    """One connection to the index of a folder; other processes may read it meanwhile.

    What is written counts once `commit` was called.

    Args:
        path: The file of the index.
        folder: The folder of the store, whose `traces*.jsonl` are read to catch up.
        sync: Whether SQLite waits for the disk, for machines that lose power.
    """

    def __init__(self, path: Path, folder: Path, *, sync: bool = False) -> None:
        self._folder = folder
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")
        self._db.executescript(_SCHEMA)

    def find(self, run_id: str) -> Entry | None:
        """Return what is known of a run, superseded or not; None where it is not in the store."""
        rows = list(self._rows("WHERE run_id = ?", (run_id,)))
        return rows[0] if rows else None

    def of_trace(self, trace_id: str) -> list[Entry]:
        """Return the runs of an OTel trace."""
        return [entry for entry in self._of_trace(trace_id) if entry.superseded_by is None]

    def superseded(self, trace_id: str) -> dict[str, str]:
        """Return the ids that runs of an OTel trace had before, with those they have now."""
        now = {entry.run_id: entry.superseded_by for entry in self._of_trace(trace_id)}
        found: dict[str, str] = {}
        for before, after in now.items():
            # At most all of them stand in one row; a circle ends as well.
            for _ in now:
                if after is not None and (further := now.get(after)) is not None:
                    after = further  # noqa: PLW2901 - what superseded it was superseded, too
            if after is not None:
                found[before] = after
        return found

    def _of_trace(self, trace_id: str) -> Iterator[Entry]:
        return self._rows("WHERE run_id > ? AND run_id < ?", (f"{trace_id}-", f"{trace_id}."))

    def of_task(self, task_id: str) -> list[Entry]:
        """Return the runs of a task, by start."""
        return list(
            self._rows(f"WHERE task_id = ? AND {_IS_RUN} ORDER BY start_unix_nano", (task_id,))
        )

    def __iter__(self) -> Iterator[Entry]:
        return self._rows(f"WHERE {_IS_RUN} ORDER BY start_unix_nano, run_id", ())

    def __len__(self) -> int:
        return int(self._db.execute(_COUNT).fetchone()[0])

    def _rows(self, condition: str, values: tuple[Any, ...]) -> Iterator[Entry]:
        for row in self._db.execute(f"{_SELECT} {condition}", values):
            yield Entry._make((*row[:6], orjson.loads(row[6]), *row[7:]))

    def begin(self) -> None:
        """Begin to write, unless it has begun."""
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")

    def put(self, trace: Trace, summary: bytes, place: tuple[Path, int] | None, size: int) -> None:
        """Note a trace that was appended to the store.

        Args:
            trace: The trace, with its revision.
            summary: Its `digest`.
            place: The file, and where in it the line begins; None where the store has no lines.
            size: Bytes of the line and its line feed.
        """
        self.begin()
        inode = None
        if place is not None:
            inode = self._grown(place, size)
        self._note(trace, summary, inode, 0 if place is None else place[1])

    def _grown(self, place: tuple[Path, int], size: int) -> int:
        """Note that a file has grown by a line, and read first what others wrote to it before."""
        path, start = place
        inode = path.stat().st_ino
        known = self._db.execute("SELECT size FROM files WHERE inode = ?", (inode,)).fetchone()
        if known is None or known[0] != start:
            self.catch_up()
        else:
            self._db.execute("UPDATE files SET size = ? WHERE inode = ?", (start + size, inode))
        return inode

    def _note(self, trace: Trace, summary: bytes, inode: int | None, start: int) -> None:
        stop = trace.stop
        row = (
            trace.trace_id,
            trace.task_id,
            trace.system,
            _integer(trace.events[0].get("start_unix_nano")) if trace.events else 0,
            None if stop is None else stop.get("stop_reason"),
            0 if stop is None else _integer(stop.get("revision")),
            orjson.dumps(dict(trace.rewards)),
            summary,
            inode,
            start,
            None if stop is None else stop.get("superseded_by"),
        )
        self._db.execute(
            "INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (run_id) DO UPDATE SET "
            "task_id=excluded.task_id, system=excluded.system, stop_reason=excluded.stop_reason, "
            "start_unix_nano=excluded.start_unix_nano, revision=excluded.revision, "
            "rewards=excluded.rewards, digest=excluded.digest, inode=excluded.inode, "
            "start=excluded.start, superseded_by=excluded.superseded_by "
            "WHERE excluded.revision >= runs.revision",
            row,
        )

    def catch_up(self) -> int:
        """Read the lines that the index has not seen; return how many there were."""
        self.begin()
        seen = 0
        for path in sorted(self._folder.glob("traces*.jsonl")):
            about = path.stat()
            known = self._db.execute(
                "SELECT size FROM files WHERE inode = ?", (about.st_ino,)
            ).fetchone()
            size = 0 if known is None or known[0] > about.st_size else int(known[0])
            with path.open("rb") as file:
                file.seek(size)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # half a line of a killed writer; the next one takes it away
                    seen += self._read(line, about.st_ino, size)
                    size += len(line)
            self._db.execute(
                "INSERT OR REPLACE INTO files VALUES (?,?,?)", (about.st_ino, path.name, size)
            )
        return seen

    def _read(self, line: bytes, inode: int, start: int) -> int:
        try:
            trace = Trace.from_json(line)
            self._note(trace, digest(dump(with_revision(trace, 0))), inode, start)
        except _NO_TRACE:
            return 0  # `orchtrace validate` says why
        return 1

    def read(self, entry: Entry) -> Trace | None:
        """Return the newest revision of a run from the store; None where it is not there."""
        if entry.file is None:
            return None
        try:
            with (self._folder / entry.file).open("rb") as file:
                file.seek(entry.start)
                trace = Trace.from_json(file.readline())
        except (OSError, ValueError):
            return None
        return trace if trace.trace_id == entry.run_id else None

    def commit(self) -> None:
        """Make what was written count."""
        if self._db.in_transaction:
            self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Forget what was written since the last commit."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file."""
        self.rollback()
        self._db.close()
