"""What led to the answer, from the answer back: the one walk that rewards and credit share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from orchtrace_otel.rewards.graph import Graph


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


def walk(graph: Graph, answer: int) -> Upstream:
    """Walk from an answer back to all that led to it, in O(V + E); the graph has no cycle.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> from orchtrace_otel.rewards.graph import read_graph
        >>> events = tuple(Event(name, 0, "message", "a") for name in "abc")
        >>> graph = read_graph(Trace("r", "q", events, (Edge("a", "c", "causal"),)))
        >>> list(walk(graph, 2).places), walk(graph, 2).hops
        ([2, 0], [1, -1, 0])
    """
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
