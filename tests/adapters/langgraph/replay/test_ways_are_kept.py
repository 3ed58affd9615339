"""Rounds, hand-overs and tries go on in a replay where and as often as they went in the run."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Command, RetryPolicy

import orchtrace_otel as orchtrace
from orchtrace_langgraph import LangGraphAdapter
from orchtrace_otel.replay import Change, Part, Player, Slot, find_reads, is_replaying
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import (
    AGENTS,
    LETTERS,
    WORDS,
    Calls,
    State,
    Update,
    has_both,
    joins,
    ran,
    says,
)


def loop(calls: Calls) -> Any:
    """A writer and a critic in rounds: the critic sends it back until the draft is long."""
    graph: Any = StateGraph(State)

    def draft(state: State) -> Update:
        return {"draft": state.get("draft", "") + "x" + "!" * len(state.get("notes", []))}

    def end(state: State) -> Update:
        return {"answer": state["draft"]}

    def critic(state: State) -> Command[str]:
        if len(state["draft"]) >= 6:
            return Command(goto="end", update={"notes": ["fine"]})
        return Command(goto="writer", update={"notes": ["more"]})

    graph.add_node("writer", calls.node("writer", draft))
    graph.add_node("critic", calls.node("critic", critic), destinations=("writer", "end"))
    graph.add_node("end", end)
    graph.add_edge(START, "writer")
    graph.add_edge("writer", "critic")
    return graph.compile(checkpointer=InMemorySaver())


def test_slots_count_rounds_and_later_ones_are_found_again(traced: Captured, calls: Calls) -> None:
    """In a loop each round is a slot; earlier rounds stay as they were."""
    trace, target = ran(traced, loop(calls), {"draft": ""})
    assert calls.taken() == {"writer": 3, "critic": 3}
    slots = [one for one in find_reads(trace) if one[:2] == ("critic", "writer")]
    assert slots == [Slot("critic", "writer", 1), Slot("critic", "writer", 2)]
    drafts: list[str] = []

    def score(state: Any) -> float:
        drafts.append(state["answer"])
        return float(len(state["answer"]))

    found = orchtrace.counterfactual(
        trace, target, slots[1:], score=score, baseline="replayed", replays=2, workers=1
    )
    # It was "x", "xx!", "xx!x!!". Without its second note the critic goes on once more, and
    # of its notes the writer then has the first and the third.
    assert sorted(drafts) == ["xx!x!!", "xx!x!x!!"]
    assert found.lost == {}
    assert calls.taken() == {"writer": 3, "critic": 3}


def test_a_node_that_is_taken_out_goes_where_it_went(traced: Captured, calls: Calls) -> None:
    """A hand-off by a command stays one, empty: the end is reached."""
    trace, target = ran(traced, loop(calls), {"draft": "xxxxxx"})
    assert calls.taken() == {"writer": 1, "critic": 1}
    answers: list[str] = []

    def score(state: Any) -> float:
        answers.append(state["answer"])
        return 1.0

    orchtrace.counterfactual(trace, target, [Part("agent", "critic")], score=score, replays=2)
    assert answers == ["xxxxxxx"] * 2
    assert calls.taken() == {}


@pytest.mark.parametrize(
    ("edit", "rounds"),
    [
        ({"notes": ["more"]}, 3),
        (lambda state: {"notes": [state["draft"]]}, 3),
        (lambda _: Command(goto="end", update={"notes": ["enough"]}), 1),
    ],
    ids=["update", "function", "command"],
)
def test_a_node_that_is_edited_goes_where_it_went(
    traced: Captured, calls: Calls, edit: Any, rounds: int
) -> None:
    """What it says otherwise does not end the run; a command of the edit's own counts."""
    trace, target = ran(traced, loop(calls), {"draft": ""})
    found: list[tuple[int, bool]] = []

    def score(state: Any) -> float:
        found.append((len(state["notes"]), "answer" in state))
        return 1.0

    replayer: Any = LangGraphAdapter().replayer(target, trace, score)
    replayer.value(Change(edits={Part("agent", "critic"): edit}), 0)
    assert found == [(rounds, True)]


def test_a_graph_inside_hands_over_in_replays_too(traced: Captured, calls: Calls) -> None:
    """A node that is a graph and goes on by a command to the graph around it."""
    inner: Any = StateGraph(State)

    def clerk(_: State) -> Command[str]:
        calls.count["clerk"] += 1
        return Command(goto="writer", graph=Command.PARENT, update={"findings": ["blue"]})

    inner.add_node("clerk", clerk)
    inner.add_edge(START, "clerk")
    graph: Any = StateGraph(State)
    graph.add_node("ann", calls.node("ann", says("red")))
    graph.add_node("desk", inner.compile(name="desk"), destinations=("writer",))
    graph.add_node("writer", calls.node("writer", joins))
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "desk")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    assert calls.taken() == {"ann": 1, "clerk": 1, "writer": 1}
    players: list[Player] = [Part("agent", "ann"), Part("agent", "desk"), Slot("ann", "writer", 1)]
    found = orchtrace.counterfactual(trace, target, players, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 1.0]
    assert found.lost == {}
    assert calls.taken() == {"clerk": 2, "writer": 6}
    inside = orchtrace.counterfactual(
        trace, target, [Part("agent", "clerk")], score=has_both, replays=2
    )
    assert inside.lost == {"blocked": 2}


class Says(BaseChatModel):
    """A model that answers by a function of what it is asked."""

    answers: Callable[[Any], AIMessage]

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answers(messages))])

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_supervisors_workers_are_taken_out(traced: Captured, calls: Calls) -> None:
    """Prebuilt agents that are graphs inside, and hand over by commands to the graph around."""
    supervisor = pytest.importorskip("langgraph_supervisor")
    create_agent = pytest.importorskip("langgraph.prebuilt").create_react_agent

    def boss(messages: Any) -> AIMessage:
        asked = {call["name"] for m in messages for call in getattr(m, "tool_calls", [])}
        for name in WORDS:
            if f"transfer_to_{name}" not in asked:
                call: Any = {"name": f"transfer_to_{name}", "args": {}, "id": f"to-{name}"}
                return AIMessage("", tool_calls=[call])
        return AIMessage(
            " ".join(m.text if isinstance(m.text, str) else m.text() for m in messages)
        )

    def worker(name: str) -> Any:
        model = Says(answers=lambda _: calls.node(name, lambda _: AIMessage(WORDS[name]))(None))
        return create_agent(model, tools=[], name=name)

    team = supervisor.create_supervisor(
        [worker(name) for name in WORDS], model=Says(answers=boss), prompt="Lead."
    )
    trace, target = ran(
        traced, team.compile(checkpointer=InMemorySaver()), {"messages": [("user", "which?")]}
    )
    assert calls.taken() == dict.fromkeys(WORDS, 1)
    letters = [Slot(name, "supervisor", 1) for name in WORDS]

    def score(state: Any) -> float:
        words = str(state["messages"][-1].content).split()  # "transferred" has a "red" in it
        return float({"red", "blue"} <= {*words})

    for players in (AGENTS, letters):
        found = orchtrace.counterfactual(
            trace, target, players, method="shapley", order="any", score=score, replays=1
        )
        assert found.lost == {}
        assert [effect.value for effect in found.effects] == [0.5, 0.5, 0.0]


def test_a_try_that_fails_is_followed_by_another_one(traced: Captured) -> None:
    """A node that its policy tries again reads the same messages, once."""
    tries: Counter[bool] = Counter()

    def writer(state: State) -> Update:
        tries["red" in state["findings"]] += 1
        if is_replaying() and tries["red" in state["findings"]] % 2:
            msg = "the network"
            raise ConnectionError(msg)
        return joins(state)

    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("bob", says("blue"))
    policy = RetryPolicy(initial_interval=0.001, max_attempts=2)
    graph.add_node("writer", writer, retry_policy=policy)
    graph.add_edge(START, "ann")
    graph.add_edge(START, "bob")
    graph.add_edge(["ann", "bob"], "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    tries.clear()
    found = orchtrace.counterfactual(
        trace, target, LETTERS[:1], score=has_both, replays=2, workers=1
    )
    assert found.lost == {}
    assert found.effects[0].value == 1.0
    assert tries == {True: 2, False: 2}
