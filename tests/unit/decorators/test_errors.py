"""An error and a cancellation end the call, are told by class, and never by text."""

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from tests.trees import recording, tree
from tests.unit.decorators.crew import CANARY, search


@pytest.mark.parametrize(
    ("kind", "status", "reason", "name"),
    [
        (ValueError, "error", "error", "ValueError"),
        (asyncio.CancelledError, "cancelled", "cancelled", "asyncio.exceptions.CancelledError"),
        (KeyboardInterrupt, "cancelled", "cancelled", "KeyboardInterrupt"),
        (SystemExit, "cancelled", "external", "SystemExit"),
        (GeneratorExit, "cancelled", "consumer_closed", "GeneratorExit"),
        (TimeoutError, "error", "error", "TimeoutError"),
        (
            concurrent.futures.CancelledError,
            "cancelled",
            "cancelled",
            "concurrent.futures._base.CancelledError",
        ),
    ],
)
def test_how_a_call_ended_is_said_by_class_never_by_text(
    kind: type[BaseException], status: str, reason: str, name: str
) -> None:
    """Status, error class and stop reason; the text of the exception is nowhere."""

    @orchtrace.tool
    def look_up() -> None:
        raise kind(CANARY)

    @orchtrace.agent
    def work() -> None:
        look_up()

    @orchtrace.team
    def team() -> None:
        work()

    with recording() as captured, pytest.raises(kind):
        team()
    of_error = f" {name}" if status == "error" else ""
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  work#1 spawn < spawn team#1.open\n"
        "    look_up.open < causal work#1.open\n"
        f"    look_up.close{of_error} [{status}]\n"
        f"  work#1.close{of_error} [{status}] < tool_dependency look_up.close\n"
        f"  stop {reason} {name}{of_error} [{status}] < return work#1.close"
    )
    assert [span.status.status_code.name == "ERROR" for span in captured.spans] == [
        status == "error",
        status == "error",
        False,
        status == "error",
    ]
    assert CANARY not in captured.trace.to_json()
    assert all(CANARY not in span.to_json() for span in captured.spans)


def test_an_error_that_a_caller_catches_is_only_the_callees() -> None:
    """The failed agent is an error, its caller and the run are not."""

    @orchtrace.agent
    def fails() -> None:
        raise ValueError(CANARY)

    @orchtrace.team
    def team() -> str:
        try:
            fails()
        except ValueError:
            return search("again")[0]
        return "never"

    with recording() as captured:
        assert team() == "again"
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  fails#1 spawn < spawn team#1.open\n"
        "  fails#1.close ValueError [error]\n"
        "  searcher#1 spawn as executor < return fails#1.close, spawn team#1.open\n"
        "  searcher#1.close\n"
        "  stop information_complete < return searcher#1.close"
    )


def test_a_cancelled_task_is_cancelled_and_raises_what_it_raised() -> None:
    """`asyncio.timeout` and `cancel` work through a decorated coroutine."""

    @orchtrace.agent
    async def slow() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await slow()

    with recording() as captured:
        asyncio.run(main())
    assert captured.trace.events[-2]["status"] == "cancelled"
    assert captured.trace.events[-1]["stop_reason"] == "cancelled"


def test_a_coroutine_that_is_closed_in_a_copy_of_its_context_ends_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The call is current there too, and what was before cannot be restored."""
    copies: list[contextvars.Context] = []

    @orchtrace.agent
    async def slow() -> None:
        copies.append(contextvars.copy_context())
        await _Never()

    with recording() as captured:
        coroutine = slow()
        contextvars.Context().run(coroutine.send, None)
        copies[0].run(coroutine.close)
        assert captured.open == {}
    assert caplog.records == []


def test_a_coroutine_that_is_closed_from_elsewhere_ends_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A loop that is dropped leaves its tasks to the collector, in another context."""

    @orchtrace.tool
    async def wait() -> None:
        await _Never()

    @orchtrace.agent
    async def slow() -> None:
        await wait()

    async def passed_on() -> None:
        await plain()

    @orchtrace.agent
    def plain() -> Coroutine[Any, Any, None]:
        return slow()

    with recording() as captured:
        coroutine = passed_on()
        contextvars.Context().run(coroutine.send, None)
        contextvars.Context().run(coroutine.close)
        assert captured.open == {}
    assert caplog.records == []
    assert {event["status"] for event in captured.trace.events if event.verb == "return"} == {
        "cancelled"
    }


class _Never:
    def __await__(self) -> Generator[None, None, None]:
        yield
