"""Critical path: how much of the run's shortest possible time each event made up."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.graph import Graph
    from orchtrace_otel.rewards.upstream import Upstream


def critical_path(upstream: Upstream, facts: Facts) -> Shares | None:
    """d(e) / T-infinity where e has no slack and led to the answer, else 0.

    Credit for time, not for the result: work that nobody had to wait for gets nothing.
    Of two equally long paths both are critical, so that the sum may then be above 1; work
    in vain that the run waited for is critical and gets nothing, so that it may be below.
    None where times are unknown or the span is 0.
    """
    chains = facts.chains
    graph = facts.graph
    span = max(chains, default=graph.first) - graph.first if chains is not None else 0
    if chains is None or span <= 0:
        return None
    stop = graph.stop if facts.is_stop_useful else None
    parts = _on_longest(graph, chains)
    for place in compress(range(upstream.size), parts):
        if upstream.hops[place] < 0 and place != stop:
            parts[place] = 0
    return parts, span


def _on_longest(graph: Graph, chains: Sequence[int]) -> list[int]:
    """What each event adds to the longest chains, in ns, wherever they lead.

    A chain that would be longer than the time that went by was cut; there an event adds
    what was left of the time, so that the parts along one path sum to the span.
    """
    causes, finish, own_work, first = graph.causes, graph.finish, graph.own_work, graph.first
    longest = max(chains)
    levels = [longest if chain == longest else first for chain in chains]
    parts = [0] * len(chains)
    for place in reversed(graph.order):
        level = levels[place]
        if level <= first:
            continue
        sources = causes[place]
        chain = chains[place]
        if chain < finish[place]:
            before = chain - own_work[place]
        else:  # it may have been cut
            before = max([chains[cause] for cause in sources], default=first)
        if before < level:
            parts[place] = level - before
            level = before
        for cause in sources:
            if chains[cause] == before and levels[cause] < level:
                levels[cause] = level
    return parts
