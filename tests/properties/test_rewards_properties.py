"""What holds for the measures of every run: bounds, invariances, agreement with an oracle.

`random_run` plays a team: activations that work, call tools and agents one after the other
or at once, merge, ask people, hand off, leave work behind, and send messages. It writes
events and edges the way the builder does, so that its traces are ones that can occur.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.measures import measure

TICK = 1e-9
"""Times are small counts of nanoseconds, so that an oracle can walk through all of them."""

VERB_TYPES = {
    "begin": "message",
    "spawn": "spawn",
    "delegate": "orchestrator_decision",
    "decide": "orchestrator_decision",
    "aggregate": "aggregate",
    "human_intervention": "human_intervention",
    "message": "message",
    "tool_call": "tool_call",
    "tool_result": "tool_result",
    "return": "return",
    "stop": "orchestrator_decision",
}

Cause = tuple[str, str]


@dataclass
class Team:
    """A run being played; each method plays a stretch of it and returns when it was over."""

    random: random.Random
    events: list[Event] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    left_behind: list[Cause] = field(default_factory=list)
    depth: int = 4

    def tick(self, most: int = 6) -> int:
        return self.random.choice((0, self.random.randint(0, most)))

    def event(self, identity, at, verb, activation, causes=(), **keys):
        if verb != "stop" and self.random.random() < 0.3:
            keys["tokens"] = self.random.randint(0, 50)
        if verb == "return" and self.random.random() < 0.2:
            keys["status"] = "error"
        keys = {"verb": verb, "activation": activation, "instance": activation} | keys
        self.events.append(Event(identity, at * TICK, VERB_TYPES[verb], activation, keys))
        self.edges += [Edge(cause, identity, kind) for kind, cause in causes]

    def name(self) -> str:
        return f"{self.random.getrandbits(64):016x}"

    def activation(self, at, parent, causes, depth) -> tuple[int, Cause]:
        name = self.name()
        verb = self.random.choice(("spawn", "delegate", "begin"))
        self.event(f"{name}.open", at, verb, name, causes, parent=parent)
        end, flow = self.steps(name, at, [("causal", f"{name}.open")], depth)
        closing = {*flow, ("causal", f"{name}.open")}
        self.event(f"{name}.close", end, "return", name, sorted(closing))
        return end, ("return", f"{name}.close")

    def steps(self, name, at, flow, depth) -> tuple[int, list[Cause]]:
        """What an activation does; `flow` holds what its next step follows from."""
        for _ in range(self.random.randint(0, 4)):
            at += self.tick()
            steps = [self.tool, self.point, self.instant]
            if depth:
                steps += [self.call, self.gather, self.agent_tool, self.background]
            at, flow = self.random.choice(steps)(name, at, flow, depth)
        return at + self.tick(), flow

    def tool(self, name, at, flow, _depth):
        tool, end = self.name(), at + self.tick()
        self.event(f"{tool}.open", at, "tool_call", name, flow)
        self.event(f"{tool}.close", end, "tool_result", name, [("causal", f"{tool}.open")])
        return end, [("tool_dependency", f"{tool}.close")]

    def agent_tool(self, name, at, flow, depth):
        tool = self.name()
        self.event(f"{tool}.open", at, "tool_call", name, flow)
        inside = [("causal", f"{tool}.open")]
        end, result = self.activation(at + self.tick(), name, inside, depth - 1)
        end += self.tick()
        self.event(f"{tool}.close", end, "tool_result", name, [*inside, result])
        return end, [("tool_dependency", f"{tool}.close")]

    def point(self, name, at, flow, _depth):
        verb = self.random.choice(("decide", "aggregate", "human_intervention"))
        point, duration = self.name(), self.tick()
        self.event(point, at, verb, name, flow, duration_s=duration * TICK)
        return at + duration, [("causal", point)]

    def instant(self, name, at, flow, _depth):
        instant = self.name()
        read = [self.random.choice(self.left_behind)] if self.left_behind else []
        at = max([at, *(self.time(cause) for _, cause in read)])
        self.event(instant, at, "message", name, [*flow, *read])
        return at, [("causal", instant)]

    def time(self, identity) -> int:
        return next(round(event.t / TICK) for event in self.events if event.id == identity)

    def call(self, name, at, flow, depth):
        end, result = self.activation(at, name, flow, depth - 1)
        return end, [result]

    def gather(self, name, at, flow, depth):
        started = [at + self.tick() for _ in range(self.random.randint(1, 4))]
        results = [self.activation(start, name, flow, depth - 1) for start in started]
        return max(end for end, _ in results), [result for _, result in results]

    def background(self, name, at, flow, depth):
        """Start an activation and do not wait: it may outlive the one that started it."""
        _, (_, closed) = self.activation(at, name, flow, depth - 1)
        self.left_behind.append(("message", closed))
        return at, flow


def random_run(seed: int) -> Trace:
    """A finished run of a team, its events in the builder's order."""
    team = Team(random.Random(seed))  # noqa: S311 - seeded, so that a failure can be replayed
    root = team.name()
    team.event(f"{root}.open", 0, "begin", root)
    end, flow = team.steps(root, 0, [("causal", f"{root}.open")], team.depth)
    end = max([end, *(round(event.t / TICK) for event in team.events)])
    causes = {*flow, ("causal", f"{root}.open")}
    team.event("stop", end, "stop", root, sorted(causes), stop_reason="information_complete")
    *events, stop = team.events
    events.sort(key=lambda event: (event.t, event.id))
    tokens = sum(event.get("tokens", 0) for event in events)
    return Trace(
        trace_id="run",
        task_id="task",
        events=(*events, stop),
        edges=tuple(team.edges),
        costs={"tokens": tokens, "wall_clock_s": end * TICK},
        metrics={"turns": 3},
    )


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
