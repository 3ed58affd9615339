"""A trace as an outline: what happened inside what, in order, and what led to it.

Our traces say which stretch of work an event belongs to; they become nested items.
Traces of others have edges alone; there an event stands below its latest cause, and a
chain of single effects stays on one level, so that long runs do not drift to the right.
Takes any trace that the schema accepts, whatever its open keys hold.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from orchtrace_otel.model import Edge, Event, Trace

Kind: TypeAlias = Literal["agent", "tool", "point", "event"]

_OPENED_BY: Final = {"spawn": "spawned", "delegate": "delegated to", "begin": "begun"}
_SCHEMA_WORDS: Final = {
    "orchestrator_decision": "decides",
    "spawn": "spawns",
    "despawn": "despawns",
    "message": "sends to",
    "tool_call": "calls",
    "tool_result": "gives its result",
    "return": "returns to",
    "aggregate": "aggregates",
    "human_intervention": "human intervention",
    "safety_event": "safety event",
}


@dataclass(slots=True)
class Item:
    """One line of the outline.

    Attributes:
        kind: A stretch of work by an agent, a tool call, a point in time in either, or an
            event of which nobody knows where it belongs.
        name: Label of the agent's instance, name of the tool, what was done, or the event's id.
        agent: Who did it.
        start: Seconds since the run began.
        end: When it ended; None for a point and for what never ended.
        says: What more there is to say about it.
        causes: Labels of what led to it, where its place in the outline does not say so.
        tokens: Tokens counted on it and on its end.
        turns: LLM calls made in it.
        status: One of `model.STATUSES`.
        inside: What happened inside it, in order.
    """

    kind: Kind
    name: str
    agent: str
    start: float
    end: float | None = None
    says: str = ""
    causes: tuple[str, ...] = ()
    tokens: float = 0
    turns: int = 0
    status: str = "ok"
    inside: list[Item] = field(default_factory=list["Item"])


@dataclass(frozen=True, slots=True)
class Row:
    """An item where it stands: how deep, and whether more follow on its level.

    Attributes:
        item: The item.
        follows: For each level down to the item's own, whether more follow there.
    """

    item: Item
    follows: tuple[bool, ...]


def seconds(value: object) -> float:
    """Return a time that can be drawn: 0 where `value` is no finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0


def rows(items: Sequence[Item]) -> Iterator[Row]:
    """Go through an outline from top to bottom; without recursion, so however deep it is."""
    work: list[tuple[Item, tuple[bool, ...]]] = []

    def put(level: Sequence[Item], above: tuple[bool, ...]) -> None:
        last = len(level) - 1
        work.extend((level[at], (*above, at < last)) for at in range(last, -1, -1))

    put(items, ())
    while work:
        item, follows = work.pop()
        yield Row(item, follows)
        put(item.inside, follows)


def outline(trace: Trace) -> list[Item]:
    """Return the outermost items of `trace`."""
    if any(_activation(event) is not None for event in trace.events):
        return _Nested(trace).items()
    return _chained(trace)


def _activation(event: Event) -> str | None:
    found = event.get("activation")
    return found if isinstance(found, str) else None


def _text(event: Event, key: str) -> str:
    found = event.get(key)
    return found if isinstance(found, str) else ""


def _words(value: object) -> str:
    """A choice in words: several names are listed, and counted where they repeat."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        return ""
    counted = Counter(map(str, cast("Sequence[object]", value)))
    return ", ".join(name if n == 1 else f"{name} x{n}" for name, n in counted.items())


class _Nested:
    """The steps that nest the events of one of our traces."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.events = {event.id: event for event in trace.events}
        self.labels = _labels(trace)
        self.owners: dict[str, Item] = {}
        self.around: dict[int, Item] = {}
        self.top: list[Item] = []

    def items(self) -> list[Item]:
        activations: dict[str, Item] = {}
        for event in self.trace.events:
            name = _activation(event)
            if event.id == f"{name}.open":
                item = self._opening(event)
                # Placed before it is known by its name: what says that it contains itself does not.
                self._place(item, activations.get(_text(event, "parent")))
                activations[name or ""] = item
            elif event.id.endswith(".close") and f"{event.id[:-6]}.open" in self.owners:
                item = self.owners[f"{event.id[:-6]}.open"]
                item.end = seconds(event.t)
                item.status = _text(event, "status") or item.status
            else:
                item = self._other(event)
                self._place(item, activations.get(name or ""))
            item.tokens += seconds(event.get("tokens"))
            self.owners[event.id] = item
        self._finish()
        return self.top

    def _place(self, item: Item, around: Item | None) -> None:
        if around is None:
            self.top.append(item)
        else:
            around.inside.append(item)
            self.around[id(item)] = around

    def _opening(self, event: Event) -> Item:
        agent = _text(event, "to") or event.agent
        says = "begun by user" if event.agent == "user" else _OPENED_BY.get(event.verb, event.verb)
        label = self.labels.get(_text(event, "instance"), agent)
        return Item("agent", label, agent, seconds(event.t), says=says)

    def _other(self, event: Event) -> Item:
        start = seconds(event.t)
        status = _text(event, "status") or "ok"
        if event.verb == "tool_call" and event.id.endswith(".open"):
            return Item("tool", _text(event, "tool"), event.agent, start, status=status)
        lasted = seconds(event.get("duration_s"))
        end = start + lasted if lasted else None
        says = _said_of(event)
        return Item("point", event.verb, event.agent, start, end, says, status=status)

    def _finish(self) -> None:
        """Add the causes, and the end of what only the stop closed."""
        causes: dict[str, list[Edge]] = {}
        for edge in self.trace.edges:
            if edge.type != "temporal":
                causes.setdefault(edge.dst, []).append(edge)
        for name, item in self.owners.items():
            if not name.endswith(".close"):
                item.causes = self._causes(item, causes.get(name, ()))
        for turn in self.trace.turns:
            if isinstance(turn.activation, str) and f"{turn.activation}.open" in self.owners:
                self.owners[f"{turn.activation}.open"].turns += 1
        stop = self.trace.stop
        closed = self.owners.get(f"{_activation(stop)}.open") if stop is not None else None
        if stop is not None and closed is not None and closed.end is None:
            closed.end = seconds(stop.t)
            closed.status = _text(stop, "status") or closed.status

    def _causes(self, item: Item, edges: Sequence[Edge]) -> tuple[str, ...]:
        """Name what led to an item, its surroundings aside: they are seen."""
        work: dict[str, None] = {}
        messages: dict[str, None] = {}
        for edge in edges:
            cause = self.owners.get(edge.src)
            if cause is None or cause is item or cause is self.around.get(id(item)):
                continue
            if cause.kind != "point":
                work[cause.name] = None
            elif edge.type == "message":
                event = self.events[edge.src]
                messages[self.labels.get(_text(event, "instance"), cause.agent)] = None
        if not messages:
            return _grouped(work)
        word = "message of" if len(messages) == 1 else "messages of"
        return (*_grouped(work), f"{word} {', '.join(_grouped(messages))}")


def _grouped(labels: Iterable[str]) -> tuple[str, ...]:
    """Say the name of an agent once for several of its instances.

    Example:
        >>> _grouped(["scout#1", "critic", "scout#3"])
        ('scout#1 #3', 'critic')
    """
    groups: dict[str, str] = {}
    for label in labels:
        name, mark, number = label.rpartition("#")
        known = groups.get(name) if mark else None
        groups[name if mark else label] = label if known is None else f"{known} #{number}"
    return tuple(groups.values())


def _labels(trace: Trace) -> dict[str, str]:
    """Instance to label: the agent's name alone where it lived once."""
    lives: dict[str, set[str]] = {}
    for event in trace.events:
        instance = _text(event, "instance")
        opened = event.id == f"{_activation(event)}.open"
        if instance and opened:
            lives.setdefault(_text(event, "to") or event.agent, set()).add(instance)
    labels: dict[str, str] = {}
    for agent, instances in lives.items():
        alone = len(instances) == 1
        labels.update({instance: agent if alone else instance for instance in instances})
    return labels


def _said_of(event: Event) -> str:
    """What a point in time has to say, from the keys of its verb."""
    match event.verb:
        case "decide":
            name = _text(event, "name")
            return " -> ".join(part for part in (name, _words(event.get("chosen"))) if part)
        case "stop":
            detail = _text(event, "stop_detail")
            return _text(event, "stop_reason") + (f" ({detail})" if detail else "")
        case "aggregate":
            return ""
        case _:
            to = _text(event, "to") or _text(event, "tool")
            return f"-> {to}" if to else ""


def _chained(trace: Trace) -> list[Item]:
    """Events of a trace that has edges alone, each below its latest cause."""
    place = {event.id: at for at, event in enumerate(trace.events)}
    items = [_foreign(event) for event in trace.events]
    below: dict[int, list[int]] = {}
    top: list[int] = []
    sources = _sources(trace, place)
    for at in range(len(items)):
        earlier = sorted(source for source in sources.get(at, ()) if source < at)
        (below.setdefault(earlier[-1], []) if earlier else top).append(at)
        items[at].causes = tuple(trace.events[source].id for source in earlier[:-1])
    return _levels(items, below, top)


def _levels(items: list[Item], below: Mapping[int, list[int]], top: list[int]) -> list[Item]:
    """Nest effects in their causes, but list a chain of single effects on one level."""
    result: list[Item] = []
    is_branch = len(top) > 1
    work = [(result, at, is_branch) for at in reversed(top)]
    while work:
        level, at, is_branch = work.pop()
        level.append(items[at])
        effects = below.get(at, [])
        forks = len(effects) > 1
        target = items[at].inside if forks or is_branch else level
        work.extend((target, effect, forks) for effect in reversed(effects))
    return result


def _sources(trace: Trace, place: Mapping[str, int]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for edge in trace.edges:
        if edge.type != "temporal" and edge.src in place and edge.dst in place:
            found.setdefault(place[edge.dst], set()).add(place[edge.src])
    return found


def _foreign(event: Event) -> Item:
    word = _SCHEMA_WORDS.get(event.type, event.type)
    about = _text(event, "to") or _text(event, "tool")
    if about == event.agent:
        about = ""
    says = " ".join(part for part in (word, about) if part)
    start = seconds(event.t)
    lasted = seconds(event.get("duration_s"))
    end = start + lasted if lasted else None
    tokens: Any = event.get("tokens")
    return Item("event", event.id, event.agent, start, end, says, tokens=seconds(tokens))
