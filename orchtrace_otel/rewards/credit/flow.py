"""Flow: the reward runs from the answer back, each event keeps half and hands on the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.rewards.credit.shares import WHOLE

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.upstream import Upstream


def flow(upstream: Upstream, facts: Facts) -> Shares:
    """Start at z; each event keeps half of what it holds and splits the rest over its causes.

    What has no cause keeps all. The parts sum to `WHOLE`, always: what does not divide
    stays where it is. Half is `beta` of the sheet. [P]
    """
    causes, order = facts.graph.causes, facts.graph.order
    parts = [0] * upstream.size
    parts[upstream.answer] = WHOLE
    for place in reversed(order):
        held = parts[place]
        if not held:
            continue
        sources = causes[place]
        count = len(sources)
        if count == 1:  # most events have one cause or two, and shifting is faster than dividing
            each = held >> 1
            parts[place] = held - each
            parts[sources[0]] += each
        elif count == 2 and sources[0] != sources[1]:  # noqa: PLR2004
            each = held >> 2
            parts[place] = held - each - each
            first, second = sources
            parts[first] += each
            parts[second] += each
        elif count:
            distinct = set(sources)  # two edges from one event to another are one cause
            each = held // (2 * len(distinct))
            parts[place] = held - each * len(distinct)
            for cause in distinct:
                parts[cause] += each
    return parts, WHOLE
