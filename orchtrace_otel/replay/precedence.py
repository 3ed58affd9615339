"""Which messages lead to which: what an order of events must respect."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from orchtrace_otel.replay.games import Causes, free
from orchtrace_otel.replay.players import Part, Player, Slot, find_reads, find_slots
from orchtrace_otel.rewards.graph import Graph, read_graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchtrace_otel.model import Trace


def find_causes(trace: Trace, players: Sequence[Player]) -> Causes:
    """Return for each player those among the others that lead to it in the trace, as bits.

    Messages lead to messages along the edges that are causes. Agents, roles and the like
    are no events and have no order: for them nothing leads to anything. In a trace with
    a cycle nothing does either.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> events = (Event("e1", 0, "message", "a", {"from": "a", "to": "b"}),
        ...           Event("e2", 1, "message", "b", {"from": "b", "to": "a"}))
        >>> trace = Trace("run", "task", events, (Edge("e1", "e2", "message"),))
        >>> find_causes(trace, [Slot("a", "b", 1), Slot("b", "a", 1)])
        (0, 1)
    """
    if any(isinstance(player, Part) for player in players):
        return free(len(players))
    graph = read_graph(trace)
    if len(graph.order) < len(trace.events):
        return free(len(players))
    return _reach(graph, _Places(trace, players))


class _Places:
    """Where the messages among the players are sent, and where those on edges arrive."""

    def __init__(self, trace: Trace, players: Sequence[Player]) -> None:
        places = {event.id: place for place, event in enumerate(trace.events)}
        events, reads = find_slots(trace), find_reads(trace)
        self.sent: dict[int, int] = {}
        self.events: defaultdict[int, int] = defaultdict(int)
        self.edges: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.count = len(players)
        for at, player in enumerate(players):
            if not isinstance(player, Slot):
                continue
            if player in events:
                place = self.sent[at] = places[events[player]]
                self.events[place] |= 1 << at
            elif player in reads:
                src, dst = (places[end] for end in reads[player])
                self.sent[at] = src
                self.edges[src, dst] |= 1 << at


def _reach(graph: Graph, places: _Places) -> Causes:
    reached = [0] * len(graph.causes)
    for place in graph.order:
        for cause in graph.causes[place]:
            reached[place] |= (
                reached[cause] | places.events.get(cause, 0) | places.edges.get((cause, place), 0)
            )
    return tuple(reached[places.sent[at]] if at in places.sent else 0 for at in range(places.count))
