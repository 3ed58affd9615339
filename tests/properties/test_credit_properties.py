"""What holds for the credit and the group statistics of every run."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import Facts, score
from orchtrace_otel.rewards.credit import METHODS, assign, by_unit
from orchtrace_otel.rewards.groups import Group, Groups
from tests.properties.runs import random_run

seeds = st.integers(min_value=0, max_value=2**32)
outcomes = st.one_of(
    st.just(0.0), st.just(1.0), st.floats(-1e6, 1e6, allow_subnormal=False, allow_nan=False)
)
CONSERVING = ("flow", "decay")


def rewarded(seed: int, value: float) -> Trace:
    return replace(random_run(seed), rewards={"task": value})


def credited(trace: Trace):
    """The facts and the credit of a run; a run without an answer has none."""
    facts = Facts(trace)
    return facts, assign(facts)


@given(seeds, outcomes)
def test_flow_and_decay_conserve_the_reward(seed, value):
    """Over events, agents, roles and every other unit: in integers exactly, in floats to 1e-12."""
    facts, credit = credited(rewarded(seed, value))
    if credit is None:
        return
    for method in CONSERVING:
        parts, whole = credit.shares[method]
        assert sum(parts) == whole
        assert math.fsum(credit.numbers(method)) == pytest.approx(value, rel=1e-12)
        for unit in ("agent", "role", "orchestrator", "message", "tool_call", "turn", "team"):
            targets, unassigned = by_unit(facts, credit, method, unit)
            total = math.fsum((*targets.values(), unassigned))
            assert total == pytest.approx(value, rel=1e-12)
        assert by_unit(facts, credit, method, "agent").unassigned == 0.0


@given(seeds)
def test_all_methods_divide_over_every_unit_what_they_gave_to_events(seed):
    """What a unit's targets do not get is unassigned, whatever the method."""
    facts, credit = credited(rewarded(seed, 1.0))
    if credit is None:
        return
    for method in credit.shares:
        whole = math.fsum(credit.numbers(method))
        for unit in ("agent", "role", "orchestrator", "message", "tool_call", "turn"):
            targets, unassigned = by_unit(facts, credit, method, unit)
            assert math.fsum((*targets.values(), unassigned)) == pytest.approx(whole, rel=1e-12)


@given(seeds)
def test_credit_keeps_its_bounds(seed):
    """With an outcome of 1 every event has 0 to 1; a failed task gives exactly 0 everywhere."""
    _, credit = credited(rewarded(seed, 1.0))
    _, lost = credited(rewarded(seed, 0.0))
    if credit is None or lost is None:
        assert credit is lost
        return
    for method in credit.shares:
        assert all(0.0 <= number <= 1.0 for number in credit.numbers(method))
        assert set(lost.numbers(method)) == {0.0}


@given(seeds)
def test_what_led_nowhere_gets_nothing(seed):
    """A dummy player: an event from which no path leads to the answer."""
    facts, credit = credited(rewarded(seed, 1.0))
    if credit is None:
        return
    useful = facts.useful | {credit.upstream.answer}
    for method in credit.shares:
        numbers = credit.numbers(method)
        assert all(numbers[place] == 0.0 for place in range(len(numbers)) if place not in useful)


@given(seeds)
def test_methods_agree_on_who_can_matter(seed):
    """The answer and what dominates it are reached; the last writer is the answer."""
    _, credit = credited(rewarded(seed, 1.0))
    if credit is None:
        return
    reached = credit.parts("reachability").keys()
    assert credit.parts("dominator").keys() <= reached
    assert credit.parts("last_writer") == {credit.upstream.answer: 1.0}
    assert credit.upstream.answer in credit.parts("dominator")


def paths_avoid(trace: Trace, answer: str, without: str) -> bool:
    """Whether a path from an event without cause leads to the answer around one event."""
    causes: dict[str, set[str]] = {event.id: set() for event in trace.events}
    for edge in trace.edges:
        if edge.type != "temporal":
            causes[edge.dst].add(edge.src)
    seen, reached = {answer} - {without}, [answer] if answer != without else []
    for name in reached:
        if not causes[name]:
            return True
        new = causes[name] - seen - {without}
        seen |= new
        reached += sorted(new)
    return False


@given(seeds)
def test_dominators_are_what_no_path_avoids(seed):
    """The one sweep finds what removing each event in turn finds."""
    trace = rewarded(seed, 1.0)
    _, credit = credited(trace)
    if credit is None or len(trace.events) > 120:
        return
    answer = trace.events[credit.upstream.answer].id
    for place, steps in enumerate(credit.upstream.hops):
        if steps < 0:
            continue
        name = trace.events[place].id
        wanted = 0.0 if paths_avoid(trace, answer, name) else 1.0
        assert credit.numbers("dominator")[place] == wanted, name


@given(seeds)
def test_flow_is_its_recursion_in_fractions(seed):
    """Each event keeps half and splits the rest over its causes, to the last bit that counts."""
    trace = rewarded(seed, 1.0)
    facts, credit = credited(trace)
    if credit is None:
        return
    held = {credit.upstream.answer: Fraction(1)}
    for place in reversed(facts.graph.order):
        if place not in held:
            continue
        causes = set(facts.graph.causes[place])
        mass = held[place]
        for cause in causes:
            held[cause] = held.get(cause, Fraction(0)) + mass / 2 / len(causes)
        held[place] = mass / 2 if causes else mass
    numbers = credit.numbers("flow")
    for place, mass in held.items():
        assert numbers[place] == pytest.approx(float(mass), rel=1e-12, abs=1e-30)


@given(seeds, st.randoms(use_true_random=False))
def test_order_of_events_and_edges_changes_no_bit_of_credit(seed, rng):
    """The stop last, all else shuffled: the same credit on the same events."""
    trace = rewarded(seed, 0.7)
    *events, stop = trace.events
    edges = list(trace.edges)
    rng.shuffle(events)
    rng.shuffle(edges)
    other = replace(trace, events=(*events, stop), edges=tuple(edges))
    scored = {event.id: event.keys for event in score(trace).events}
    assert {event.id: event.keys for event in score(other).events} == scored


@given(seeds)
def test_relabelling_agents_permutes_their_credit(seed):
    """A name is a name."""
    trace = rewarded(seed, 1.0)
    new = {name: f"agent-{n}" for n, name in enumerate({one.agent for one in trace.events})}
    renamed = replace(
        trace, events=tuple(replace(one, agent=new[one.agent]) for one in trace.events)
    )
    facts, credit = credited(trace)
    others, again = credited(renamed)
    if credit is None or again is None:
        assert credit is again
        return
    for method in credit.shares:
        before = by_unit(facts, credit, method, "agent").targets
        after = by_unit(others, again, method, "agent").targets
        assert dict(after) == {new[name]: number for name, number in before.items()}


@given(seeds, st.data())
def test_an_instant_that_leads_nowhere_changes_no_credit(seed, data):
    """It gets nothing, and nobody gets less."""
    trace = rewarded(seed, 1.0)
    cause = data.draw(st.sampled_from(trace.events[:-1]))
    idle = Event("idle", cause.t + cause.get("duration_s", 0), "message", "idle")
    edge = Edge(cause.id, "idle", "message")
    more = replace(trace, events=(idle, *trace.events), edges=(*trace.edges, edge))
    _, credit = credited(trace)
    _, again = credited(more)
    if credit is None or again is None:
        assert credit is again
        return
    for method in METHODS:
        if method in credit.shares:
            assert again.by_id(method) == {"idle": 0.0, **credit.by_id(method)}


@given(seeds, outcomes)
def test_scoring_again_changes_nothing(seed, value):
    """Credit, records and all: a scored trace scores to itself."""
    scored = score(rewarded(seed, value))
    assert score(scored) == scored


numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(st.lists(numbers, max_size=30), st.randoms(use_true_random=False))
def test_groups_merged_in_any_order_are_the_same(values, rng):
    """However the numbers are spread over processes and merged: the same bits."""
    alone = Group()
    for value in values:
        alone.add(value)
    parts = [Group() for _ in range(4)]
    for value in values:
        rng.choice(parts).add(value)
    rng.shuffle(parts)
    merged = Group()
    for part in parts:
        merged.merge(Group.from_dict(part.to_dict()))
    assert merged == alone
    assert (merged.mean, merged.sigma) == (alone.mean, alone.sigma)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_group_advantages_sum_to_nothing(values):
    """GRPO and RLOO only compare: what one run gains the others lose."""
    group = Group()
    for value in values:
        group.add(value)
    for advantage in (group.grpo, group.rloo):
        found = [advantage(value) for value in values]
        largest = max(map(abs, found))
        assert math.fsum(found) == pytest.approx(0.0, abs=1e-12 * max(1.0, largest) * len(values))


@given(st.lists(st.tuples(seeds, outcomes), max_size=6), st.integers(0, 5))
@settings(max_examples=20)
def test_runs_observed_by_several_processes_merge(runs, cut):
    """Tasks, agents and roles: merged is what one process would have seen."""
    traces = [replace(rewarded(seed, value), task_id="q") for seed, value in runs]
    alone, first, second = Groups(), Groups(), Groups()
    for number, trace in enumerate(traces):
        alone.observe(trace)
        (first if number < cut else second).observe(trace)
    second.merge(first)
    assert second.to_json() == alone.to_json()
    traces.reverse()
    for trace in traces:
        second.forget(trace)
    assert len(second) == 0
