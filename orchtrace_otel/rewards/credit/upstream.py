"""What led to the answer, from the answer back: the one walk that the methods share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from orchtrace_otel.rewards.facts import Facts

WHOLE: Final = 1 << 119
"""What a reward is split into: integers, so that no part of it is lost or made.

Four digits of Python's integers. A share below 2**-119 of the reward counts as none.
"""

Shares: TypeAlias = tuple[Mapping[int, int], int]
"""The parts of those events that get any, by position, and what all of it would be."""


class Upstream(NamedTuple):
    """What led to the answer.

    Attributes:
        size: How many events the trace has.
        answer: Position of the answer.
        places: Positions of what led to it, itself first, effects before their causes.
        hops: Fewest steps from each event to the answer, by position; -1 where none lead there.
        causes: Positions that lead to each event, each once.
    """

    size: int
    answer: int
    places: Sequence[int]
    hops: Sequence[int]
    causes: Sequence[Sequence[int]]


def find_target(facts: Facts) -> int | None:
    """Position of what credit flows back from: the answer, else a stop with work of its own."""
    if facts.answer is None and facts.is_stop_useful:
        return facts.graph.stop
    return facts.answer


def walk(facts: Facts, answer: int) -> Upstream:
    """Walk from the answer back to all that led to it, in O(V + E)."""
    graph = facts.graph
    causes, order = graph.causes, graph.order
    hops = [-1] * len(causes)
    hops[answer] = 0
    places: list[int] = []
    for place in reversed(order):
        steps = hops[place]
        if steps < 0:
            continue
        places.append(place)
        steps += 1
        for cause in causes[place]:
            known = hops[cause]
            if known < 0 or steps < known:
                hops[cause] = steps
    return Upstream(len(hops), answer, places, hops, _distinct(causes, places))


def _distinct(causes: Sequence[Sequence[int]], places: Sequence[int]) -> Sequence[Sequence[int]]:
    """The causes, without repeats: two edges from one event to another are one cause."""
    found: list[Sequence[int]] | None = None
    for place in places:
        sources = causes[place]
        if len(sources) > 1 and len(set(sources)) < len(sources):
            found = found or list(causes)
            found[place] = list(set(sources))
    return causes if found is None else found
