"""Which call led to which: a run's graph of events, seen from its LLM calls.

A call is carried by an event. Going back from it along the edges of the trace, the first
events that carry calls are those whose words it had: what they are to it follows from
whose activation is inside of whose. Time is asked only within one activation, whose
calls follow one another.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from orchtrace_otel.datasets import Call, Run

Json: TypeAlias = dict[str, Any]

TABLES = ("events", "edges", "turns", "rewards")
"""Tables that links are made of."""
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "events": ("id", "t", "turns", "parent", "activation"),
    "edges": ("src", "dst", "type"),
}
"""Of those that they are made of in part, the columns."""


class Link(NamedTuple):
    """A call that led to another one.

    Attributes:
        source: The call whose words it had.
        type: `continuation` of the same instance, `subagent_call` by one that it works
            for, `subagent_return` of one that works for it, `agent_message` of others.
    """

    source: Call
    type: str


_RETURNS: Final = frozenset({"return", "aggregate"})


@dataclass(slots=True)
class Links:
    """The links of one run.

    Args:
        run: With rows of `TABLES`.
    """

    run: Run
    _carried: dict[str, list[Call]] = field(default_factory=dict[str, "list[Call]"])
    _carriers: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    _causes: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    _within: dict[str, list[Call]] = field(default_factory=dict[str, "list[Call]"])
    _parents: dict[str, str] = field(default_factory=dict[str, str])
    _opened: dict[str, Json] = field(default_factory=dict[str, Json])
    _returned: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    _times: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        for call in self.run.calls:
            self._within.setdefault(str(call.row.get("activation")), []).append(call)
            self._carry(str(call.row.get("event")), call)
        for calls in self._within.values():
            calls.sort(key=_end)
        self._look_at_events()
        self._look_at_edges()
        for events in (*self._causes.values(), *self._returned.values()):
            events.sort(key=self._times.__getitem__)

    def _look_at_events(self) -> None:
        calls = {call.id: call for call in self.run.calls}
        for event in self.run.rows.events:
            self._times[event["id"]] = float(event["t"])
            for turn in event.get("turns") or ():
                if turn in calls:
                    self._carry(event["id"], calls[turn])
            parent, activation = event.get("parent"), event.get("activation")
            if parent is not None and event["id"] == f"{activation}.open":
                self._parents[str(activation)] = str(parent)
                self._opened[event["id"]] = event

    def _look_at_edges(self) -> None:
        of_activation = {row["id"]: str(row.get("activation")) for row in self.run.rows.events}
        for edge in self.run.rows.edges:
            source = edge["src"]
            if edge["type"] == "temporal" or source not in self._times:
                continue
            self._causes.setdefault(edge["dst"], []).append(source)
            if edge["type"] in _RETURNS:
                parent = self._parents.get(of_activation[source], "")
                self._returned.setdefault(parent, []).append(source)

    def _carry(self, event: str, call: Call) -> None:
        if event not in self._carriers.setdefault(call.id, set()):
            self._carriers[call.id].add(event)
            self._carried.setdefault(event, []).append(call)

    def to(self, call: Call) -> list[Link]:
        """Return what led to a call, in order of the run's calls."""
        before = self._before(str(call.row.get("activation")), _start(call), call)
        sources = {source.id: source for source in self._sources(call, before)}
        if before is not None:
            # What the call before it in the same activation had already is that one's.
            sources = {key: one for key, one in sources.items() if not _is_before(one, before)}
            sources[before.id] = before
        found = (Link(source, self._type(source, call)) for source in sources.values())
        return sorted(found, key=lambda link: int(link.source.row["index"]))

    def _sources(self, call: Call, before: Call | None) -> Iterator[Call]:
        # Only what is between the call before and this one: earlier things are that one's, and
        # what carries a call comes after it, so that its other causes may come later, too.
        first = -math.inf if before is None else _start(before)
        # What came back to its activation, even where other work was begun with it first.
        returned = self._returned.get(str(call.row.get("activation")), [])
        seen = self._carriers[call.id] | set(self._between(returned, first, _start(call)))
        waiting = sorted(seen)
        while waiting:
            event = waiting.pop()
            sources = [] if event in self._carriers[call.id] else list(self._at(event, call))
            yield from sources
            if not sources:
                causes = self._between(self._causes.get(event, []), first, _start(call))
                new = [one for one in causes if one not in seen]
                seen.update(new)
                waiting += new

    def _between(self, events: list[str], first: float, last: float) -> list[str]:
        time = self._times.__getitem__
        return events[bisect_left(events, first, key=time) : bisect_right(events, last, key=time)]

    def _at(self, event: str, call: Call) -> Iterator[Call]:
        """Return the calls that an event on the way shows: it carries them, or they opened it."""
        carried = reversed(self._carried.get(event, ()))
        last = next((one for one in carried if one is not call and _is_before(one, call)), None)
        if last is not None:
            yield last
        opened = self._opened.get(event)
        if opened is not None:
            caller = self._before(str(opened["parent"]), float(opened["t"]), call)
            if caller is not None:
                yield caller

    def _before(self, activation: str, t: float, call: Call) -> Call | None:
        """Return the last call of an activation that had ended by then."""
        calls = self._within.get(activation, [])
        place = bisect_right(calls, t, key=_end) - 1
        if place >= 0 and calls[place] is call:
            place -= 1
        return calls[place] if place >= 0 else None

    def _type(self, source: Call, target: Call) -> str:
        if source.row.get("instance") == target.row.get("instance"):
            return "continuation"
        one, other = str(source.row.get("activation")), str(target.row.get("activation"))
        if one in self._above(other):
            return "subagent_call"
        return "subagent_return" if other in self._above(one) else "agent_message"

    def _above(self, activation: str) -> set[str]:
        above: set[str] = set()
        while (activation := self._parents.get(activation, "")) and activation not in above:
            above.add(activation)
        return above


def _start(call: Call) -> float:
    return float(call.row.get("t") or 0.0)


def _end(call: Call) -> float:
    return _start(call) + float(call.row.get("duration_s") or 0.0)


def _is_before(one: Call, other: Call) -> bool:
    return _end(one) <= _start(other)
