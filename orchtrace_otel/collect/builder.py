"""The thread that takes up what was acknowledged, and closes what is due."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from orchtrace_otel.collect.admission import Bounds
from orchtrace_otel.collect.archive import Archive
from orchtrace_otel.collect.closing import Closer
from orchtrace_otel.collect.parts import UNBOUNDED, Part, Rejected, parts_of
from orchtrace_otel.collect.runs import OpenRuns, OpenTrace
from orchtrace_otel.collect.spool import LOGS, SPANS, Record, Spool
from orchtrace_otel.collect.verdicts import Verdict
from orchtrace_otel.collect.verdicts import read as read_verdicts
from orchtrace_otel.collect.writing import Accepted

_logger = logging.getLogger("orchtrace_otel")

_ROUND_S: Final = 0.2
"""How long a round closes traces before it commits and looks what came."""

_MOST_SEGMENTS: Final = 16
"""Segments of the spool beyond which what old ones hold is written anew."""

_MOST_UNCOMMITTED: Final = 32 * 2**20
"""Bytes of traces that may wait for a commit, where the store is slow to settle."""

_RETRY_S: Final = 1.0
_PAUSE_S: Final = 0.2
_FORGET_S: Final = 30.0
_LONGEST_WAIT_S: Final = 1.0


class _Done:
    """What was done since the last commit: to be let go of when it counts, or done again.

    Attributes:
        segments: Holds on the spool to release.
        closed: Traces that closed, and how many of their parts were kept before.
        verdicts: Late rewards that were taken.
    """

    def __init__(self) -> None:
        self.segments: list[int] = []
        self.closed: list[tuple[OpenTrace, int]] = []
        self.verdicts: list[Verdict] = []


def _nobody(_: int) -> None:
    """Nobody waits for what is taken up."""


class Builder:
    """Owns the open runs; everything of it but `put` happens on its thread.

    Args:
        runs: The open runs.
        closer: What builds and stores them.
        archive: What was kept of runs that closed before.
        spool: What holds the records of open runs.
        bounds: How much may be open at once, also while the spool is taken up again.

    Attributes:
        fault: Why nothing can be stored; None while all goes well.
        taken_up: Called with the size of what no longer waits.
    """

    def __init__(
        self, runs: OpenRuns, closer: Closer, archive: Archive, spool: Spool, bounds: Bounds
    ) -> None:
        self.taken_up: Callable[[int], None] = _nobody
        self.fault: str | None = None
        self.runs = runs
        self._closer = closer
        self._archive = archive
        self._spool = spool
        self._bounds = bounds
        self._metrics = closer.metrics
        self._queue: deque[Accepted] = deque()
        self._changed = threading.Condition()
        self._is_stopped = False
        self._done = _Done()
        self._is_owed = False  # a trace could not be stored, and waits for its next try
        self._forgot = self._committed = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="orchtrace-builder", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def put(self, accepted: Accepted) -> None:
        """Hand over what is in the spool."""
        with self._changed:
            self._queue.append(accepted)
            self._changed.notify()

    def stop(self) -> None:
        """Take up what waits, close what has its roots, and end; the spool keeps the rest."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        self._thread.join()

    def replay(self, records: Iterable[Record]) -> None:
        """Take up what an earlier process left in the spool; before `start`."""
        for record in records:
            content: list[Part] | list[Verdict]
            if record.kind == LOGS:
                content, _ = read_verdicts(record.payload, UNBOUNDED, Rejected())
            else:
                content = list(parts_of(record.payload))
            self._absorb(Accepted(record.segment, content, 0), time.monotonic())
            if self.runs.size > self._bounds.open_bytes:
                self._round(is_last=False)

    def resume(self) -> None:
        """Take up late rewards that an earlier process did not apply; before `start`."""
        now = time.monotonic()
        for trace_id in self._archive.unapplied():
            self._reopen(trace_id, now)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._queue and not self._is_stopped:
                    self._changed.wait(self._wait_s())
                is_last = self._is_stopped
            try:
                self._round(is_last=is_last)
            except Exception as error:  # noqa: BLE001 - whatever it is, senders must hear of it
                self._fail(error)
                if not is_last:
                    time.sleep(_PAUSE_S)
            if is_last:
                return

    def _wait_s(self) -> float:
        deadline = self.runs.next_deadline()
        if deadline is None:
            return _LONGEST_WAIT_S
        return min(max(deadline - time.monotonic(), 0.0), _LONGEST_WAIT_S)

    def _round(self, *, is_last: bool) -> None:
        self._redo_verdicts()
        began = time.monotonic()
        while self._queue and (is_last or time.monotonic() - began < _ROUND_S):
            self._absorb(self._queue[0], time.monotonic())
            self._queue.popleft()
        began = time.monotonic()
        for opened, reason in self.runs.due(began):
            self._close(opened, reason)
            if time.monotonic() - began > _ROUND_S and not is_last:
                break
        if is_last:
            for opened in self.runs.rest():
                self._close(opened, "end")
        self._forget(began)
        if is_last or self._is_commit_due(began):
            self._commit()
        self._move_up()
        if not self._is_owed:
            self.fault = None

    def _absorb(self, accepted: Accepted, now: float) -> None:
        """Take up a record; once more does no harm, should it fail in the middle."""
        for item in accepted.content:
            if isinstance(item, Part):
                self._take_part(item, accepted.segment, now)
            else:
                self._take_verdict(item, now)
        self._done.segments.append(accepted.segment)
        self.taken_up(accepted.size)

    def _take_part(self, part: Part, segment: int, now: float) -> None:
        trace_id = part.trace_id.hex()
        opened = self.runs.get(trace_id) or self._open(trace_id, now)
        new = self.runs.take(opened, part, now)
        self._metrics.count("spans", "resent", len(part.marks) - new)
        if new:
            opened.is_news = True
            if segment not in opened.segments:
                opened.segments.add(segment)
                self._spool.hold(segment)

    def _open(self, trace_id: str, now: float) -> OpenTrace:
        """Open an OTel trace, with what is kept of it from before."""
        kept = self._archive.spans(trace_id)
        opened = self.runs.open(trace_id, now)
        for data in kept:
            for part in parts_of(data):
                self.runs.take(opened, part, now)
        opened.kept = len(opened.parts)
        return opened

    def _take_verdict(self, verdict: Verdict, now: float) -> None:
        is_new = self._archive.add(verdict)
        self._metrics.count("rewards", "accepted" if is_new else "resent")
        if is_new:
            self._done.verdicts.append(verdict)
            self._reopen(verdict.trace_id, now)

    def _reopen(self, trace_id: str, now: float) -> None:
        """Have the runs of an OTel trace that closed before built again, for a late reward."""
        opened = self.runs.get(trace_id)
        if opened is None:
            opened = self._open(trace_id, now)
            self.runs.wait_for(opened, now + _RETRY_S)
        opened.is_news = True

    def _close(self, opened: OpenTrace, reason: str) -> None:
        self._done.closed.append((opened, opened.kept))
        if opened.is_news:
            if opened.parts:
                self._closer.close(opened)
            else:
                self._closer.amend(opened.trace_id)
            self._metrics.count("closed", reason)

    def _is_commit_due(self, now: float) -> bool:
        is_much = sum(opened.size for opened, _ in self._done.closed) > _MOST_UNCOMMITTED
        return is_much or now - self._committed >= self._closer.commit_every_s

    def _commit(self) -> None:
        self._committed = time.monotonic()
        self._closer.commit()
        self.runs.committed()
        done, self._done = self._done, _Done()
        if done.closed:
            self._is_owed = False
        for segment in done.segments:
            self._spool.release(segment)
        for opened, _ in done.closed:
            for segment in opened.segments:
                self._spool.release(segment)

    def _redo_verdicts(self) -> None:
        """Take late rewards again whose taking did not come to count."""
        for verdict in self._done.verdicts:
            self._archive.add(verdict)

    def _move_up(self) -> None:
        """Write spans of runs that are open for long anew, so that old segments can go.

        Without it a run that stays open would keep the whole segment it began in.
        """
        oldest = self._spool.oldest()
        if oldest is None or self._spool.segments <= _MOST_SEGMENTS:
            return
        for opened in self.runs:
            if oldest in opened.segments:
                data = b"".join(opened.parts[opened.kept :])
                segment = self._spool.append([(SPANS, data)])
                left, opened.segments = opened.segments, {segment}
                for one in left:
                    self._spool.release(one)
                self._metrics.count("moved", by=len(data))

    def _forget(self, now: float) -> None:
        # Where there was something to forget there may be more: go on in the next round.
        if now - self._forgot >= _FORGET_S and not self._archive.forget():
            self._forgot = now

    def _fail(self, error: Exception) -> None:
        """Go on later: what is open stays open, and the spool keeps it meanwhile."""
        if self.fault is None:
            _logger.error(
                "orchtrace collect cannot write its store and takes nothing until it can (%s: %s)",
                type(error).__name__,
                error,
                exc_info=None if isinstance(error, OSError | sqlite3.Error) else error,
            )
        self.fault = f"the store cannot be written: {type(error).__name__}"
        self._metrics.count("failures", "store")
        retry = time.monotonic() + _RETRY_S
        for opened, kept in self._done.closed:
            self._is_owed = True
            opened.kept = kept
            self.runs.put_back(opened, retry)
        self._done.closed.clear()
        try:
            self._closer.doubt()
        except sqlite3.Error:
            self._metrics.count("failures", "rollback")
