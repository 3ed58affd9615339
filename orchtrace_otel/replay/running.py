"""Running replays: several at once, each in its time, none taking the others along."""

from __future__ import annotations

import asyncio
import inspect
import math
import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

from orchtrace_otel.errors import ReplayBlockedError
from orchtrace_otel.playback import play_back, playback
from orchtrace_otel.replay.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orchtrace_otel.playback import Recording
    from orchtrace_otel.replay.change import Change
    from orchtrace_otel.replay.replayer import Replayer

    Job = tuple[Change, int]

MOST_LEFT_BEHIND: Final = 64
"""Replays that never end and whose threads are left behind; then no more are started."""

_TICK_S: Final = 0.2


class Runner:
    """Threads that run replays.

    A replay whose time is over cannot be ended from outside: its thread is left behind,
    as a daemon, what it may still bring is dropped, and another takes its place.

    Args:
        replayer: What runs the host's code.
        workers: How many replays at once.
        timeout_s: Seconds that a replay may take; None for any time.
        recording: Results of tools to play back.
    """

    def __init__(
        self,
        replayer: Replayer,
        *,
        workers: int,
        timeout_s: float | None,
        recording: Recording | None,
    ) -> None:
        self._replayer = replayer
        self._workers = workers
        self._timeout_s = timeout_s
        self._recording = recording
        self.left_behind = 0

    def run(self, jobs: Sequence[Job], each: Callable[[int, Outcome], None]) -> None:
        """Run `jobs` and hand each outcome over, with its position, as it comes."""
        batch = _Batch(self, jobs)
        try:
            self._run(batch, len(jobs), each)
        finally:
            batch.drop_waiting()  # where the caller is interrupted, nothing more is begun

    def _run(self, batch: _Batch, count: int, each: Callable[[int, Outcome], None]) -> None:
        for _ in range(min(self._workers, count)):
            self._start(batch)
        done = 0
        while done < count:
            for place, outcome in batch.collect(self._timeout_s):
                done += 1
                each(place, outcome)
            done += self._replace_overdue(batch, each)

    def _start(self, batch: _Batch) -> None:
        if self.left_behind < MOST_LEFT_BEHIND:
            threading.Thread(target=batch.work, daemon=True, name="orchtrace-replay").start()

    def _replace_overdue(self, batch: _Batch, each: Callable[[int, Outcome], None]) -> int:
        overdue = batch.drop_overdue(self._timeout_s)
        for place in overdue:
            self.left_behind += 1
            each(place, Outcome("timed_out"))
            self._start(batch)
        given_up = batch.drop_waiting() if self.left_behind >= MOST_LEFT_BEHIND else []
        for place in given_up:
            each(place, Outcome("timed_out", detail="too many replays never ended"))
        return len(overdue) + len(given_up)

    def outcome(self, change: Change, seed: int) -> Outcome:
        """Run one replay in this thread, whatever it raises; nothing in it is traced."""
        try:
            number = self._value(change, seed)
        except ReplayBlockedError as blocked:
            return Outcome("blocked", detail=str(blocked))
        except Exception as error:  # noqa: BLE001 - the host's own code; it costs this replay alone
            return Outcome("failed", detail=type(error).__name__)
        if not math.isfinite(number):
            return Outcome("failed", detail="not finite")
        return Outcome("value", number)

    def _value(self, change: Change, seed: int) -> float:
        # In a context of its own: verbs in the host's code must not reach a run that is open.
        token = otel_context.attach(play_back(self._recording, _unsampled()))
        played = playback()
        try:
            with suppress_instrumentation():
                value: Any = self._replayer.value(change, seed)
                if inspect.isawaitable(value):
                    value = asyncio.run(_wait_for(value))
            number = float(value)
        except Exception as error:
            # Hosts may make something else of what a tool raises that is held back.
            if played is not None and played.blocked is not None:
                raise ReplayBlockedError(played.blocked) from error
            raise
        finally:
            otel_context.detach(token)
        if played is not None and played.blocked is not None:
            raise ReplayBlockedError(played.blocked)  # which the host has caught
        return number


def _unsampled() -> Context:
    """Return a context in which spans are dropped, also of who knows nothing of suppression.

    Samplers that follow the parent, as the SDK's own does, find one that is not sampled.
    """
    parent = SpanContext(trace_id=1, span_id=1, is_remote=False)
    return set_span_in_context(NonRecordingSpan(parent), Context())


async def _wait_for(value: Any) -> Any:
    return await value


class _Batch:
    """Jobs that wait, and those that run since when."""

    def __init__(self, runner: Runner, jobs: Sequence[Job]) -> None:
        self._runner = runner
        self._jobs = jobs
        self._lock = threading.Lock()
        self._waiting = deque(range(len(jobs)))
        self._running: dict[int, float] = {}
        self._done: queue.SimpleQueue[tuple[int, Outcome]] = queue.SimpleQueue()

    def work(self) -> None:
        """Run jobs until none waits, or until this thread was given up."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                place = self._waiting.popleft()
                self._running[place] = time.monotonic()
            try:
                outcome = self._runner.outcome(*self._jobs[place])
            except BaseException as error:  # noqa: BLE001 - an exit of a thread is no end of us
                outcome = Outcome("failed", detail=type(error).__name__)
            with self._lock:
                if self._running.pop(place, None) is None:
                    return
            self._done.put((place, outcome))

    def collect(self, timeout_s: float | None) -> list[tuple[int, Outcome]]:
        """Wait a moment for outcomes, and return those that came."""
        found: list[tuple[int, Outcome]] = []
        wait = _TICK_S if timeout_s is None else min(_TICK_S, timeout_s / 4)
        try:
            found.append(self._done.get(timeout=wait))
            while True:
                found.append(self._done.get_nowait())
        except queue.Empty:
            return found

    def drop_overdue(self, timeout_s: float | None) -> list[int]:
        """Forget the running jobs whose time is over, and return them."""
        if timeout_s is None:
            return []
        limit = time.monotonic() - timeout_s
        with self._lock:
            overdue = [place for place, since in self._running.items() if since < limit]
            for place in overdue:
                del self._running[place]
        return overdue

    def drop_waiting(self) -> list[int]:
        """Forget the jobs that no thread is there for any more, and return them."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        return waiting
