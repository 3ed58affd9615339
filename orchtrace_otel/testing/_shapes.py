"""What a trace says, without ids and times, so that two runs can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchtrace_otel.model import Event, Trace

Shape: TypeAlias = tuple[str, ...]

_BESIDE: tuple[str, ...] = ("temporal", "message", "return")


def shape(trace: Trace) -> Shape:
    """Return each event with its activation and each edge between such, sorted."""
    names = {event.id: _label(event) for event in trace.events}
    where = {event["activation"]: event.get("to") for event in trace.events if _opens(event)}
    events = [
        f"{names[event.id]} in {where.get(event['activation'])}, {event.get('status')}"
        for event in trace.events
    ]
    edges = [f"{edge.type}: {names[edge.src]} -> {names[edge.dst]}" for edge in trace.edges]
    return tuple(sorted(events) + sorted(edges))


def difference(one: Shape, other: Shape) -> str:
    """Say what two shapes do not share, shortly; empty where nothing."""
    left, right = list(one), list(other)
    for line in one:
        if line in right:
            right.remove(line)
            left.remove(line)
    lines = [f"- {line}" for line in left] + [f"+ {line}" for line in right]
    return "\n".join(lines[:12])


def _label(event: Event) -> str:
    detail = event.get("tool") or event.get("to") or event.get("chosen") or event.get("stop_reason")
    return f"{event.agent} {event.verb} {detail or ''}".rstrip()


def _opens(event: Event) -> bool:
    return event.id.endswith(".open") and event.verb != "tool_call"


def openings(trace: Trace, agent: str) -> list[Event]:
    """Return the openings of an agent's activations, in order."""
    return [event for event in trace.events if _opens(event) and event.get("to") == agent]


def holders(trace: Trace, opening: Event) -> list[str]:
    """Return the agents whose activations contain an opening's, from the nearest outwards."""
    above = {event["activation"]: event for event in trace.events if _opens(event)}
    found: list[str] = []
    parent = opening.get("parent")
    while parent in above:
        found.append(str(above[parent].get("to")))
        parent = above[parent].get("parent")
    return found


def triggers(trace: Trace, opening: Event) -> set[str]:
    """Return the agents that an opening follows from.

    Read off the edges, back through the instants of orchestrators around it: the
    owners of what the edges into it start from, other than messages and returns.
    """
    events = {event.id: event for event in trace.events}
    around = _around(trace, opening)
    found: set[str] = set()
    seen: set[str] = set()
    waiting = _sources(trace, events, opening.id, _BESIDE)
    while waiting:
        cause = waiting.pop()
        if cause.id in seen:
            continue
        seen.add(cause.id)
        is_instant = not cause.id.endswith((".open", ".close"))
        if (
            is_instant
            and cause["activation"] in around
            and cause.agent == around[cause["activation"]]
        ):
            waiting += _sources(trace, events, cause.id, _BESIDE[:2])
        else:
            found.add(around.get(cause["activation"]) or _owner(trace, cause))
    return found


def leading_to(trace: Trace, event: Event) -> list[Event]:
    """Return the events that an event follows from, however far back; no order in time is one."""
    events = {one.id: one for one in trace.events}
    found: dict[str, Event] = {}
    waiting = [event]
    while waiting:
        for cause in _sources(trace, events, waiting.pop().id, ("temporal",)):
            if cause.id not in found:
                found[cause.id] = cause
                waiting.append(cause)
    return list(found.values())


def _around(trace: Trace, opening: Event) -> dict[str, str]:
    """Activations that contain an opening's, and their agents."""
    above = {event["activation"]: event for event in trace.events if _opens(event)}
    found: dict[str, str] = {}
    parent = opening.get("parent")
    while parent in above and parent not in found:
        found[parent] = str(above[parent].get("to"))
        parent = above[parent].get("parent")
    return found


def _owner(trace: Trace, event: Event) -> str:
    activation = event["activation"]
    own = (e for e in trace.events if _opens(e) and e["activation"] == activation)
    return str(next((e.get("to") for e in own), event.agent))


def _sources(
    trace: Trace, events: Mapping[str, Event], into: str, without: tuple[str, ...]
) -> list[Event]:
    return [events[e.src] for e in trace.edges if e.dst == into and e.type not in without]
