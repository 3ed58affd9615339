"""The events of a trace being built, and what is said of them until the trace is whole."""

from __future__ import annotations

from math import inf
from typing import Any, Final, TypeAlias

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

Row: TypeAlias = tuple[int, int, str, str, str, Json]
"""When an event was, its place among those of one instant, and what `Event` takes but for `t`."""


class Events:
    """Tables by event id, filled span by span in canonical order.

    Attributes:
        tree: The spans that the events come from.
        flags: What is known to be lost or wrong.
        origin: When the run began, in nanoseconds since the epoch.
        end: When its root ended, likewise; never where that is missing.
        keys: The keys of each event; events hold these very objects, so that what is
            found out later gets into them.
        rows: What becomes events once all spans are taken.
        edges: Edges between events, both of them known.
        incoming: Event id to what its span says of its causes, whatever that is.
        claims: Turn to the event that came from it, which gets its tokens.
        agents: Activation to its agent.
        has_unsure_parents: Whether an activation came before the one it is inside of.
    """

    __slots__ = (
        "agents",
        "claims",
        "edges",
        "end",
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
        self.end = inf if tree.root is None else tree.root.end
        self.keys: dict[str, Json] = {}
        self.rows: list[Row] = []
        self.edges: list[Edge] = []
        self.incoming: dict[str, Any] = {}
        self.claims: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.has_unsure_parents = False

    def add(self, record: SpanRecord, rank: int, event_id: str, agent: str, keys: Json) -> None:
        """Add a span's first event, whose `keys` begin with its verb, and note its causes."""
        kind, decision = VERBS[keys["verb"]]
        if decision is not None:
            keys["decision"] = decision
        self.keys[event_id] = keys
        self.rows.append((record.start, rank, event_id, kind, agent, keys))
        if a.EDGES in record.attributes:
            self.incoming[event_id] = record.attributes[a.EDGES]

    def add_closing(self, record: SpanRecord, opened: str, agent: str, keys: Json) -> None:
        """Add the end of a span, whose verb is a type of events too, and note its causes."""
        end = record.end
        if end < record.start:
            self.flags.add("skewed")
            end = record.start
        closed = record.span_id + ".close"
        self.keys[closed] = keys
        self.rows.append((end, CLOSING, closed, keys["verb"], agent, keys))
        self.edges.append(Edge(opened, closed, "causal"))
        if a.EDGES_CLOSE in record.attributes:
            self.incoming[closed] = record.attributes[a.EDGES_CLOSE]

    def claim(self, event_id: str, turns: Any) -> None:
        """Note which turns an event came from; the first event takes a turn's tokens."""
        for turn in texts(turns, self.flags):
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

    def in_order(self) -> list[Event]:
        """Sort the rows, all of which are there, and return the events of them."""
        self.rows.sort()
        if self.rows and not self.origin <= self.rows[0][0] <= self.rows[-1][0] <= self.end:
            self._into_run()
        origin = self.origin
        return [
            Event(event_id, (at - origin) / NANO, kind, agent, keys)
            for at, _, event_id, kind, agent, keys in self.rows
        ]

    def _into_run(self) -> None:
        """Let events begin with their run, and say which ones came after its end."""
        if self.rows[0][0] < self.origin:
            self.flags.add("skewed")
            self.rows = sorted((max(row[0], self.origin), *row[1:]) for row in self.rows)
        for at, _, _, _, _, keys in self.rows:
            if at > self.end:
                keys["late"] = True
                self.flags.add("late_spans")
