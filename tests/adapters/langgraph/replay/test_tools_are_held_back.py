"""No tool is called in a replay but one that is safe; its answer is played back, or it blocks."""

from typing import Any

import pytest
from langchain_core.tools import tool

import orchtrace_otel as orchtrace
from orchtrace_langgraph import LangGraphAdapter
from orchtrace_otel.errors import ReplayBlockedError
from orchtrace_otel.replay import Change, Part, Slot, record
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import State, Update, in_a_row, ran, says


def shop(asked: list[str]) -> Any:
    """A tool that tells a price, and what it was asked for."""

    @tool
    def ask(what: str) -> str:
        """Ask what it costs."""
        asked.append(what)
        return f"{what}: 3"

    return ask


def tooled(prices: list[str], ask: Any) -> Any:
    """An agent who asks a shop for what its reader names."""

    def shopper(state: State) -> Update:
        wanted = (state.get("findings") or ["soup"])[-1]
        answer = ask.invoke(
            {"name": "ask", "args": {"what": wanted}, "id": "7", "type": "tool_call"}
        )
        prices.append(answer.content)
        return {"answer": answer.content}

    return in_a_row({"ann": says("pie"), "shopper": shopper})


def test_tools_are_played_back_or_block_the_replay(traced: Captured) -> None:
    """The same arguments give what they gave; others are blocked, though hosts catch errors."""
    asked: list[str] = []
    prices: list[str] = []
    with record() as recording:
        trace, target = ran(traced, tooled(prices, shop(asked)))
    assert len(recording) == 1
    letter = Slot("ann", "shopper", 1)
    found = orchtrace.counterfactual(
        trace, target, [letter], score=lambda _: 1.0, replays=4, recording=recording
    )
    assert asked == ["pie"]
    assert found.effects[0].lost == {"blocked": 2}  # without the letter it asks for soup
    assert prices == ["pie: 3"] * 3
    nothing = orchtrace.counterfactual(trace, target, [letter], score=lambda _: 1.0, replays=4)
    assert nothing.lost == {"blocked": 4}
    assert asked == ["pie"]


def test_tools_that_are_safe_are_called_again(traced: Captured) -> None:
    """The mark is that of the function's decorator."""
    asked: list[str] = []

    @tool
    @orchtrace.tool(replay_safe=True)
    def ask(what: str) -> str:
        """Ask what it costs."""
        asked.append(what)
        return f"{what}: 3"

    trace, target = ran(traced, tooled([], ask))
    letter = Slot("ann", "shopper", 1)
    found = orchtrace.counterfactual(trace, target, [letter], score=lambda _: 1.0, replays=4)
    assert found.lost == {}
    assert sorted(asked) == ["pie"] * 3 + ["soup"] * 2


def test_a_host_that_catches_is_blocked_all_the_same(traced: Captured) -> None:
    """An agent that takes any error of a tool for an answer gets no value."""

    @tool
    def ask(what: str) -> str:
        """Ask what it costs."""
        return f"{what}: 3"

    def shopper(_: State) -> Update:
        try:
            return {"answer": ask.invoke({"what": "pie"})}
        except Exception as error:  # noqa: BLE001 - that is what is tested
            return {"answer": str(error)}

    trace, target = ran(traced, in_a_row({"ann": says("x"), "shopper": shopper}))
    found = orchtrace.counterfactual(
        trace, target, [Part("agent", "ann")], score=lambda _: 1.0, replays=2
    )
    assert found.lost == {"blocked": 2}


def test_the_replayer_alone_holds_tools_back(traced: Captured) -> None:
    """Asked outside of `counterfactual`, it calls no tool either."""
    asked: list[str] = []
    trace, target = ran(traced, tooled([], shop(asked)))
    replayer = LangGraphAdapter().replayer(target, trace, lambda _: 1.0)
    assert replayer is not None
    with pytest.raises(ReplayBlockedError):
        replayer.value(Change(without=frozenset({Slot("ann", "shopper", 1)})), 0)
    assert asked == ["pie"]
    assert LangGraphAdapter().replayer(object(), trace, len) is None


def test_a_tool_that_was_asked_before_the_change_goes_on_from_there(traced: Captured) -> None:
    """Who polls later gets what came later, as in the run, whoever asked first is not called."""
    answers = iter(["waits", "is ready", "is gone"])

    @orchtrace.tool
    def poll() -> str:
        return next(answers)

    def polls(_: State) -> Update:
        return {"findings": [poll()]}

    graph = in_a_row(
        {"first": polls, "second": polls, "note": lambda _: {"notes": ["n"]}, "third": polls}
    )
    with record() as recording:
        trace, target = ran(traced, graph)
    found: list[Any] = []
    players = [Part("agent", "first"), Slot("first", "second", 1), Slot("note", "third", 1)]
    effects = orchtrace.counterfactual(
        trace,
        target,
        players,
        score=lambda state: found.append(state["findings"]) or 1.0,
        replays=2,
        recording=recording,
        workers=1,
    )
    assert effects.lost == {}
    whole = ["waits", "is ready", "is gone"]
    assert found == [whole, whole[1:], whole, whole, whole, whole]
