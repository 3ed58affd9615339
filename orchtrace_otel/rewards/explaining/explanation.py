"""What an explanation of a number holds, and how its parts name events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from orchtrace_otel.rewards.graph import NANOSECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchtrace_otel.rewards.facts import Facts


class Part(NamedTuple):
    """One event's share in a number.

    Attributes:
        event: Its id.
        t: Seconds since the run began.
        what: Who did what.
        counts: What it adds, in words.
    """

    event: str
    t: float
    what: str
    counts: str


class Explanation(NamedTuple):
    """Where a number comes from.

    Attributes:
        formula: How it is computed, in words and symbols.
        filled: The same with this run's values.
        parts: The events that made it, in order of time.
    """

    formula: str
    filled: str
    parts: Sequence[Part] = ()


def part(facts: Facts, place: int, counts: str) -> Part:
    """Name an event of the trace, by its position, and say what it counts."""
    event = facts.events[place]
    keys = event.keys
    to = keys.get("tool") or keys.get("to")
    what = f"{event.agent} {event.verb}" + (f" {to}" if to and to != event.agent else "")
    return Part(event.id, event.t, what, counts)


def ordered(facts: Facts, parts: dict[int, str]) -> list[Part]:
    """Return parts in order of time, from positions and what they count."""
    events = facts.events
    places = sorted(parts, key=lambda place: (events[place].t, events[place].id))
    return [part(facts, place, parts[place]) for place in places]


def seconds(nanoseconds: int) -> str:
    """Write a duration.

    Example:
        >>> seconds(2_000_000_000), seconds(1_500)
        ('2 s', '1.5e-06 s')
    """
    return f"{nanoseconds / NANOSECONDS:.4g} s"


def chain(facts: Facts, values: Sequence[int]) -> list[int]:
    """Follow the greatest values back from the greatest of all; positions, causes first."""
    if not values:
        return []
    events, causes = facts.events, facts.graph.causes

    def rank(place: int) -> tuple[int, str]:
        return values[place], events[place].id

    found = [max(range(len(values)), key=rank)]
    while causes[found[-1]]:
        found.append(max(causes[found[-1]], key=rank))
    return found[::-1]
