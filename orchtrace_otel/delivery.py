"""Hands finished traces to the exporters on a thread of its own, through a bounded queue.

The host never waits for an exporter. Where the queue is full the oldest trace is
dropped and counted. A forked child starts with an empty queue and a thread of its
own: what the parent had queued is the parent's to deliver.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from orchtrace_otel._guard import warn_once
from orchtrace_otel.exporter import TraceExporter
from orchtrace_otel.model import Reward, Trace

Parcel: TypeAlias = Trace | tuple[str, Reward]
"""A finished trace, or a late reward with the id of its run."""


class Delivery:
    """A queue of parcels, and the thread that empties it.

    Args:
        exporters: Who gets each parcel.
        size: Parcels that may wait.
        lose: Called with the kind of a loss and its count.
        synchronous: Deliver in `put`, for tests.
    """

    def __init__(
        self,
        exporters: Sequence[TraceExporter],
        size: int,
        lose: Callable[..., None],
        *,
        synchronous: bool = False,
    ) -> None:
        self._exporters = exporters
        self._size = size
        self._lose = lose
        self._synchronous = synchronous
        self._start_afresh()
        if hasattr(os, "register_at_fork"):
            own = weakref.WeakMethod(self._start_afresh)
            os.register_at_fork(after_in_child=lambda: _call(own))

    def _start_afresh(self) -> None:
        self._queue: deque[Parcel] = deque()
        self._changed = threading.Condition()
        self._is_busy = False
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def put(self, parcel: Parcel) -> None:
        """Queue a parcel; never blocks."""
        if not self._exporters:
            return
        if self._synchronous:
            self._deliver(parcel)
            return
        with self._changed:
            if self._is_stopped:
                self._lose("traces_after_shutdown")
                return
            if len(self._queue) >= self._size:
                self._queue.popleft()
                self._lose("traces_dropped")
            self._queue.append(parcel)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="orchtrace-delivery", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._is_stopped:
                    self._changed.wait()
                if not self._queue:
                    return
                parcel = self._queue.popleft()
                self._is_busy = True
            self._deliver(parcel)
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def _deliver(self, parcel: Parcel) -> None:
        for exporter in self._exporters:
            try:
                if isinstance(parcel, Trace):
                    exporter.export(parcel)
                else:
                    exporter.amend(*parcel)
            except Exception as error:  # noqa: BLE001 - a destination's failure must not cost the others
                kind = type(exporter).__name__
                self._lose(f"export_failed:{kind}")
                warn_once(f"export:{kind}", "exporter %s failed with %s", kind, type(error).__name__)

    def flush(self, timeout_s: float) -> bool:
        """Wait until the queue is empty and the exporters have put everything down."""
        end = time.monotonic() + timeout_s
        with self._changed:
            while self._queue or self._is_busy:
                left = end - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return False
        for exporter in self._exporters:
            try:
                exporter.flush(max(end - time.monotonic(), 0))
            except Exception:  # noqa: BLE001 - see _deliver
                self._lose(f"flush_failed:{type(exporter).__name__}")
                return False
        return True

    def shutdown(self, timeout_s: float = 10) -> None:
        """Deliver what waits, within `timeout_s` seconds, and let go of the exporters."""
        self.flush(timeout_s)
        with self._changed:
            if self._is_stopped:
                return
            self._is_stopped = True
            undelivered = len(self._queue)
            self._queue.clear()
            self._changed.notify_all()
        if undelivered:
            self._lose("traces_undelivered", undelivered)
        for exporter in self._exporters:
            try:
                exporter.shutdown()
            except Exception:  # noqa: BLE001 - see _deliver
                self._lose(f"shutdown_failed:{type(exporter).__name__}")


def _call(own: weakref.WeakMethod[Callable[[], None]]) -> None:
    method = own()
    if method is not None:
        method()
