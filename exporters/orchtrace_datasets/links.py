"""Which call led to which: a run's graph of events, seen from its LLM calls.

A call is carried by an event. Going back from it along the edges of the trace, the first
events that carry calls are those whose words it had: what they are to it follows from
whose activation is inside of whose. Time is asked only within one activation, whose
calls follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from orchtrace_otel.datasets import Call, Run

Json: TypeAlias = dict[str, Any]

TABLES = ("events", "edges", "turns", "rewards")
"""Tables that links are made of."""


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
    _returned: dict[str, list[Json]] = field(default_factory=dict[str, "list[Json]"])

    def __post_init__(self) -> None:
        for call in self.run.calls:
            self._within.setdefault(str(call.row.get("activation")), []).append(call)
            self._carry(str(call.row.get("event")), call)
        self._look_at_events()
        self._look_at_edges()

    def _look_at_events(self) -> None:
        calls = {call.id: call for call in self.run.calls}
        for event in self.run.rows.events:
            for turn in event.get("turns") or ():
                if turn in calls:
                    self._carry(event["id"], calls[turn])
            parent, activation = event.get("parent"), event.get("activation")
            if parent is not None and event["id"] == f"{activation}.open":
                self._parents[str(activation)] = str(parent)
                self._opened[event["id"]] = event

    def _look_at_edges(self) -> None:
        events = {event["id"]: event for event in self.run.rows.events}
        for edge in self.run.rows.edges:
            if edge["type"] != "temporal":
                self._causes.setdefault(edge["dst"], []).append(edge["src"])
            if edge["type"] in _RETURNS and edge["src"] in events:
                came = events[edge["src"]]
                parent = self._parents.get(str(came.get("activation")), "")
                self._returned.setdefault(parent, []).append(came)

    def _carry(self, event: str, call: Call) -> None:
        if event not in self._carriers.setdefault(call.id, set()):
            self._carriers[call.id].add(event)
            self._carried.setdefault(event, []).append(call)

    def to(self, call: Call) -> list[Link]:
        """Return what led to a call, in order of the run's calls."""
        before = self._before(str(call.row.get("activation")), _start(call), call)
        sources = {source.id: source for source in self._sources(call)}
        if before is not None:
            # What the call before it in the same activation had already is that one's.
            sources = {key: one for key, one in sources.items() if not _is_before(one, before)}
            sources[before.id] = before
        found = (Link(source, self._type(source, call)) for source in sources.values())
        return sorted(found, key=lambda link: int(link.source.row["index"]))

    def _sources(self, call: Call) -> Iterator[Call]:
        # What came back to its activation, even where other work was begun with it first.
        returned = self._returned.get(str(call.row.get("activation")), ())
        came = {event["id"] for event in returned if float(event["t"]) <= _start(call)}
        seen = self._carriers[call.id] | came
        waiting = sorted(seen)
        while waiting:
            event = waiting.pop()
            sources = [] if event in self._carriers[call.id] else list(self._at(event, call))
            yield from sources
            if not sources:
                new = [one for one in self._causes.get(event, ()) if one not in seen]
                seen.update(new)
                waiting += new

    def _at(self, event: str, call: Call) -> Iterator[Call]:
        """Return the calls that an event on the way shows: it carries them, or they opened it."""
        carried = [
            one for one in self._carried.get(event, ()) if one is not call and _is_before(one, call)
        ]
        if carried:
            yield carried[-1]
        opened = self._opened.get(event)
        if opened is not None:
            caller = self._before(str(opened["parent"]), float(opened["t"]), call)
            if caller is not None:
                yield caller

    def _before(self, activation: str, t: float, call: Call) -> Call | None:
        """Return the last call of an activation that had ended by then."""
        ended = [
            one for one in self._within.get(activation, ()) if one is not call and _end(one) <= t
        ]
        return ended[-1] if ended else None

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
