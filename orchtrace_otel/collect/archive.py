"""What runs are built from, kept for a while after they were stored, to build them again.

Encoded spans by OTel trace, for late spans and for knowing a resend from news; late
rewards, for runs that have not come yet and for builds to come. Spans go when they are
older than the retention, or the oldest when all are more bytes than allowed; rewards go
with age alone.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Final

import orjson

from orchtrace_otel.collect.verdicts import Verdict
from orchtrace_otel.model import Reward

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS spans (
    id INTEGER PRIMARY KEY, trace_id TEXT, at REAL, size INTEGER, data BLOB
);
CREATE INDEX IF NOT EXISTS by_trace ON spans (trace_id);
CREATE TABLE IF NOT EXISTS rewards (
    id INTEGER PRIMARY KEY, trace_id TEXT, run_id TEXT, reward_id TEXT, span_id TEXT,
    reward TEXT, at REAL, is_applied INTEGER DEFAULT 0,
    UNIQUE (trace_id, reward_id)
);
"""


class Archive:
    """Spans and late rewards, in SQLite.

    What is written counts once `commit` was called.

    Args:
        path: Its file.
        keep_s: Seconds that spans and rewards are kept.
        keep_bytes: Bytes of spans that are kept.
        sync: Whether SQLite waits for the disk, for machines that lose power.
    """

    def __init__(self, path: Path, keep_s: float, keep_bytes: int, *, sync: bool = False) -> None:
        self._keep_s = keep_s
        self._keep_bytes = keep_bytes
        # As private as what the spans hold; SQLite gives its log the same mode.
        path.touch(mode=0o600)
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")
        self._db.executescript(_SCHEMA)
        self._size = int(self._db.execute("SELECT total(size) FROM spans").fetchone()[0])

    @property
    def size(self) -> int:
        """Bytes of spans that are kept."""
        return self._size

    def spans(self, trace_id: str) -> list[bytes]:
        """Return the encoded requests with the spans of an OTel trace."""
        found = self._db.execute(
            "SELECT data FROM spans WHERE trace_id = ? ORDER BY id", (trace_id,)
        )
        return [row[0] for row in found]

    def has_spans(self, trace_id: str) -> bool:
        """Whether spans of an OTel trace are kept."""
        found = self._db.execute("SELECT 1 FROM spans WHERE trace_id = ? LIMIT 1", (trace_id,))
        return found.fetchone() is not None

    def keep(self, trace_id: str, data: bytes) -> None:
        """Keep spans of an OTel trace that are not kept yet."""
        self.begin()
        self._db.execute(
            "INSERT INTO spans (trace_id, at, size, data) VALUES (?,?,?,?)",
            (trace_id, time.time(), len(data), data),
        )
        self._size += len(data)

    def add(self, verdict: Verdict) -> bool:
        """Keep a late reward; False where it is known by its id."""
        self.begin()
        done = self._db.execute(
            "INSERT OR IGNORE INTO rewards (trace_id, run_id, reward_id, span_id, reward, at) "
            "VALUES (?,?,?,?,?,?)",
            (
                verdict.trace_id,
                verdict.run_id,
                verdict.reward.id,
                verdict.span_id,
                orjson.dumps(verdict.reward.to_dict()),
                time.time(),
            ),
        )
        return done.rowcount > 0

    def rewards(self, trace_id: str) -> list[Verdict]:
        """Return the late rewards for runs of an OTel trace, in the order they came."""
        found = self._db.execute(
            "SELECT run_id, span_id, reward FROM rewards WHERE trace_id = ? ORDER BY id",
            (trace_id,),
        )
        return [
            Verdict(trace_id, run_id, span_id, Reward.from_dict(orjson.loads(reward)))
            for run_id, span_id, reward in found
        ]

    def applied(self, trace_id: str, run_ids: list[str]) -> None:
        """Note that what is known of an OTel trace's rewards is in the store."""
        self.begin()
        self._db.executemany(
            "UPDATE rewards SET is_applied = 1 WHERE trace_id = ? AND run_id IN ('', ?)",
            [(trace_id, run_id) for run_id in run_ids],
        )

    def unapplied(self) -> list[str]:
        """Return OTel traces with late rewards that are not in the store yet."""
        found = self._db.execute("SELECT DISTINCT trace_id FROM rewards WHERE is_applied = 0")
        return [row[0] for row in found]

    def forget(self, most: int = 1_000) -> int:
        """Remove what is kept for too long or is too much; return of how many OTel traces."""
        self.begin()
        oldest = time.time() - self._keep_s
        self._db.execute("DELETE FROM rewards WHERE at < ?", (oldest,))
        gone = 0
        # In the order they came, which a clock that was set back does not change.
        rows = self._db.execute("SELECT trace_id, at FROM spans ORDER BY id LIMIT ?", (most,))
        last: dict[str, float] = dict(rows.fetchall())
        for trace_id, at in last.items():
            if at >= oldest and self._size <= self._keep_bytes:
                break
            # All of a trace or nothing: what is left of one would be built as if it were whole.
            found = self._db.execute(
                "SELECT total(size) FROM spans WHERE trace_id = ?", (trace_id,)
            ).fetchone()
            self._db.execute("DELETE FROM spans WHERE trace_id = ?", (trace_id,))
            self._size -= int(found[0])
            gone += 1
        return gone

    def begin(self) -> None:
        """Begin to write, unless it has begun."""
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make what was written count."""
        if self._db.in_transaction:
            self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Forget what was written since the last commit."""
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
            self._size = int(self._db.execute("SELECT total(size) FROM spans").fetchone()[0])

    def close(self) -> None:
        """Let go of the file."""
        self.rollback()
        self._db.close()
