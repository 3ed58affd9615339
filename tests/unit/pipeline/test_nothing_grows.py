"""A run that is over leaves nothing behind, in no table and for no collector."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.settings import Settings
from tests.unit.pipeline.following import critic, foreign, lead, observed


class HostError(Exception):
    """What a host raises."""


@orchtrace.team
def failing() -> None:
    """A run that ends with an error."""
    critic()
    raise HostError


@orchtrace.agent
def stream() -> Iterator[int]:
    """An agent whose consumer may leave."""
    yield from range(5)


@orchtrace.team
def abandoning() -> None:
    """A run that drops a generator in the middle."""
    next(iter(stream()))


@orchtrace.team
async def gathering() -> None:
    """A run of tasks, one of which is cancelled."""
    task = asyncio.ensure_future(waiting())
    await asyncio.gather(working(), working())
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@orchtrace.agent
async def waiting() -> None:
    """An agent that is cancelled."""
    await asyncio.Event().wait()


@orchtrace.agent
async def working() -> None:
    """An agent that is not."""
    await asyncio.sleep(0)


@orchtrace.team
def leaving_spans_open() -> None:
    """A run in which another instrumentation forgets to end a span."""
    foreign().start_span("left open")
    orchtrace.message("nobody", "unread")
    orchtrace.spawn("nobody")


def failing_quietly() -> None:
    """A run whose error the host expects."""
    with suppress(HostError):
        failing()


@orchtrace.tool
async def missing() -> None:
    """A tool that fails."""
    raise HostError


@orchtrace.agent
async def breaking_off() -> AsyncIterator[int]:
    """A stream that fails."""
    yield 1
    raise HostError


@orchtrace.agent
def handing_on() -> Coroutine[Any, Any, None]:
    """A plain function that gives back what fails."""
    return _fails()


async def _fails() -> None:
    raise HostError


async def _reads() -> None:
    async for _ in breaking_off():
        pass


@orchtrace.team
async def gathering_errors() -> None:
    """A run whose tasks keep their errors."""
    await asyncio.gather(missing(), handing_on(), _reads(), return_exceptions=True)


def failing_in_tasks() -> None:
    """A run of tasks that fail, in a loop of its own."""
    asyncio.run(gathering_errors())


def gathering_once() -> None:
    """A run of tasks in a loop of its own."""
    asyncio.run(gathering())


def _round() -> None:
    lead()
    with suppress(HostError):
        failing()
    abandoning()
    leaving_spans_open()
    next(iter(stream()))


class Discards:
    """An exporter that keeps nothing."""

    def export(self, trace: Trace) -> None: ...

    def amend(self, run_id: str, reward: Reward) -> None: ...

    def flush(self, timeout_s: float) -> None: ...

    def shutdown(self) -> None: ...


def test_nothing_grows_with_the_number_of_runs() -> None:
    """After a thousand runs of every kind the tables are empty and no object is left."""
    observer = Pipeline(Settings(), [Discards()], synchronous=True)

    async def some(times: int) -> None:
        for _ in range(times):
            await gathering()

    with observed(observer):
        for _ in range(5):
            _round()
        asyncio.run(some(5))
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(160):
            _round()
        asyncio.run(some(200))
        gc.collect()
        gained = len(gc.get_objects()) - before
    assert observer._runs == {}
    assert observer._owners == {}
    # Some of the interpreter's own come and go; a leak would be one an each of the 1,000 runs.
    assert gained < 100


def _ours(found: list[Any]) -> Counter[str]:
    return Counter(
        type(one).__name__ for one in found if type(one).__module__.startswith("orchtrace_otel")
    )


@pytest.mark.parametrize(
    "host",
    [lead, abandoning, leaving_spans_open, failing_quietly, failing_in_tasks, gathering_once],
)
def test_no_activation_waits_for_the_garbage_collector(host: Callable[[], object]) -> None:
    """What a run needed is free when it is over: a collector's pauses are the host's."""
    observer = Pipeline(Settings(), [Discards()], synchronous=True)
    with observed(observer):
        host()
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(100):
                host()
            gc.collect()
            assert _ours(gc.garbage) == {}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
