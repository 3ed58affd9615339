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
        gates: Whether each event is on every path from what has no cause to the answer.
        causes: Positions that lead to each event, each once.
    """

    size: int
    answer: int
    places: Sequence[int]
    hops: Sequence[int]
    gates: Sequence[int]
    causes: Sequence[Sequence[int]]


def walk(graph: Graph, answer: int) -> Upstream:
    """Walk from an answer back to all that led to it, in O(V + E); the graph has no cycle.

    An event is on every path when it is the only one that was seen and not yet visited, and
    no path has ended before. (Whatever leads there otherwise would have been seen: it leads
    to something visited.)

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
    gates = bytearray(len(causes))
    waiting = 1
    for place in reversed(order):
        steps = hops[place]
        if steps < 0:
            continue
        places.append(place)
        if waiting == 1:
            gates[place] = 1
        sources = causes[place]
        if sources:
            waiting -= 1  # else a path begins here, and what is left is on other paths only
        steps += 1
        for cause in sources:
            known = hops[cause]
            if known < 0:
                waiting += 1
                hops[cause] = steps
            elif steps < known:
                hops[cause] = steps
    return Upstream(len(hops), answer, places, hops, gates, _distinct(causes, places))


def _distinct(causes: Sequence[Sequence[int]], places: Sequence[int]) -> Sequence[Sequence[int]]:
    """The causes, without repeats: two edges from one event to another are one cause."""
    repeats = [
        place
        for place in places
        if (count := len(sources := causes[place])) > 1
        # Most that have several have two, which need no set.
        and (sources[0] == sources[1] or (count > 2 and len(set(sources)) < count))  # noqa: PLR2004
    ]
    if not repeats:
        return causes
    found = list(causes)
    for place in repeats:
        found[place] = list(set(causes[place]))
    return found
