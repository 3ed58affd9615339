"""Dominator: an event that every path to the answer goes through gets the whole reward."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.upstream import Upstream


def dominator(upstream: Upstream, _facts: Facts) -> Shares:
    """1[e is on every path from what has no cause to z].

    Walking back from the answer, an event is on every path when it is the only one that
    was seen and not yet visited, and no path has ended before. (Whatever leads there
    otherwise would have been seen: it leads to something visited.) O(V + E).
    """
    causes = upstream.causes
    parts = bytearray(upstream.size)
    seen = bytearray(upstream.size)
    seen[upstream.answer] = 1
    waiting = 1
    for place in upstream.places:
        if waiting == 1:
            parts[place] = 1
        waiting -= 1
        sources = causes[place]
        if not sources:
            break  # a path begins here: what is left is on other paths only
        for cause in sources:
            if not seen[cause]:
                seen[cause] = 1
                waiting += 1
    return parts, 1
