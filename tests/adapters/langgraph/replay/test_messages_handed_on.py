"""Agents that give back all messages that they were given, as graphs that are nodes do."""

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import add_messages  # pyright: ignore[reportMissingTypeStubs]
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import Part, Player, Slot
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import in_a_row, ran


class Talk(TypedDict):
    messages: Annotated[list[Any], add_messages]


def agent(name: str) -> Any:
    """One that says who it heard."""

    def talk(state: Talk) -> Any:
        heard = "+".join(str(one.content) for one in state["messages"])
        return {"messages": [*state["messages"], AIMessage(f"{name}({heard})", id=name)]}

    return talk


def forgets(state: Talk) -> Any:
    """Keep nothing of what ann said, and hand the rest on."""
    kept = [one for one in state["messages"] if one.id != "ann"]
    return {"messages": [*kept, RemoveMessage("ann")]}


def talks(traced: Captured, **nodes: Any) -> tuple[Any, Any]:
    return ran(traced, in_a_row(nodes, Talk), {"messages": [HumanMessage("go", id="go")]})


class Ends:
    """The states in which replays end, as what was said."""

    def __init__(self) -> None:
        self.said: list[list[str]] = []

    def score(self, state: Any) -> float:
        self.said.append([str(one.content) for one in state["messages"]])
        return 0.0


@pytest.mark.parametrize("player", [Slot("ann", "cat", 1), Part("dependency", "cat<-ann")])
def test_a_message_that_another_hands_on_is_not_read_where_it_is_taken_out(
    traced: Captured, player: Player
) -> None:
    """What bob gave back of ann's is ann's: cat reads bob alone, and all others read both."""
    trace, target = talks(traced, ann=agent("ann"), bob=agent("bob"), cat=agent("cat"))
    ends = Ends()
    orchtrace.counterfactual(trace, target, [player], score=ends.score, replays=1, workers=1)
    assert ["go", "ann(go)", "bob(go+ann(go))", "cat(go+bob(go+ann(go)))"] in ends.said


def test_who_hands_a_message_on_is_taken_out_without_it(traced: Captured) -> None:
    """What ann wrote stays, though bob gave it back."""
    trace, target = talks(traced, ann=agent("ann"), bob=agent("bob"), cat=agent("cat"))
    ends = Ends()
    players = [Slot("bob", "cat", 1)]
    orchtrace.counterfactual(trace, target, players, score=ends.score, replays=1, workers=1)
    assert ["go", "ann(go)", "bob(go+ann(go))", "cat(go+ann(go))"] in ends.said


def test_a_message_that_another_removes_may_be_taken_out(traced: Captured) -> None:
    """Who does not find it needs no removal of it either, which the state would refuse."""
    trace, target = talks(traced, ann=agent("ann"), bob=agent("bob"), cut=forgets, cat=agent("cat"))
    ends = Ends()
    found = orchtrace.counterfactual(
        trace, target, [Slot("ann", "cat", 1)], score=ends.score, replays=1, workers=1
    )
    assert found.lost == {}
    assert ends.said[0] == ends.said[1] == ["go", "bob(go+ann(go))", "cat(go+bob(go+ann(go)))"]


@pytest.mark.parametrize("edit", ["new", {"messages": [AIMessage("new", id="new")]}])
def test_an_edit_is_its_readers_alone_though_that_hands_all_on(traced: Captured, edit: Any) -> None:
    """Bob reads something else and gives it back; cat reads what ann wrote."""
    trace, target = talks(traced, ann=agent("ann"), bob=agent("bob"), cat=agent("cat"))
    ends = Ends()
    edited: dict[Player, Any] = {Slot("ann", "bob", 1): [edit]}
    orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives=edited,
        score=ends.score,
        replays=1,
        workers=1,
    )
    assert ["go", "ann(go)", "bob(go+new)", "cat(go+ann(go)+bob(go+new))"] in ends.said
