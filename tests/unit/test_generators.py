"""Generators of both kinds: open from the first item to the end, current only while they work."""

import asyncio
import contextvars
import functools
import gc
import inspect
import logging
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest
from opentelemetry import context as otel_context

import orchtrace_otel as orchtrace
from orchtrace_otel import spans
from tests.trees import recording, tree


@pytest.fixture(autouse=True)
def no_complaint_of_contexts(caplog: pytest.LogCaptureFixture) -> Generator[None, None, None]:
    """Fail where OpenTelemetry logs that a context was detached in the wrong place."""
    with caplog.at_level(logging.DEBUG, logger="opentelemetry.context"):
        yield
    assert [record for record in caplog.records if record.name == "opentelemetry.context"] == []


@orchtrace.tool
def look_up(number: int) -> int:
    return number


@orchtrace.agent
def counter(most: int) -> Generator[int, int | None, str]:
    for number in range(most):
        sent = yield look_up(number)
        if sent is not None:
            yield sent * 100
    return "counted"


@orchtrace.agent
async def acounter(most: int) -> AsyncGenerator[int, int | None]:
    for number in range(most):
        await asyncio.sleep(0)
        sent = yield look_up(number)
        if sent is not None:
            yield sent * 100


def agent_tree(agent: str, *, numbers: int, status: str = "ok", behind: str = "") -> str:
    """Draw the run of one counting agent that was called outermost."""
    stop = {"ok": "information_complete", "error": "error"}.get(status, "consumer_closed")
    mark = "" if status == "ok" else f" [{status}]"
    lines = ["orchestrator#1 begin", f"  {agent}#1 spawn < spawn orchestrator#1.open"]
    for number in range(1, numbers + 1):
        name = "look_up" if number == 1 else f"look_up:{number}"
        before = "look_up" if number == 2 else f"look_up:{number - 1}"
        cause = f", tool_dependency {before}.close" if number > 1 else ""
        lines += [f"    {name}.open < causal {agent}#1.open{cause}", f"    {name}.close"]
    last = f" < tool_dependency {name}.close"
    lines.append(f"  {agent}#1.close{behind}{mark}{last}")
    lines.append(f"  stop {stop}{stop_detail(status, behind)}{mark} < return {agent}#1.close")
    return "\n".join(lines)


def stop_detail(status: str, behind: str) -> str:
    if status == "cancelled":
        return " GeneratorExit"
    return f"{behind}{behind}" if status == "error" else ""


# -- generators ---------------------------------------------------------------------


def test_a_generator_is_one_activation_from_its_first_item_to_its_end() -> None:
    """Its items, its return value and what it calls are as they were."""
    with recording() as captured:
        generator = counter(3)
        items = [next(generator) for _ in range(3)]
        with pytest.raises(StopIteration, match="counted") as end:
            next(generator)
        assert end.value.value == "counted"
    assert items == [0, 1, 2]
    assert tree(captured.trace) == agent_tree("counter", numbers=3)


def test_nothing_is_recorded_before_the_first_item() -> None:
    """A generator that is never asked has done nothing."""
    with recording() as captured:
        generator = counter(3)
        assert captured.started == 0
        generator.close()
    assert captured.traces == []


def test_a_generator_takes_what_is_sent() -> None:
    """`send` reaches the host's generator, and its answer comes back."""
    with recording() as captured:
        generator = counter(2)
        assert [next(generator), generator.send(7), next(generator)] == [0, 700, 1]
        assert list(generator) == []
    assert tree(captured.trace) == agent_tree("counter", numbers=2)


def test_an_exception_thrown_in_reaches_the_host_as_the_same_object() -> None:
    """What is thrown in and not caught comes out again, and is the agent's error."""
    thrown = ValueError("the canary")
    with recording() as captured:
        generator = counter(2)
        next(generator)
        with pytest.raises(ValueError, match="canary") as caught:
            generator.throw(thrown)
    assert caught.value is thrown
    assert tree(captured.trace) == agent_tree(
        "counter", numbers=1, status="error", behind=" ValueError"
    )


def test_an_exception_that_the_host_catches_is_no_error() -> None:
    """A generator that answers what was thrown in goes on."""

    @orchtrace.agent
    def brave() -> Generator[str, None, str]:
        try:
            yield "first"
        except KeyError:
            yield "caught"
        return "fine"

    with recording() as captured:
        generator = brave()
        assert next(generator) == "first"
        assert generator.throw(KeyError("x")) == "caught"
        assert list(generator) == []
    assert captured.trace.events[-2]["status"] == "ok"


def test_a_generator_that_is_closed_is_cancelled_not_failed() -> None:
    """Its consumer left; its own clean-up ran, inside the activation."""
    cleaned: list[str | None] = []

    @orchtrace.agent
    def careful() -> Generator[int, None, None]:
        try:
            yield look_up(0)
        finally:
            current = spans.current()
            cleaned.append(None if current is None else current.agent)

    with recording() as captured:
        generator = careful()
        next(generator)
        generator.close()
        generator.close()
    assert cleaned == ["careful"]
    assert tree(captured.trace) == agent_tree("careful", numbers=1, status="cancelled")
    assert all(span.status.is_ok or span.status.is_unset for span in captured.spans)


def _returns() -> Generator[int, None, str]:
    try:
        yield 1
    except GeneratorExit:
        return "left"
    return "read"


def _ends() -> Generator[int, None, None]:
    yield 1


def _raises() -> Generator[int, None, None]:
    try:
        yield 1
    except GeneratorExit:
        raise KeyError from None


def _told(ask: Callable[[], object]) -> str:
    try:
        return repr(ask())
    except BaseException as error:  # noqa: BLE001 - what it raises is what is compared
        return f"{error!r} {getattr(error, 'value', None)}"


@pytest.mark.parametrize("function", [_returns, _ends, _raises])
@pytest.mark.parametrize("way", ["close", "throw"])
def test_a_generator_says_what_it_said_when_it_is_told_to_end(function: Any, way: str) -> None:
    """What it returns is what `throw`, and from Python 3.13 on `close`, tells who ended it."""

    def ended(generator: Any) -> list[str]:
        next(generator)
        end = generator.close if way == "close" else lambda: generator.throw(GeneratorExit())
        return [_told(end), _told(lambda: next(generator))]

    with recording() as captured:
        traced = ended(orchtrace.agent(function)())
    assert traced == ended(function())
    is_error = function is _raises
    assert captured.trace.events[-2]["status"] == ("error" if is_error else "cancelled")


def test_a_generator_that_ignores_being_closed_fails_as_it_did() -> None:
    """The interpreter's RuntimeError comes out, as it does without tracing."""

    @orchtrace.agent
    def stubborn() -> Generator[int, None, None]:
        try:
            yield 1
        except GeneratorExit:
            yield 2  # the very fault that is tried here

    with recording() as captured:
        generator = stubborn()
        next(generator)
        with pytest.raises(RuntimeError, match="generator ignored GeneratorExit"):
            generator.close()
    assert captured.trace.events[-1]["stop_reason"] == "error"


def test_a_generator_that_is_dropped_half_way_is_closed_by_the_collector() -> None:
    """Its spans end, its run stops, and nobody is told of an error."""
    with recording() as captured:
        generator = counter(5)
        next(generator)
        del generator
        gc.collect()
        assert captured.open == {}
    assert tree(captured.trace) == agent_tree("counter", numbers=1, status="cancelled")


def test_nothing_is_current_between_two_items() -> None:
    """The consumer's context is its own before, between and after the items."""
    with recording():
        before = otel_context.get_current()
        generator = counter(2)
        for _ in generator:
            assert otel_context.get_current() is before
            assert orchtrace.current_run() is None
        assert otel_context.get_current() is before


def test_two_generators_may_be_read_in_turns() -> None:
    """Interleaved generators of one team each keep what they call to themselves."""

    @orchtrace.team
    def team() -> list[tuple[int, int]]:
        return list(zip(counter(2), counter(2), strict=True))

    with recording() as captured:
        assert team() == [(0, 0), (1, 1)]
    owners = {
        event["instance"]: [
            e.verb for e in captured.trace.events if e["activation"] == event["activation"]
        ]
        for event in captured.trace.events
        if event.verb == "spawn"
    }
    assert owners == {
        f"counter#{life}": ["spawn", *["tool_call", "tool_result"] * 2, "return"] for life in (1, 2)
    }


def test_items_may_be_asked_for_by_different_threads_and_contexts() -> None:
    """Each step runs where it is asked for; the trace is that of one consumer."""
    with recording() as captured:
        generator = counter(3)
        items = [next(generator), contextvars.Context().run(next, generator)]
        thread = threading.Thread(target=lambda: items.extend(generator))
        thread.start()
        thread.join()
    assert items == [0, 1, 2]
    assert tree(captured.trace) == agent_tree("counter", numbers=3)


def test_a_generator_that_delegates_to_another_nests_it() -> None:
    """`yield from` an agent is an agent inside, with its value coming back."""

    @orchtrace.agent
    def outer() -> Generator[int, int | None, str]:
        return (yield from counter(1)) + "!"

    @orchtrace.team
    def team() -> str:
        generator = outer()
        try:
            while True:
                next(generator)
        except StopIteration as end:
            return str(end.value)

    with recording() as captured:
        assert team() == "counted!"
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  outer#1 spawn < spawn team#1.open\n"
        "    counter#1 spawn < spawn outer#1.open\n"
        "      look_up.open < causal counter#1.open\n"
        "      look_up.close\n"
        "    counter#1.close < tool_dependency look_up.close\n"
        "  outer#1.close < return counter#1.close\n"
        "  stop information_complete < return outer#1.close"
    )


def test_a_team_may_be_a_generator() -> None:
    """A run is open while its items are read, and stops as its consumer leaves."""

    @orchtrace.team
    def team() -> Generator[int, None, None]:
        for number in range(3):
            yield look_up(number)

    with recording() as captured:
        for item in team():
            if item == 1:
                break
        gc.collect()
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  look_up.open < causal team#1.open\n"
        "  look_up.close\n"
        "  look_up:2.open < causal team#1.open, tool_dependency look_up.close\n"
        "  look_up:2.close\n"
        "  stop consumer_closed GeneratorExit [cancelled] < tool_dependency look_up:2.close"
    )


def test_a_generator_that_is_a_coroutine_can_still_be_awaited() -> None:
    """As `types.coroutine` makes them, of a function, a partial or a method."""

    class Old:
        @types.coroutine
        def wait(self, answer: int) -> Generator[None, None, int]:
            yield
            return answer

    async def wait_for_all() -> list[int]:
        bound = Old().wait
        ways = (bound, functools.partial(bound, 1), functools.partial(Old.wait, Old()))
        given: list[tuple[int, ...]] = [(1,), (), (1,)]
        traced = [orchtrace.agent("old")(way) for way in ways]
        return [await one(*args) for one, args in zip(traced, given, strict=True)]

    with recording() as captured:
        assert asyncio.run(wait_for_all()) == [1, 1, 1]
    assert len(captured.traces) == 3
    assert all(trace.events[-2]["status"] == "ok" for trace in captured.traces)


def test_wrong_arguments_raise_the_same_error_and_begin_nothing() -> None:
    """A generator that is called wrongly says so when it is first asked, as its own words."""
    with recording() as captured:
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'most'"):
            next(counter())  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'most'"):
            asyncio.run(_awaited(anext(acounter())))  # type: ignore[call-arg]
    assert captured.started == 0


# -- async generators ---------------------------------------------------------------


async def read(generator: AsyncGenerator[int, int | None]) -> list[int]:
    return [item async for item in generator]


def test_an_async_generator_is_one_activation_from_its_first_item_to_its_end() -> None:
    """Its items and what it calls are as they were."""
    with recording() as captured:
        assert asyncio.run(read(acounter(3))) == [0, 1, 2]
    assert tree(captured.trace) == agent_tree("acounter", numbers=3)


def test_an_async_generator_takes_what_is_sent() -> None:
    """`asend` reaches the host's generator, and its answer comes back."""

    async def main() -> list[int]:
        generator = acounter(2)
        items = [await anext(generator), await generator.asend(7), await anext(generator)]
        assert await read(generator) == []
        return items

    with recording() as captured:
        assert asyncio.run(main()) == [0, 700, 1]
    assert tree(captured.trace) == agent_tree("acounter", numbers=2)


def test_an_exception_thrown_into_an_async_generator_is_the_same_object() -> None:
    """What `athrow` brings and nobody catches comes out again, and is the agent's error."""
    thrown = ValueError("the canary")

    async def main() -> None:
        generator = acounter(2)
        await anext(generator)
        with pytest.raises(ValueError, match="canary") as caught:
            await generator.athrow(thrown)
        assert caught.value is thrown

    with recording() as captured:
        asyncio.run(main())
    assert tree(captured.trace) == agent_tree(
        "acounter", numbers=1, status="error", behind=" ValueError"
    )


@pytest.mark.parametrize("in_another_task", [False, True])
def test_an_async_generator_that_is_closed_is_cancelled_not_failed(in_another_task: bool) -> None:
    """`aclose` works from any task, and its own clean-up runs inside the activation."""
    cleaned: list[str | None] = []

    @orchtrace.agent
    async def careful() -> AsyncGenerator[int, None]:
        try:
            yield look_up(0)
        finally:
            await asyncio.sleep(0)
            current = spans.current()
            cleaned.append(None if current is None else current.agent)

    async def main() -> None:
        generator = careful()
        await anext(generator)
        closing = generator.aclose()
        await (asyncio.create_task(_awaited(closing)) if in_another_task else closing)

    with recording() as captured:
        asyncio.run(main())
    assert cleaned == ["careful"]
    assert tree(captured.trace) == agent_tree("careful", numbers=1, status="cancelled")


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def test_an_async_generator_left_by_a_break_is_closed_by_the_loop() -> None:
    """Nobody calls `aclose`: the collector and the loop's hooks do."""

    async def main() -> None:
        async for _ in acounter(5):
            break
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    with recording() as captured:
        asyncio.run(main())
    assert tree(captured.trace) == agent_tree("acounter", numbers=1, status="cancelled")


def test_an_async_generator_that_the_loop_shuts_down_ends_its_spans() -> None:
    """`asyncio.run` closes what is half read when it ends."""
    kept: list[AsyncGenerator[int, int | None]] = []

    async def main() -> None:
        kept.append(acounter(5))
        await anext(kept[0])

    with recording() as captured:
        asyncio.run(main())
    assert tree(captured.trace) == agent_tree("acounter", numbers=1, status="cancelled")


def test_each_item_may_be_asked_for_in_a_task_of_its_own() -> None:
    """As some servers do: every step in another task, with another context."""

    async def main() -> list[int]:
        generator = acounter(3)
        items: list[int] = []
        while True:
            try:
                items.append(await asyncio.create_task(_awaited(anext(generator))))
            except StopAsyncIteration:
                return items

    with recording() as captured:
        assert asyncio.run(main()) == [0, 1, 2]
    assert tree(captured.trace) == agent_tree("acounter", numbers=3)


def test_a_generator_returns_to_its_caller_although_other_tasks_read_it() -> None:
    """A run that reads each item in a new task still gets the return of the agent."""

    @orchtrace.team
    async def team() -> None:
        generator = acounter(2)
        for _ in range(2):
            await asyncio.create_task(_awaited(anext(generator)))
        with pytest.raises(StopAsyncIteration):
            await asyncio.create_task(_awaited(anext(generator)))

    with recording() as captured:
        asyncio.run(team())
    assert tree(captured.trace).splitlines()[-2:] == [
        "  acounter#1.close < tool_dependency look_up:2.close",
        "  stop information_complete < return acounter#1.close",
    ]


def test_a_task_that_is_cancelled_while_it_reads_cancels_the_agent() -> None:
    """A cancellation passes through as it was, and is no error."""

    @orchtrace.agent
    async def endless() -> AsyncGenerator[int, None]:
        yield look_up(0)
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(read(endless()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with recording() as captured:
        asyncio.run(main())
    closing, stop = captured.trace.events[-2:]
    assert (closing.verb, closing["status"]) == ("return", "cancelled")
    assert (stop["stop_reason"], stop["stop_detail"]) == (
        "cancelled",
        "asyncio.exceptions.CancelledError",
    )


def test_nothing_is_current_between_two_items_of_an_async_generator() -> None:
    """The consumer's context is its own before, between and after the items."""

    async def main() -> None:
        before = otel_context.get_current()
        async for _ in acounter(2):
            assert otel_context.get_current() is before
        assert otel_context.get_current() is before

    with recording():
        asyncio.run(main())


@pytest.mark.parametrize(
    ("function", "is_kind"),
    [(counter, inspect.isgeneratorfunction), (acounter, inspect.isasyncgenfunction)],
)
def test_a_traced_generator_is_called_through_where_nobody_listens(
    function: Callable[..., Any], is_kind: Callable[[object], bool]
) -> None:
    """Without tracing the items, what is sent and the return value pass as they were."""
    assert is_kind(function)
    if function is counter:
        generator = counter(1)
        assert [next(generator), generator.send(3)] == [0, 300]
        with pytest.raises(StopIteration, match="counted"):
            next(generator)
    else:
        assert asyncio.run(read(acounter(2))) == [0, 1]
