"""A call that gives back a coroutine or a future is open until that is done."""

import asyncio
import concurrent.futures
import contextlib
import gc
import inspect
from collections.abc import Coroutine
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

import orchtrace_otel as orchtrace
from tests.trees import edges, recording
from tests.unit.decorators.crew import CANARY, openings


def test_a_plain_function_that_gives_back_a_coroutine_is_open_until_it_is_awaited() -> None:
    """The agent's work is the coroutine's."""

    async def work() -> str:
        await search_later()
        return "done"

    @orchtrace.agent
    def later() -> Coroutine[Any, Any, str]:
        return work()

    @orchtrace.agent("searcher")
    async def search_later() -> None: ...

    with recording() as captured:
        coroutine = later()
        assert inspect.iscoroutine(coroutine)
        assert asyncio.run(coroutine) == "done"
    assert openings(captured) == ["orchestrator#1 begin", "later#1 spawn", "searcher#1 spawn"]


def test_a_coroutine_that_nobody_awaits_ends_its_call() -> None:
    """Python warns as it did without us; no span and no run is left open."""

    async def work() -> None: ...

    @orchtrace.agent
    def later() -> Coroutine[Any, Any, None]:
        return work()

    with recording() as captured:
        with pytest.warns(RuntimeWarning, match="work' was never awaited") as warned:
            later()
        assert len(warned) == 1
        assert captured.open == {}
    assert captured.trace.events[-1]["status"] == "cancelled"


@pytest.mark.parametrize("way_out", ["result", "error", "cancelled"])
def test_a_function_that_gives_back_a_future_is_open_until_it_is_done(way_out: str) -> None:
    """The future is the very object, and how it ends is how the agent ends."""

    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        @orchtrace.agent
        def later() -> "asyncio.Future[str]":
            return future

        assert later() is future
        settle(future, way_out)
        await asyncio.wait([future])

    with recording() as captured:
        asyncio.run(main())
    assert captured.trace.events[-2]["status"] == {"result": "ok"}.get(way_out, way_out)


@pytest.mark.parametrize("way_out", ["result", "error", "cancelled"])
def test_what_comes_after_a_future_that_is_done_already_follows_from_it(way_out: str) -> None:
    """Who awaits a kept result goes on at once, and may be done before its loop turns."""

    @orchtrace.agent
    def known() -> "asyncio.Future[str]":
        future = asyncio.get_running_loop().create_future()
        settle(future, way_out)
        return future

    @orchtrace.team
    async def team() -> None:
        with contextlib.suppress(ValueError, asyncio.CancelledError):
            await known()
        orchtrace.message("reader")

    with recording() as captured:
        asyncio.run(team())
    assert "known#1.close -return-> message" in edges(captured.trace)
    assert captured.trace.events[-3]["status"] == {"result": "ok"}.get(way_out, way_out)
    assert captured.trace.flags == ()


@pytest.mark.skipif(
    not hasattr(asyncio, "eager_task_factory"), reason="asyncio has them from Python 3.12 on"
)
def test_an_eager_task_that_never_waits_is_done_where_it_is_made() -> None:
    """Of it nothing is open any more, and what comes next follows from it."""

    async def work() -> str:
        return "done"

    @orchtrace.agent
    def begin() -> "asyncio.Task[str]":
        return asyncio.create_task(work())

    @orchtrace.team
    async def team() -> None:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await begin()
        orchtrace.message("reader")

    with recording() as captured:
        asyncio.run(team())
    assert "begin#1.close -return-> message" in edges(captured.trace)
    assert captured.trace.flags == ()


@pytest.mark.parametrize("way_out", ["result", "error", "cancelled"])
def test_a_function_that_gives_back_a_pools_future_is_open_until_it_is_done(way_out: str) -> None:
    """A concurrent future is no different."""
    future: concurrent.futures.Future[str] = concurrent.futures.Future()

    @orchtrace.agent
    def later() -> "concurrent.futures.Future[str]":
        return future

    with recording() as captured:
        assert later() is future
        settle(future, way_out)
    assert captured.trace.events[-2]["status"] == {"result": "ok"}.get(way_out, way_out)


def settle(future: Any, way_out: str) -> None:
    if way_out == "result":
        future.set_result("done")
    elif way_out == "error":
        future.set_exception(ValueError(CANARY))
    else:
        future.cancel()
        if isinstance(future, concurrent.futures.Future):
            future.set_running_or_notify_cancel()


def test_a_future_whose_error_nobody_asks_for_is_told_of_as_ever() -> None:
    """asyncio says so of a task that failed, which to look at its error would keep it from."""
    told: list[str] = []

    async def fail() -> None:
        raise ValueError(CANARY)

    @orchtrace.agent
    def begin() -> "asyncio.Future[None]":
        return asyncio.ensure_future(fail())

    @orchtrace.team
    async def team() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["message"]))
        begin()
        await asyncio.sleep(0.01)
        gc.collect()

    with recording() as captured:
        asyncio.run(team())
    assert told == ["Task exception was never retrieved"]
    assert captured.trace.events[-2]["status"] == "error"


def test_work_elsewhere_is_not_waited_for_and_its_result_not_fetched() -> None:
    """So with Dask: a future that nobody holds is given up, and its result is the cluster's."""

    class Elsewhere:
        def add_done_callback(self, _: object) -> None:
            raise AssertionError

        def result(self) -> None:
            raise AssertionError

    future = Elsewhere()
    with recording() as captured:
        assert orchtrace.agent(lambda: future, name="sender")() is future
    assert captured.trace.events[-2]["status"] == "ok"


@pytest.mark.swallows_errors
def test_something_that_only_looks_like_a_future_comes_back_all_the_same() -> None:
    """Its call ends there and then."""

    class Odd:
        _asyncio_future_blocking = False

        def add_done_callback(self) -> None: ...

    odd = Odd()
    with recording() as captured:
        assert orchtrace.agent(lambda: odd, name="odd")() is odd
    assert captured.trace.events[-1]["status"] == "ok"


class Equal(type):
    """A class of classes that have no hash."""

    def __eq__(cls, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


class Looking(type):
    """A class of classes that look for what they do not have."""

    def __getattr__(cls, name: str) -> Any:
        raise KeyError(name)


class Unhashable(metaclass=Equal):
    """Whether this is a future cannot be looked up."""


class Registry(metaclass=Looking):
    """Whether this is a future cannot be asked."""


@pytest.mark.parametrize("kind", [Unhashable, Registry])
@pytest.mark.parametrize("decorate", [orchtrace.agent, orchtrace.tool, orchtrace.team])
def test_a_result_of_any_class_comes_back(kind: Any, decorate: Any) -> None:
    """Whatever the class of its class does when it is asked; the call is over and is no error."""
    given = kind()

    @decorate
    def work() -> Any:
        return given

    @orchtrace.team
    def outer() -> Any:
        return work()

    with recording() as captured:
        assert outer() is given
    assert not captured.trace.flags
    assert all(span.status.status_code is not StatusCode.ERROR for span in captured.spans)
