"""What holds for the measures of every run: bounds, invariances, agreement with an oracle."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.measures import measure
from tests.properties.runs import TICK, random_run

seeds = st.integers(min_value=0, max_value=2**32)


def value(trace: Trace, name: str) -> float:
    measures, flags = measure(trace)
    assert not flags
    return measures[name]


@dataclass
class Oracle:
    """The definitions, spelled out: time passes tick by tick, chains by recursion."""

    trace: Trace

    def __post_init__(self):
        self.by_id = {event.id: event for event in self.trace.events}
        self.intervals = {}
        for event in self.trace.events:
            start = round(event.t / TICK)
            if event.id.endswith(".open"):
                end = self.by_id.get(event.id.replace(".open", ".close"), self.trace.stop)
                self.intervals[event.id[:-5]] = (event, end, start, round(end.t / TICK))
            elif "duration_s" in event.keys:
                duration = round(event["duration_s"] / TICK)
                self.intervals[event.id] = (event, event, start, start + duration)
        self.inner = {name: self.parts(name) for name in self.intervals}

    def owner(self, name):
        event = self.intervals[name][0]
        for edge in self.trace.edges:
            cause = self.by_id[edge.src]
            if edge.dst == event.id and cause.verb == "tool_call":
                return edge.src[:-5]
        return event.get("parent") if event["activation"] == name else event["activation"]

    def parts(self, name):
        return [other for other in self.intervals if self.owner(other) == name]

    def ticks(self, name):
        """The ticks in which the interval does work of its own."""
        event, _, start, end = self.intervals[name]
        taken = {tick for part in self.inner[name] for tick in range(*self.intervals[part][2:])}
        return [] if event.type == "human_intervention" else sorted({*range(start, end)} - taken)

    def busy(self) -> Counter[int]:
        return Counter(tick for name in self.intervals for tick in self.ticks(name))

    def span(self) -> int:
        done = {closed.id: len(self.ticks(n)) for n, (_, closed, _, _) in self.intervals.items()}
        ends = {closed.id: end for _, closed, _, end in self.intervals.values()}

        @functools.cache
        def chain(identity):
            causes = [chain(edge.src) for edge in self.trace.edges if edge.dst == identity]
            end = ends.get(identity, round(self.by_id[identity].t / TICK))
            return min(max(causes, default=0) + done.get(identity, 0), end)

        return max(chain(identity) for identity in self.by_id)


@given(seeds)
@example(56)
def test_measures_keep_their_bounds(seed):
    """No run has a span above its work or its makespan, or a share outside 0 to 1."""
    measures, flags = measure(random_run(seed))
    assert not flags
    assert 0 <= measures["span"] <= measures["work"]
    assert measures["span"] <= measures["makespan"]
    assert measures["parallelism"] >= 1
    assert measures["peak_concurrency"] >= 1
    assert measures["speed_up"] <= measures["peak_concurrency"]
    for share in ("parallelism_efficiency", "protocol_overhead", "waste"):
        assert 0 <= measures[share] <= 1


@settings(deadline=None)
@given(seeds)
def test_measures_agree_with_their_definitions(seed):
    """Work, span and peak are what walking through every tick and every chain gives."""
    trace = random_run(seed)
    oracle = Oracle(trace)
    busy = oracle.busy()
    assert value(trace, "work") == sum(busy.values()) / 1e9
    assert value(trace, "span") == oracle.span() / 1e9
    assert value(trace, "peak_concurrency") == max(busy.values(), default=1)


@given(seeds, st.randoms())
def test_order_of_events_and_edges_changes_no_bit(seed, rng):
    """Events and edges in any order give the same floats, bit for bit."""
    trace = random_run(seed)
    events, edges = list(trace.events), list(trace.edges)
    rng.shuffle(events)
    rng.shuffle(edges)
    assert measure(replace(trace, events=tuple(events), edges=tuple(edges))) == measure(trace)


@given(seeds)
def test_scoring_twice_is_scoring_once(seed):
    """A scored trace scores to itself."""
    scored = score(random_run(seed), [("calm", lambda trace: trace.metrics["work"])])
    assert score(scored, [("calm", lambda trace: trace.metrics["work"])]) == scored


@given(seeds, st.integers(min_value=2, max_value=1000))
def test_slower_clocks_scale_times_and_keep_ratios(seed, factor):
    """A run that is slower all over has the same ratios and longer times."""
    trace = random_run(seed)
    slower = replace(
        trace,
        events=tuple(
            replace(
                event,
                t=event.t * factor,
                keys=dict(event.keys)
                | (
                    {"duration_s": event["duration_s"] * factor}
                    if "duration_s" in event.keys
                    else {}
                ),
            )
            for event in trace.events
        ),
    )
    expected, _ = measure(trace)
    for name in ("work", "span", "makespan"):
        expected[name] = round(expected[name] * 1e9) * factor / 1e9
    assert measure(slower)[0] == expected


@given(seeds, st.data())
def test_an_instant_that_leads_nowhere_changes_no_measure(seed, data):
    """An event without duration, tokens or effects is free."""
    trace = random_run(seed)
    cause = data.draw(st.sampled_from(trace.events[:-1]))
    idle = Event("idle", cause.t + cause.get("duration_s", 0), "message", "idle")
    edge = Edge(cause.id, "idle", "message")
    more = replace(trace, events=(idle, *trace.events), edges=(*trace.edges, edge))
    assert measure(more) == measure(trace)


@given(seeds, st.data())
def test_an_edge_back_leaves_out_what_follows_causes(seed, data):
    """A cycle takes away span, parallelism and waste, and nothing else."""
    trace = random_run(seed)
    edge = data.draw(st.sampled_from(trace.edges))
    same_time = replace(trace, edges=(*trace.edges, Edge(edge.dst, edge.dst, "causal")))
    expected, _ = measure(trace)
    for name in ("span", "parallelism", "waste"):
        del expected[name]
    assert measure(same_time) == (expected, {"cyclic"})


@pytest.mark.parametrize("verb", ["spawn", "delegate"])
def test_depth_has_no_limit(verb):
    """A hundred thousand agents, each inside the one before, are measured without recursion."""
    depth = 100_000
    keys = [{"verb": verb, "activation": str(n), "parent": str(n - 1)} for n in range(depth)]
    del keys[0]["parent"]
    opened = [Event(f"{n}.open", n * TICK, verb, "a", keys[n]) for n in range(depth)]
    closed = [
        Event(f"{n}.close", (2 * depth - n) * TICK, "return", "a", {"activation": str(n)})
        for n in reversed(range(1, depth))
    ]
    stop = Event("stop", 2 * depth * TICK, "orchestrator_decision", "a", keys[0] | {"verb": "stop"})
    down = [Edge(f"{n}.open", f"{n + 1}.open", "spawn") for n in range(depth - 1)]
    up = [Edge(f"{n + 1}.close", f"{n}.close", "return") for n in range(1, depth - 1)]
    edges = [
        *down,
        *up,
        Edge("1.close", "stop", "return"),
        Edge("99999.open", "99999.close", "causal"),
    ]
    trace = Trace("run", "task", (*opened, *closed, stop), tuple(edges))
    measures, flags = measure(trace)
    assert not flags
    assert measures["work"] == measures["span"] == measures["makespan"] == 2 * depth / 1e9
