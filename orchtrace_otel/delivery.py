"""Scores finished runs and hands them to the exporters, on a thread of its own.

The host never waits for it: between them is a bounded queue. Where that is full the
oldest run is dropped and counted. A forked child starts with an empty queue and a thread
of its own: what the parent had queued is the parent's to deliver.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from orchtrace_otel._guard import guarded
from orchtrace_otel.exporter import TraceExporter, waiting_in
from orchtrace_otel.finished import Finished
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.own_thread import OwnThread

Parcel: TypeAlias = Finished | tuple[str, Reward]
"""A finished run, or a late reward with the id of its run."""


_MOST_OF_IT: Final = 0.75
"""Share of the time that is left at the end which one exporter may take where others follow."""


def _reason(error: BaseException) -> str:
    """Name an error by its class and the system's words; its own text may hold content."""
    kind = type(error).__name__
    number = error.errno if isinstance(error, OSError) else None
    return kind if number is None else f"{kind}: {os.strerror(number)}"


@guarded
def _taken(finished: Finished) -> Trace:
    return finished.take()


@dataclass(slots=True)
class _Request:
    """What a caller waits for: that the exporters have put down all that came before.

    Attributes:
        after: How many parcels must be dealt with first.
        end: When the caller stops waiting, seconds of the monotonic clock.
        leaving: The exporters to let go of; None where work goes on.
        left: Those of them that are not done with it.
        is_done: Whether it is done.
        is_fine: Whether every exporter did it.
    """

    after: int
    end: float
    leaving: Sequence[TraceExporter] | None = None
    left: Sequence[TraceExporter] = field(init=False)
    is_done: bool = False
    is_fine: bool = True

    def __post_init__(self) -> None:
        self.left = self.leaving or ()


class Delivery:
    """A queue of parcels, and the thread that empties it.

    Args:
        exporters: Who gets each parcel.
        size: Parcels that may wait.
        lose: Called with the kind of a loss and its count.
        delay: Called with the kind of a delay and what waits where: it is no loss so far.
        synchronous: Deliver in `put`, for tests.
    """

    def __init__(
        self,
        exporters: Sequence[TraceExporter],
        size: int,
        lose: Callable[..., None],
        delay: Callable[[str, str], None],
        *,
        synchronous: bool = False,
    ) -> None:
        self._exporters = exporters
        self._size = size
        self._lose = lose
        self._delay = delay
        self._synchronous = synchronous
        self._is_stopped = False
        self._successor: Delivery | None = None
        self.start_afresh()
        afresh_in_children(self)

    def start_afresh(self) -> None:
        """Forget what is queued, and the thread, which a fork leaves behind."""
        self._queue: deque[Parcel] = deque()
        self._requests: deque[_Request] = deque()
        # Held by itself, not by way of the condition: an interrupt that comes while that takes it
        # would leave it taken for ever. Whoever has it may come here again: a signal's handler
        # that ends the process, or a finalizer of a stream that ends with its run.
        self._mutex = threading.RLock()
        self._changed = threading.Condition(self._mutex)
        self._came = 0
        self._gone = 0
        self._is_busy = False
        self._thread: threading.Thread | None = None

    @property
    def has_exporters(self) -> bool:
        """Whether there is anybody to deliver to."""
        return bool(self._exporters)

    def put(self, parcel: Parcel) -> None:
        """Queue a parcel; never blocks."""
        if self._synchronous:
            self._deliver(parcel)
            return
        with self._mutex:
            if self._is_stopped:
                if self._successor is None:
                    self._lose("traces_after_shutdown")
                else:
                    self._successor.put(parcel)
                return
            if len(self._queue) >= self._size:
                self._queue.popleft()
                self._gone += 1
                self._lose("traces_dropped")
            self._queue.append(parcel)
            self._came += 1
            self._has_thread()
            self._changed.notify_all()

    def _has_thread(self) -> bool:
        """Start the thread where there is none; False where nobody else will do the work.

        The interpreter may be past that, or a signal's handler asks while it is being started.
        """
        if self._thread is None:
            self._thread = OwnThread(self._work, "orchtrace-delivery")
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter is shutting down: flush and shutdown deliver
                self._thread = None
        return self._thread is not None and self._thread.ident is not None

    def _work(self) -> None:
        """Deliver parcels and do what is asked in between, until the exporters are let go of."""
        goes_on = True
        while goes_on:
            try:
                goes_on = self._step(wait=True)
            except BaseException as error:  # noqa: BLE001 - an exporter's exit must not end the deliveries
                self._lose(f"export_failed:{type(error).__name__}")

    def _step(self, *, wait: bool) -> bool:
        """Do the next thing; False where there is none, or never will be."""
        with self._mutex:
            while wait and not self._queue and not self._requests:
                self._changed.wait()
            request = parcel = None
            if self._requests and self._requests[0].after <= self._gone:
                request = self._requests.popleft()
            elif self._queue:
                parcel = self._queue.popleft()
                self._is_busy = True
            else:
                return False
        if request is not None:
            self._settle(request)
            return request.leaving is None
        if parcel is not None:
            try:
                self._deliver(parcel)
            finally:
                with self._mutex:
                    self._is_busy = False
                    self._gone += 1
        return True

    def _deliver(self, parcel: Parcel) -> None:
        if isinstance(parcel, Finished):
            trace = _taken(parcel)
            if trace is None:
                self._lose("traces_failed")
            else:
                self._give(lambda exporter: exporter.export(trace))
        else:
            run_id, reward = parcel
            self._give(lambda exporter: exporter.amend(run_id, reward))

    def _give(self, what: Callable[[TraceExporter], None]) -> None:
        for exporter in self._exporters:
            try:
                what(exporter)
            except BaseException as error:  # noqa: BLE001 - see _pass_on
                self._pass_on(error)
                self._lose(f"export_failed:{type(exporter).__name__}", why=_reason(error))

    def _settle(self, request: _Request) -> None:
        for exporter in self._exporters:
            kind = type(exporter).__name__
            try:
                exporter.flush(self._time_for(exporter, request))
            except BaseException as error:  # noqa: BLE001 - see _pass_on
                self._pass_on(error)
                request.is_fine = False
                self._not_put_down(exporter, f"flush_failed:{kind}", _reason(error))
            if any(one is exporter for one in request.left):
                self._let_go(exporter, request)
        with self._mutex:
            request.is_done = True
            self._changed.notify_all()

    def _time_for(self, exporter: TraceExporter, request: _Request) -> float:
        """Return how long an exporter may take; who waits for a server leaves the others time."""
        left = max(request.end - time.monotonic(), 0)
        is_last = request.leaving is None or exporter is self._exporters[-1]
        return left if is_last else left * _MOST_OF_IT

    def _let_go(self, exporter: TraceExporter, request: _Request) -> None:
        try:
            exporter.shutdown()
        except BaseException as error:  # noqa: BLE001 - see _pass_on
            self._pass_on(error)
            request.is_fine = False
            self._lose(f"shutdown_failed:{type(exporter).__name__}", why=_reason(error))
        request.left = [one for one in request.left if one is not exporter]

    def _pass_on(self, error: BaseException) -> None:
        """Raise an interrupt again where the host's thread does our work.

        Whatever else an exporter raises must not cost the others, nor have a caller wait in
        vain: on our own thread that goes for exits and cancellations too.
        """
        if not isinstance(error, Exception) and threading.current_thread() is not self._thread:
            raise error

    def _not_put_down(self, exporter: TraceExporter, kind: str, why: str) -> None:
        """Tell a flush that failed: what an exporter keeps, and tries again, is not lost."""
        waiting = waiting_in(exporter)
        if waiting:
            self._delay(kind, f"{why}: {waiting}")
        else:
            self._lose(kind, why=why)

    def _ask(self, timeout_s: float, leaving: Sequence[TraceExporter] | None = None) -> _Request:
        """Have the exporters put everything down, on their own thread; wait for it in time."""
        with self._mutex:
            after = self._gone + self._is_busy + len(self._queue)
            request = _Request(after, time.monotonic() + timeout_s, leaving)
            self._requests.append(request)
            has_thread = not self._synchronous and self._has_thread()
            self._changed.notify_all()
            if has_thread:
                # Lets go of the mutex as a whole, also where a handler asks in the middle of `put`.
                in_time = min(timeout_s, threading.TIMEOUT_MAX)
                self._changed.wait_for(lambda: request.is_done, in_time)
        if not has_thread:
            while self._step(wait=False):
                pass
        return request

    @property
    def _is_idle(self) -> bool:
        """Whether nothing ever came, and there is nobody to put anything down."""
        return not self._exporters and not self._came

    def flush(self, timeout_s: float) -> bool:
        """Wait until the queue is empty and the exporters have put everything down."""
        if self._is_idle or self._is_stopped:
            return True
        asked = self._ask(timeout_s)
        return asked.is_done and asked.is_fine

    def shutdown(
        self,
        timeout_s: float = 10,
        keep: Sequence[TraceExporter] = (),
        successor: Delivery | None = None,
    ) -> None:
        """Deliver what waits, within `timeout_s` seconds, and let go of the exporters.

        Args:
            timeout_s: How long to wait; what is not delivered by then is counted.
            keep: Exporters that somebody else goes on with.
            successor: Who takes what is put from now on.
        """
        with self._mutex:
            if self._is_stopped:
                return
            self._is_stopped = True
            self._successor = successor
        if self._is_idle:
            return
        leaving = [one for one in self._exporters if not any(one is kept for kept in keep)]
        asked = self._ask(timeout_s, leaving)
        with self._mutex:
            undelivered = len(self._queue) + self._is_busy
            self._gone += len(self._queue)
            self._queue.clear()
        if undelivered:
            self._lose("traces_undelivered", undelivered)
        # One whose work somebody else goes on with has all the time that it needs.
        for exporter in () if asked.is_done or successor is not None else asked.left:
            why = f"not done within {timeout_s:g} s; what it was given may be lost"
            self._lose(f"shutdown_failed:{type(exporter).__name__}", why=why)
