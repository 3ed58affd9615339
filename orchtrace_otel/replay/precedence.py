"""Which messages lead to which: what an order of events must respect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.replay.games import Causes, free
from orchtrace_otel.replay.players import Part, Player, Slot, find_slots
from orchtrace_otel.rewards.graph import read_graph

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
    events = find_slots(trace)
    positions = {event.id: place for place, event in enumerate(trace.events)}
    bit_at = {
        positions[events[player]]: 1 << at
        for at, player in enumerate(players)
        if isinstance(player, Slot) and player in events
    }
    graph = read_graph(trace)
    if len(graph.order) < len(trace.events):
        return free(len(players))
    reached = [0] * len(trace.events)
    for place in graph.order:
        for cause in graph.causes[place]:
            reached[place] |= reached[cause] | bit_at.get(cause, 0)
    found = {bit: reached[place] for place, bit in bit_at.items()}
    return tuple(found.get(1 << at, 0) for at in range(len(players)))
