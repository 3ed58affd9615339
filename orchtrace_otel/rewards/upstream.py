"""What led to the answer, from the answer back: how far it is, and what no path avoids."""

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


def distances(graph: Graph, answer: int) -> tuple[Sequence[int], Sequence[int]]:
    """What led to an answer, the nearest first, and how many steps it is from there.

    Returns:
        Positions, the answer's own first; and fewest steps to the answer, by position, -1
        where none lead there. Both in O(V + E) of what led there.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> from orchtrace_otel.rewards.graph import read_graph
        >>> events = tuple(Event(name, 0, "message", "a") for name in "abc")
        >>> graph = read_graph(Trace("r", "q", events, (Edge("a", "c", "causal"),)))
        >>> distances(graph, 2)
        ([2, 0], [1, -1, 0])
    """
    causes = graph.causes
    hops = [-1] * len(causes)
    hops[answer] = 0
    places = [answer]
    for place in places:  # grows while it is read
        steps = hops[place] + 1
        for cause in causes[place]:
            if hops[cause] < 0:
                hops[cause] = steps
                places.append(cause)
    return places, hops


def walk(graph: Graph, hops: Sequence[int]) -> Upstream:
    """Walk from an answer back to all that led to it, in O(V + E); the graph has no cycle.

    An event is on every path when it is the only one that was seen and not yet visited, and
    no path has ended before. (Whatever leads there otherwise would have been seen: it leads
    to something visited.)

    Args:
        graph: Causes and their order.
        hops: From `distances`.
    """
    causes = graph.causes
    places = [place for place in reversed(graph.order) if hops[place] >= 0]
    gates = bytearray(len(causes))
    seen = bytearray(len(causes))
    waiting = 1
    for place in places:
        if waiting == 1:
            gates[place] = 1
        sources = causes[place]
        if sources:
            waiting -= 1  # else a path begins here, and what is left is on other paths only
        for cause in sources:
            if not seen[cause]:
                seen[cause] = 1
                waiting += 1
    return Upstream(len(hops), places[0], places, hops, gates, _distinct(causes, places))


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
