"""Whoever is taken out, the rest runs as in a team that is mute there; upstream is not called."""

import operator
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_langgraph import LangGraphAdapter
from orchtrace_otel.replay import Change, Part, Player, Slot, find_reads
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import (
    AGENTS,
    CONFIG,
    LETTERS,
    WORDS,
    Calls,
    State,
    Update,
    has_both,
    in_a_row,
    joins,
    ran,
    research,
    says,
)


@pytest.mark.parametrize("make", ["node", "anode"])
@pytest.mark.parametrize("players", [AGENTS, LETTERS], ids=["agents", "messages"])
def test_two_of_three_share_what_needs_both(
    traced: Captured, calls: Calls, make: str, players: list[Player]
) -> None:
    """Shapley gives them half each and the third nothing, exactly; upstream is never called."""
    trace, target = ran(traced, research(calls, make), is_async=make == "anode")
    calls.taken()
    found = orchtrace.counterfactual(
        trace, target, players, method="shapley", score=has_both, replays=1
    )
    assert [effect.value for effect in found.effects] == [0.5, 0.5, 0.0]
    assert found.lost == {}
    assert calls.taken() == {"writer": 8}  # as often as there are coalitions


def test_messages_of_a_shared_state_are_players(traced: Captured, calls: Calls) -> None:
    """Who wrote what somebody read: one slot each, found in the trace and in the checkpoints."""
    trace, target = ran(traced, research(calls))
    calls.taken()
    plan = [Slot("plan", name, 1) for name in (*WORDS, "writer")]
    assert {*find_reads(trace)} == {*plan, *LETTERS}
    found = orchtrace.counterfactual(trace, target, score=has_both, replays=2)
    assert {effect.player: effect.value for effect in found.effects} == {
        **dict.fromkeys(plan, 0.0),
        **dict(zip(LETTERS, [1.0, 1.0, 0.0], strict=True)),
    }
    assert "plan" not in calls.taken()


def test_roles_and_dependencies_are_taken_out(traced: Captured, calls: Calls) -> None:
    """All agents of a role; all that one agent reads from another."""

    @orchtrace.agent("ann", role="executor")
    def ann(_: State) -> Update:
        calls.count["ann"] += 1
        return {"findings": ["red"]}

    @orchtrace.agent("bob", role="verifier")
    def bob(_: State) -> Update:
        return {"findings": ["blue"]}

    graph = in_a_row({"first": ann, "second": bob, "writer": joins})
    trace, target = ran(traced, graph)
    calls.taken()
    players = [
        Part("role", "executor"),
        Part("dependency", "writer<-bob"),
        Part("dependency", "bob<-ann"),
    ]
    found = orchtrace.counterfactual(trace, target, players, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]
    assert calls.taken() == {}


def test_what_is_not_downstream_stays_as_it_was(traced: Captured, calls: Calls) -> None:
    """A branch that reads nothing of what changed is not called, though it comes later."""

    class Left(TypedDict, total=False):
        findings: Annotated[list[str], operator.add]

    class Right(TypedDict, total=False):
        notes: Annotated[list[str], operator.add]

    graph: Any = StateGraph(State)
    graph.add_node("a", calls.node("a", says("red")), input_schema=Left)
    graph.add_node("a2", calls.node("a2", says("blue")), input_schema=Left)
    graph.add_node("b", calls.node("b", lambda _: {"notes": ["n"]}), input_schema=Right)
    graph.add_node("b2", calls.node("b2", lambda _: {"notes": ["m"]}), input_schema=Right)
    graph.add_node("writer", calls.node("writer", joins))
    graph.add_edge(START, "a")
    graph.add_edge(START, "b")
    graph.add_edge("a", "a2")
    graph.add_edge("b", "b2")
    graph.add_edge(["a2", "b2"], "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()), {"notes": []})
    calls.taken()
    found = orchtrace.counterfactual(trace, target, [Part("agent", "a")], score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0]
    assert calls.taken() == {"a2": 2, "writer": 2}


def test_a_later_turn_of_a_thread_is_replayed_from_where_it_began(
    traced: Captured, calls: Calls
) -> None:
    """What earlier invocations left in the state is upstream and stays."""
    graph = research(calls)
    graph.invoke({"findings": ["red", "blue"]}, CONFIG)
    trace, target = ran(traced, graph)
    found = orchtrace.counterfactual(trace, target, AGENTS, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [0.0, 0.0, 0.0]


Shape = list[list[tuple[str, bool]]]


@st.composite
def layers(draw: st.DrawFn) -> Shape:
    """Nodes in layers, each with whether it reads the findings or only its own."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    return [
        [(f"n{at}{nth}", draw(st.booleans())) for nth in range(n)] for at, n in enumerate(sizes)
    ]


def layered(shape: Shape, out: frozenset[str], saver: Any) -> Any:
    """A team in layers; each node adds a word made of all that it reads."""

    class Notes(TypedDict, total=False):
        notes: Annotated[list[str], operator.add]

    graph: Any = StateGraph(State)

    def node(name: str) -> Any:
        def work(state: State) -> Update:
            if name in out:
                return {}
            read = sorted([*state.get("findings", []), *state.get("notes", [])])
            word = f"{name}({'|'.join(read)})"
            return {"findings": [word]} if len(word) % 2 else {"notes": [word]}

        return work

    def end(state: State) -> Update:
        return {"answer": f"{sorted(state.get('findings', []))}{state.get('notes')}"}

    before = [START]
    for layer in shape:
        for name, reads_all in layer:
            graph.add_node(name, node(name), input_schema=State if reads_all else Notes)
            for source in before:
                graph.add_edge(source, name)
        before = [name for name, _ in layer]
    graph.add_node("end", end)
    graph.add_edge(before, "end")
    return graph.compile(checkpointer=saver)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(shape=layers(), data=st.data())
def test_a_replay_is_what_a_run_without_the_agents_is(
    traced: Captured, shape: Shape, data: st.DataObject
) -> None:
    """Whoever is taken out of whatever team: the state is that of a team that is mute there.

    And whatever the team, its checkpoints and its trace tell of the same messages.
    """
    graph = layered(shape, frozenset(), InMemorySaver())
    trace, target = ran(traced, graph, {"findings": ["task"], "notes": []})
    states: list[Any] = []

    def score(state: Any) -> float:
        states.append(state)
        return 1.0

    replayer: Any = LangGraphAdapter().replayer(target, trace, score)
    assert replayer._slots == {*find_reads(trace)}
    names = [name for layer in shape for name, _ in layer]
    out = data.draw(st.frozensets(st.sampled_from(names)))
    parts = {name: Part("agent", name) for name in names}
    anew = frozenset(part for name, part in parts.items() if name not in out)
    replayer.value(Change(without=frozenset(parts[n] for n in out), anew=anew), 0)
    mute = layered(shape, out, InMemorySaver())
    assert states == [mute.invoke({"findings": ["task"], "notes": []}, CONFIG)]
