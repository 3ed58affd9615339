"""Slack: how much longer an event could have taken without the run taking longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.graph import NANOSECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchtrace_otel.model import Trace


def slack(trace: Trace) -> Mapping[str, float] | None:
    """Return the slack of each event in seconds, 0 on the longest chain of causes.

    T-infinity - ft(e) - the longest tail of own work behind e, by the critical path method
    of scheduling. O(V + E).

    Returns:
        Event id to a number from 0 on; None where causes go round in a circle, times are
        skewed, ids repeat, or nothing lasts.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> events = [Event(name, 0, "tool_call", name, {"duration_s": seconds})
        ...           for name, seconds in (("quick", 1), ("slow", 3))]
        >>> slack(Trace("run", "task", tuple(events)))
        {'quick': 2.0, 'slow': 0.0}
    """
    facts = Facts(trace)
    chains, graph = facts.chains, facts.graph
    if chains is None:
        return None
    tails = [0] * len(chains)
    for place in reversed(graph.order):
        tail = tails[place] + graph.own_work[place]
        for cause in graph.causes[place]:
            tails[cause] = max(tails[cause], tail)
    longest = max(chains, default=0)
    return {
        event.id: max(longest - chain - tail, 0) / NANOSECONDS
        for event, chain, tail in zip(trace.events, chains, tails, strict=True)
    }
