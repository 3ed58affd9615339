"""The thread that writes the spool: many requests in one write, none acknowledged before it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from orchtrace_otel.collect.admission import RefusedError
from orchtrace_otel.collect.metrics import Metrics
from orchtrace_otel.collect.spool import Spool

_MOST_AT_ONCE: Final = 8 * 2**20
"""Bytes of one write, so that the first of many does not wait for all."""

_RETRY_S: Final = 2
_IDLE_S: Final = 1.0


class Accepted(NamedTuple):
    """A request on its way from the spool to the open runs.

    Attributes:
        segment: Segment of the spool that holds it; held until it is taken up.
        content: Parts of spans, or verdicts.
        size: Bytes.
    """

    segment: int
    content: list[Any]
    size: int


class _Wanted(NamedTuple):
    kind: int
    payload: bytes
    content: list[Any]
    done: Callable[[Exception | None], None]


class Writer:
    """A bounded queue before the spool, and another one behind it.

    Args:
        spool: Where to write.
        take: Called with what is written, in order, on the writer's thread.
        most: Bytes that may wait in both queues together.
        metrics: Where to count what fails.
    """

    def __init__(
        self, spool: Spool, take: Callable[[Accepted], None], most: int, metrics: Metrics
    ) -> None:
        self.waiting_bytes = 0
        self.fault: str | None = None
        self._spool = spool
        self._take = take
        self._most = most
        self._metrics = metrics
        self._queue: deque[_Wanted] = deque()
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._work, name="orchtrace-spool", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(
        self,
        kind: int,
        payload: bytes,
        content: list[Any],
        done: Callable[[Exception | None], None],
    ) -> None:
        """Have a request written; `done` is called on the writer's thread with what went wrong.

        Raises:
            RefusedError: If too much waits.
        """
        with self._changed:
            if self._is_stopped:
                msg = "this collector is about to end"
                raise RefusedError(msg, "unavailable", _RETRY_S)
            if self.waiting_bytes and self.waiting_bytes + len(payload) > self._most:
                msg = "spans come faster than they can be taken"
                raise RefusedError(msg, "busy", _RETRY_S)
            self.waiting_bytes += len(payload)
            self._queue.append(_Wanted(kind, payload, content, done))
            self._changed.notify()

    def taken_up(self, size: int) -> None:
        """Say that something is no longer waiting."""
        with self._changed:
            self.waiting_bytes -= size

    def stop(self) -> None:
        """Write what waits, and end."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            group = self._next()
            if not group:
                if self._is_stopped:
                    return
                self._sync_late()
                continue
            try:
                segment = self._spool.append([(one.kind, one.payload) for one in group])
            except Exception as error:  # noqa: BLE001 - whatever it is, senders must hear of it
                self._fail(group, error)
            else:
                self.fault = None
                for one in group:
                    self._take(Accepted(segment, one.content, len(one.payload)))
                    one.done(None)

    def _next(self) -> list[_Wanted]:
        group: list[_Wanted] = []
        size = 0
        with self._changed:
            if not self._queue and not self._is_stopped:
                self._changed.wait(_IDLE_S)
            while self._queue and size < _MOST_AT_ONCE:
                group.append(self._queue.popleft())
                size += len(group[-1].payload)
        return group

    def _sync_late(self) -> None:
        try:
            self._spool.sync_late()
        except OSError:
            self._metrics.count("failures", "fsync")

    def _fail(self, group: list[_Wanted], error: Exception) -> None:
        why = getattr(error, "strerror", None) or type(error).__name__
        self.fault = f"the spool cannot be written: {why}"
        self._metrics.count("failures", "spool")
        for one in group:
            self.taken_up(len(one.payload))
            one.done(RefusedError(self.fault, "unavailable", _RETRY_S))
