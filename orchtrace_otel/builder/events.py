"""The events of a trace being built, and what is said of them until the trace is whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.records import SpanRecord
from orchtrace_otel.builder.tree import Tree
from orchtrace_otel.builder.values import texts
from orchtrace_otel.model import VERBS, Edge, Event, Json

NANO: Final = 1_000_000_000

BEGIN: Final = 0
OPENING: Final = 1
POINT: Final = 2
CLOSING: Final = 3
"""The order of events of one instant."""


class Events:
    """Tables by event id, filled span by span in canonical order.

    Attributes:
        tree: The spans that the events come from.
        flags: What is known to be lost or wrong.
        origin: When the run began, in nanoseconds since the epoch.
        keys: The keys of each event; events hold these very objects, so that what is
            found out later gets into them.
        rows: Events with what they are sorted by.
        edges: Edges between events, both of them known.
        incoming: Event id to what the event says of its causes, which may be unknown.
        claims: Turn to the event that came from it, which gets its tokens.
        agents: Activation to its agent.
        has_unsure_parents: Whether an activation came before the one it is inside of.
    """

    __slots__ = (
        "_end",
        "agents",
        "claims",
        "edges",
        "flags",
        "has_unsure_parents",
        "incoming",
        "keys",
        "origin",
        "rows",
        "tree",
    )

    def __init__(self, tree: Tree, flags: set[str]) -> None:
        first = tree.root or next(iter(tree.by_id.values()), None)
        self.tree = tree
        self.flags = flags
        self.origin = 0 if first is None else first.start
        self._end = inf if tree.root is None else tree.root.end
        self.keys: dict[str, Json] = {}
        self.rows: list[tuple[int, int, str, Event]] = []
        self.edges: list[Edge] = []
        self.incoming: dict[str, Sequence[str]] = {}
        self.claims: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.has_unsure_parents = False

    def add(self, at: int, rank: int, event_id: str, agent: str, keys: Json) -> None:
        """Add an event, whose `keys` begin with its verb."""
        kind, decision = VERBS[keys["verb"]]
        if decision is not None:
            keys["decision"] = decision
        origin = self.origin
        if not origin <= at <= self._end:
            at = self._into_run(at, keys)
        self.keys[event_id] = keys
        event = Event(event_id, (at - origin) / NANO, kind, agent, keys)
        self.rows.append((at, rank, event_id, event))

    def add_closing(self, record: SpanRecord, agent: str, keys: Json) -> None:
        """Add the end of a span whose opening is there already."""
        span_id, end = record.span_id, record.end
        if end < record.start:
            self.flags.add("skewed")
            end = record.start
        closed = span_id + ".close"
        self.add(end, CLOSING, closed, agent, keys)
        found = record.attributes
        if a.EDGES_CLOSE in found:
            self.add_causes(closed, found, a.EDGES_CLOSE)
        self.edges.append(Edge(span_id + ".open", closed, "causal"))

    def add_causes(self, event_id: str, found: Mapping[str, Any], key: str) -> None:
        """Note what an attribute says of an event's causes."""
        items = found.get(key)
        if items:
            if items.__class__ is not tuple:
                items = texts(found, key, self.flags)
            self.incoming[event_id] = items

    def claim(self, event_id: str, found: Mapping[str, Any]) -> None:
        """Note which turns an event came from; the first event takes a turn's tokens."""
        if a.TURNS in found:
            for turn in texts(found, a.TURNS, self.flags):
                self.claims.setdefault(turn, event_id)

    def place(self, record: SpanRecord, keys: Json) -> None:
        """Name the activation that an event belongs to, and the instance that works in it."""
        owner = self.tree.owner(record)
        keys["activation"] = owner
        holder = self.tree.by_id.get(owner)
        if holder is not None and a.INSTANCE in holder.attributes:
            keys["instance"] = str(holder.attributes[a.INSTANCE])

    def seconds(self, at: int) -> float:
        """Return when something was, counted from the run's beginning, which nothing precedes."""
        return max(at - self.origin, 0) / NANO

    def _into_run(self, at: int, keys: Json) -> int:
        """Return when an event counts that was before its run began, or is after its end."""
        if at < self.origin:
            self.flags.add("skewed")
            at = self.origin
        if at > self._end:
            keys["late"] = True
            self.flags.add("late_spans")
        return at
