"""The kind of a team is recognised from how its activations came about."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.model import TOPOLOGIES, Edge, Event, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.topology import explain_topology
from orchtrace_otel.testing import capture
from orchtrace_otel.testing.world import make_world

CLEAR = ("debate", "swarm", "harness")


@pytest.mark.parametrize("kind", CLEAR)
@pytest.mark.parametrize("seed", range(6))
def test_kinds_that_leave_no_doubt_are_recognised(kind: str, seed: int) -> None:
    """Mutual reading, hand-overs and work inside tool calls tell by themselves."""
    assert explain_topology(make_world(seed, kind).trace).topology == kind


@pytest.mark.parametrize("kind", ["centralized", "planner_executor_critic", "hierarchical"])
def test_other_kinds_are_recognised_in_most_runs(kind: str) -> None:
    """A run of a centralized team in which one worker worked shows no team, and so on."""
    found = Counter(explain_topology(make_world(seed, kind).trace).topology for seed in range(40))
    assert found.most_common(1)[0][0] == kind
    assert found[kind] >= 28


def test_one_kind_after_another_is_mixed_where_both_have_their_share() -> None:
    """In two thirds of the runs; a team of one kind is hardly ever taken for two."""
    kinds = (*CLEAR, "centralized", "planner_executor_critic", "hierarchical", "mixed")
    mixed = {
        kind: sum(
            explain_topology(make_world(seed, kind).trace).topology == "mixed"
            for seed in range(100, 160)
        )
        for kind in kinds
    }
    assert mixed.pop("mixed") >= 36
    assert sum(mixed.values()) <= 3


def test_scoring_writes_the_topology_and_keeps_one_that_is_given() -> None:
    """What a trace says of itself is worth more than what is recognised."""
    trace = make_world(3, "swarm").trace
    scored = score(trace)
    assert scored.topology == "swarm"
    assert score(scored) == scored
    assert score(replace(trace, topology="harness")).topology == "harness"


@pytest.mark.parametrize("kind", [*CLEAR, "centralized", "hierarchical", "mixed"])
def test_order_changes_nothing(kind: str) -> None:
    """Events and edges may come in any order, ids break ties."""
    trace = make_world(5, kind).trace
    shuffled = Random(1)  # noqa: S311 - an order, no secret
    events, edges = list(trace.events), list(trace.edges)
    shuffled.shuffle(events)
    shuffled.shuffle(edges)
    other = replace(trace, events=tuple(events), edges=tuple(edges))
    assert explain_topology(other) == explain_topology(trace)


def test_evidence_accounts_for_every_activation() -> None:
    """Shares add up to 1, and each activation has its way."""
    for kind in (*CLEAR, "centralized", "planner_executor_critic", "hierarchical", "mixed"):
        trace = make_world(2, kind).trace
        evidence = explain_topology(trace)
        assert sum(evidence.shares.values()) == pytest.approx(1.0)
        opened = {e["activation"] for e in trace.events if "parent" in e.keys}
        assert set(evidence.activations) <= opened
        assert evidence.topology in TOPOLOGIES
        assert evidence.signs


@orchtrace.agent("drafter", role="executor")
def draft(text: str) -> str:
    return text


@orchtrace.agent("checker", role="critic")
def check(text: str) -> bool:
    return bool(text)


@orchtrace.agent
def scout(text: str) -> str:
    return text


@orchtrace.agent
def leader(text: str) -> str:
    return scout(text) + draft(text)


@orchtrace.tool
def look_up(text: str) -> str:
    return text


@orchtrace.tool
def choose(text: str) -> str:
    orchtrace.decide("who", chosen="scout", candidates=["scout", "draft"])
    return scout(text)


@orchtrace.team
def run_plan(plan: str) -> None:
    """Call what `plan` names, one after another."""
    calls = {"draft": draft, "check": check, "scout": scout, "lead": leader}
    calls |= {"tool": look_up, "choose": choose}
    for name in plan.split():
        calls[name]("x")


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("draft check draft check", "planner_executor_critic"),
        ("scout draft scout", "centralized"),
        ("lead lead", "hierarchical"),
        ("tool tool tool tool", "harness"),
        ("choose choose", "harness"),
        ("scout", "unknown"),
        ("", "unknown"),
    ],
)
def test_teams_of_plain_functions_are_recognised(plan: str, expected: str) -> None:
    """Not only the world's: what decorated functions really leave behind."""
    with capture() as captured:
        run_plan(plan)
    assert captured.trace.topology == expected


def test_a_wrapper_around_the_lead_is_looked_through() -> None:
    """A run that holds one agent, which holds the team, is led by that agent."""

    @orchtrace.team
    def outer() -> None:
        leader("x")

    with capture() as captured:
        outer()
    evidence = explain_topology(captured.trace)
    assert evidence.topology == "centralized"
    assert evidence.signs == ("2 of 2 activations were called",)


def test_traces_of_others_are_read_by_their_spawns() -> None:
    """Without activations it is the spawns that tell who works for whom."""
    events = tuple(
        Event(f"e{at}", at, "spawn", "lead", {"to": name}) for at, name in enumerate("abc")
    )
    assert explain_topology(Trace("run", "task", events)).topology == "centralized"


@pytest.mark.parametrize(
    "spawns",
    [("aa",), ("aa", "aa"), ("ab", "ba"), ("ab", "bc", "ca"), ("ab", "bb")],
    ids="-".join,
)
def test_agents_that_spawn_one_another_in_a_ring_end_the_looking(spawns: tuple[str, ...]) -> None:
    """Part of a run may hold its spawns and none of the activations that they began."""
    events = tuple(
        Event(str(at), at, "spawn", who, {"to": whom}) for at, (who, whom) in enumerate(spawns)
    )
    found = explain_topology(Trace("r", "q", events))
    assert found.topology in {*TOPOLOGIES, "unknown"}


@pytest.mark.parametrize(
    "edges",
    [
        (Edge("a.close", "a.open", "causal"),),
        (Edge("nobody.close", "a.open", "causal"), Edge("nobody", "b.open", "message")),
        (Edge("a.close", "b.open", "causal"), Edge("b.close", "a.open", "causal")),
    ],
)
def test_broken_traces_raise_nothing(edges: tuple[Edge, ...]) -> None:
    """Cycles, edges to nowhere and activations that hold each other still give a word."""
    events = (
        Event("a.open", 0, "spawn", "b", {"to": "a", "parent": "b", "activation": "a"}),
        Event("b.open", 0, "spawn", "a", {"to": "b", "parent": "a", "activation": "b"}),
        Event("a.close", 1, "return", "a", {"activation": "a"}),
        Event("b.close", 1, "return", "b", {"activation": "b"}),
    )
    assert explain_topology(Trace("run", "task", events, edges)).topology in TOPOLOGIES
    assert explain_topology(Trace("run", "task", ())).topology == "unknown"
