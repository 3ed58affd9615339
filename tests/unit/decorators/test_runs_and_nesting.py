"""Decorated functions in each other are one run: the root, who is below whom, and their names."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from tests.trees import recording, tree
from tests.unit.decorators.crew import fetch, openings, search


def test_names_come_from_the_function_or_are_given() -> None:
    """Bare, with empty parentheses, by position and by keyword."""

    def plain() -> None: ...

    decorated = [
        orchtrace.agent(plain),
        orchtrace.agent()(plain),
        orchtrace.agent("given")(plain),
        orchtrace.agent(plain, name="named"),
        orchtrace.agent("given", role="critic")(plain),
        orchtrace.agent(lambda: None),
        orchtrace.agent(functools.partial(plain)),
        orchtrace.team("a team")(plain),
    ]
    with recording() as captured:
        for function in decorated:
            function()
    assert [
        event["to"]
        for trace in captured.traces
        for event in trace.events
        if "to" in event.keys and event.verb == "spawn"
    ] == ["plain", "plain", "given", "named", "given", "lambda", "plain"]
    assert captured.traces[4].events[1]["role"] == "critic"
    assert captured.traces[-1].events[0]["to"] == "a team"


def test_the_outermost_agent_gets_a_run_around_it() -> None:
    """The whole trace of one agent that was called by nobody we know."""
    with recording() as captured:
        assert search("who?") == ["who?", "who?"]
    assert tree(captured.trace) == (
        "orchestrator#1 begin\n"
        "  searcher#1 spawn as executor < spawn orchestrator#1.open\n"
        "  searcher#1.close\n"
        "  stop information_complete < return searcher#1.close"
    )


def test_a_tool_outside_a_run_is_called_as_it_is() -> None:
    """No agent, no tool call."""
    with recording() as captured:
        assert asyncio.run(fetch("x")) == b"x"
    assert captured.started == 0


def test_a_team_in_a_team_is_an_agent_of_the_outer_run() -> None:
    """There is one root, and the inner team is spawned."""

    @orchtrace.team("inner")
    def inner() -> None: ...

    @orchtrace.team("outer", task_id="q-17", tags={"split": "dev"})
    def outer() -> None:
        inner()

    with recording() as captured:
        outer()
    assert tree(captured.trace) == (
        "outer#1 begin\n"
        "  inner#1 spawn < spawn outer#1.open\n"
        "  inner#1.close\n"
        "  stop information_complete < return inner#1.close"
    )
    assert captured.trace.task_id == "q-17"
    assert captured.trace.events[0]["tags"] == {"split": "dev"}
    root = captured.spans[-1]
    assert root.attributes is not None
    assert root.attributes["orchtrace.tag.split"] == "dev"


def test_recursion_nests() -> None:
    """An agent that calls itself is another life below its own."""

    @orchtrace.agent
    def down(left: int) -> int:
        return 0 if left == 0 else down(left - 1) + 1

    with recording() as captured:
        assert down(2) == 2
    assert tree(captured.trace) == (
        "orchestrator#1 begin\n"
        "  down#1 spawn < spawn orchestrator#1.open\n"
        "    down#2 spawn < spawn down#1.open\n"
        "      down#3 spawn < spawn down#2.open\n"
        "      down#3.close\n"
        "    down#2.close < return down#3.close\n"
        "  down#1.close < return down#2.close\n"
        "  stop information_complete < return down#1.close"
    )


def test_a_function_decorated_twice_is_two_agents_one_in_the_other() -> None:
    """Each decorator says what it is told, and no more."""

    @orchtrace.agent("outer")
    @orchtrace.agent("inner")
    def work() -> int:
        return 3

    with recording() as captured:
        assert work() == 3
    assert openings(captured) == ["orchestrator#1 begin", "outer#1 spawn", "inner#1 spawn"]


def test_a_tool_that_is_an_agent_inside_nests_it() -> None:
    """An agent called in a tool follows from the tool call, and its return enters the result."""

    @orchtrace.agent
    def helper() -> int:
        return 1

    @orchtrace.tool
    def ask() -> int:
        return helper()

    @orchtrace.agent
    def boss() -> int:
        return ask()

    with recording() as captured:
        assert boss() == 1
    assert tree(captured.trace) == (
        "orchestrator#1 begin\n"
        "  boss#1 spawn < spawn orchestrator#1.open\n"
        "    ask.open < causal boss#1.open\n"
        "    helper#1 spawn < spawn ask.open\n"
        "    helper#1.close\n"
        "    ask.close < return helper#1.close\n"
        "  boss#1.close < tool_dependency ask.close\n"
        "  stop information_complete < return boss#1.close"
    )


@pytest.mark.parametrize("decorate", [orchtrace.agent, orchtrace.team])
def test_work_that_begins_after_its_run_has_stopped_is_a_run_of_its_own(
    decorate: Callable[..., Any],
) -> None:
    """A background task started by one request serves the next ones, each in its own trace."""

    @decorate
    async def late() -> None: ...

    async def background() -> None:
        await asyncio.sleep(0)
        await late()

    @orchtrace.team
    async def team() -> "asyncio.Task[None]":
        search("x")
        return asyncio.create_task(background())

    async def main() -> None:
        await (await team())

    with recording() as captured:
        asyncio.run(main())
    assert [trace.events[-1].verb for trace in captured.traces] == ["stop", "stop"]
    assert len({trace.trace_id for trace in captured.traces}) == 2
