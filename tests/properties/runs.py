"""Random runs: teams that work, call, merge, ask people, hand off, leave work behind, and talk.

Events and edges are written the way the builder does, so that its traces are ones that can
occur. FORK3 is the formula sheet's example.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

from orchtrace_otel.model import Edge, Event, Trace

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


def fork3() -> Trace:
    """The sheet's twelve events: no verbs, no activations, work as durations."""
    rows = (
        ("e1", 0, "orchestrator_decision", "O", {"duration_s": 2, "tokens": 200}),
        ("e2", 2, "spawn", "O", {}),
        ("e3", 2, "spawn", "O", {}),
        ("e4", 2, "spawn", "O", {}),
        ("e5", 2, "tool_call", "A", {"duration_s": 4, "tokens": 400}),
        ("e6", 2, "tool_call", "B", {"duration_s": 6, "tokens": 600}),
        ("e7", 2, "tool_call", "C", {"duration_s": 2, "tokens": 200, "status": "error"}),
        ("e10", 4, "return", "C", {"status": "error"}),
        ("e8", 6, "return", "A", {}),
        ("e9", 8, "return", "B", {}),
        ("e11", 8, "aggregate", "O", {"duration_s": 1, "tokens": 100}),
        ("e12", 9, "orchestrator_decision", "O", {"verb": "stop", "stop_reason": "verified"}),
    )
    return Trace("fork3", "task", tuple(Event(*row) for row in rows), _chains(), {"task": 1.0})


def opened_fork3() -> Trace:
    """The same as the builder writes it: the agents' work between an opening and a close."""
    spans = [
        (name, 2, end, tokens)
        for name, end, tokens in (("A", 6, 400), ("B", 8, 600), ("C", 4, 200))
    ]
    opened = [
        Event(
            f"{name}.open", t, "spawn", name, {"verb": "begin", "activation": name, "parent": "O"}
        )
        for name, t, _, _ in spans
    ]
    closed = [
        Event(
            f"{name}.close", t, "return", name, {"verb": "return", "activation": name, "tokens": k}
        )
        for name, _, t, k in spans
    ]
    whole = fork3()
    kept = {"e1", "e2", "e3", "e4", "e11", "e12"}
    others = [
        Event(one.id, one.t, one.type, one.agent, {"activation": "O", **one.keys})
        for one in whole.events
        if one.id in kept
    ]
    root = Event("O.open", 0, "message", "user", {"verb": "begin", "activation": "O", "to": "O"})
    *before, stop = sorted((root, *opened, *closed, *others), key=lambda one: (one.t, one.id))
    edges = _edges(
        "O.open e1 e2 A.open A.close e11 e12", "e1 e3 B.open B.close e11", "e1 e4 C.open C.close"
    )
    return Trace("fork3", "task", (*before, stop), edges, {"task": 1.0})


def _chains() -> tuple[Edge, ...]:
    return _edges("e1 e2 e5 e8 e11 e12", "e1 e3 e6 e9 e11", "e1 e4 e7 e10")


def _edges(*chains: str) -> tuple[Edge, ...]:
    return tuple(Edge(*pair, "causal") for chain in chains for pair in pairwise(chain.split()))
