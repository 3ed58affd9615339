"""Decay: the nearer an event is to the answer, the more of the reward it gets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from orchtrace_otel.rewards.credit.shares import WHOLE

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.upstream import Upstream


def decay(upstream: Upstream, _facts: Facts) -> Shares:
    """Weight .5 ** hops to z, divided by the weights of all that led to z.

    Hops are the fewest edges to the answer. The parts sum to `WHOLE`, always: the answer
    takes what rounding leaves over.
    """
    hops = upstream.hops
    counts = Counter(hops)
    del counts[-1]  # of what did not lead to the answer
    total = sum((WHOLE >> steps) * count for steps, count in counts.items())
    nearest = WHOLE * WHOLE // total
    levels = [nearest >> steps for steps in range(len(counts))]
    given = sum(levels[steps] * count for steps, count in counts.items())
    levels.append(0)  # at -1
    parts = [levels[steps] for steps in hops]
    parts[upstream.answer] += WHOLE - given
    return parts, WHOLE
