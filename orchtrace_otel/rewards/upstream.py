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
        hops: Fewest steps from each event to the answer, by position; -1 where none lead there.
        gates: Whether each event is on every path from what has no cause to the answer.
    """

    size: int
    answer: int
    hops: Sequence[int]
    gates: Sequence[int]


def reaching(graph: Graph, answer: int) -> list[bool]:
    """Whether each event led to an answer, itself included, in O(V + E); there is no cycle.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> from orchtrace_otel.rewards.graph import read_graph
        >>> events = tuple(Event(name, 0, "message", "a") for name in "abc")
        >>> graph = read_graph(Trace("r", "q", events, (Edge("a", "c", "causal"),)))
        >>> reaching(graph, 2)
        [True, False, True]
    """
    causes = graph.causes
    found = [False] * len(causes)
    found[answer] = True
    for place in reversed(graph.order):
        if found[place]:
            for cause in causes[place]:
                found[cause] = True
    return found


def walk(graph: Graph, answer: int) -> Upstream:
    """Walk from an answer back to all that led to it, in O(V + E); the graph has no cycle.

    Effects are visited before their causes, so that an event's distance is known once it is
    visited. An event is on every path when it is the only one that was seen and not yet
    visited, and no path has ended before. (Whatever leads there otherwise would have been
    seen: it leads to something visited.)

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> from orchtrace_otel.rewards.graph import read_graph
        >>> events = tuple(Event(name, 0, "message", "a") for name in "abc")
        >>> found = walk(read_graph(Trace("r", "q", events, (Edge("a", "c", "causal"),))), 2)
        >>> found.hops
        [1, -1, 0]
    """
    causes = graph.causes
    hops = [-1] * len(causes)
    hops[answer] = 0
    gates = bytearray(len(causes))
    waiting = 1
    for place in reversed(graph.order):
        steps = hops[place]
        if steps < 0:
            continue
        if waiting == 1:
            gates[place] = 1
        sources = causes[place]
        if sources:
            waiting -= 1  # else a path begins here, and what is left is on other paths only
            steps += 1
        for cause in sources:
            known = hops[cause]
            if known < 0:
                hops[cause] = steps
                waiting += 1
            elif steps < known:
                hops[cause] = steps
    return Upstream(len(hops), answer, hops, gates)
