"""Decay: the nearer an event is to the answer, the more of the reward it gets."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.credit.shares import WHOLE

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.upstream import Upstream

GAMMA: Final = Fraction(1, 2)
"""What a step away from the answer leaves of an event's weight."""


def decay(upstream: Upstream, _facts: Facts, gamma: Fraction = GAMMA) -> Shares:
    """Weight gamma ** hops to z, divided by the weights of all that led to z.

    Hops are the fewest edges to the answer. The parts sum to `WHOLE`, always: the answer
    takes what rounding leaves over.

    Args:
        upstream: What led to the answer.
        gamma: Above 0, at most 1.
    """
    hops = upstream.hops
    counts = Counter(hops)
    del counts[-1]
    weights: list[int] = [WHOLE]
    for _ in range(max(counts)):
        weights.append(weights[-1] * gamma.numerator // gamma.denominator)
    total = sum(weights[steps] * count for steps, count in counts.items())
    levels = [weight * WHOLE // total for weight in weights]
    given = sum(levels[steps] * count for steps, count in counts.items())
    levels.append(0)  # of what did not lead to the answer, whose hops are -1
    parts = [levels[steps] for steps in hops]
    parts[upstream.answer] += WHOLE - given
    return parts, WHOLE
