"""Messages are edited as their reader finds them, agents by what they write."""

from typing import Annotated, Any

from langchain_core.messages import AIMessage
from langgraph.graph.message import add_messages  # pyright: ignore[reportMissingTypeStubs]
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import Part, Player, Slot
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import (
    LETTERS,
    Calls,
    State,
    Update,
    fan_out,
    has_both,
    in_a_row,
    ran,
    research,
    says,
)


def test_messages_are_edited_as_their_reader_finds_them(traced: Captured, calls: Calls) -> None:
    """By a text, or by an update of the state; the packet of a Send likewise."""
    trace, target = ran(traced, research(calls))
    green, red = LETTERS[2], LETTERS[0]
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={green: ["purple"], red: ["pink", {"findings": ["dark red"]}]},
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [0.0, -1.0, 0.0]
    trace, target = ran(traced, fan_out(calls))
    packet = Slot("plan", "scout", 3)
    asked: dict[Player, Any] = {
        Slot("plan", "scout", 1): [{"topic": "pink"}],
        packet: [{"topic": "blue"}],
    }
    found = orchtrace.counterfactual(
        trace, target, method="edits", alternatives=asked, score=has_both, replays=2
    )
    assert [effect.value for effect in found.effects] == [-1.0, 0.0]


def test_messages_of_langchain_are_edited_by_their_text(traced: Captured) -> None:
    """In a state of messages, whose reducer knows them by id."""

    class Talk(TypedDict):
        messages: Annotated[list[Any], add_messages]
        answer: str

    def ann(_: Talk) -> Any:
        return {"messages": [AIMessage("red and blue", id="m1")]}

    def writer(talk: Talk) -> Any:
        return {"answer": " ".join(str(one.content) for one in talk["messages"])}

    graph = in_a_row({"ann": ann, "writer": writer}, Talk)
    trace, target = ran(traced, graph, {"messages": [("user", "which?")]})
    slot = Slot("ann", "writer", 1)
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={slot: ["neither"]},
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [-1.0]


def test_agents_are_edited_by_what_they_write_or_by_a_function(
    traced: Captured, calls: Calls
) -> None:
    """A fixed update of the state, or one made from the input; they are not called."""
    trace, target = ran(traced, research(calls))
    calls.taken()

    def red(_: Any) -> Update:
        return {"findings": ["red"]}

    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={Part("agent", "ann"): [{"findings": ["pink"]}, red]},
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [-1.0, 0.0]
    assert "ann" not in calls.taken()


def test_a_message_is_edited_to_say_what_was_not_written(traced: Captured) -> None:
    """A reader finds it in the channel that the edit names; one that is not there blocks."""

    def writer(state: State) -> Update:
        return {"answer": " ".join([*state["findings"], *state.get("notes", [])])}

    trace, target = ran(traced, in_a_row({"ann": says("red"), "writer": writer}))
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={Slot("ann", "writer", 1): [{"notes": ["blue"]}, {"note": ["blue"]}]},
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [1.0, None]
    assert found.effects[1].lost == {"blocked": 1}
