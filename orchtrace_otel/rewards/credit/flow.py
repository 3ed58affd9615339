"""Flow: the reward runs from the answer back, each event keeps a part and hands on the rest."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.credit.shares import WHOLE

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.upstream import Upstream

BETA: Final = Fraction(1, 2)
"""The part of what an event holds that it hands on to its causes."""


def flow(upstream: Upstream, _facts: Facts, beta: Fraction = BETA) -> Shares:
    """Start at z; each event keeps 1 - beta of what it holds and splits beta over its causes.

    What has no cause keeps all. The parts sum to `WHOLE`, always: what does not divide
    stays where it is. [P]

    Args:
        upstream: What led to the answer.
        beta: Between 0 and 1.
    """
    passed, of = beta.numerator, beta.denominator
    causes = upstream.causes
    parts = [0] * upstream.size
    parts[upstream.answer] = WHOLE
    for place in upstream.places:
        sources, held = causes[place], parts[place]
        if not sources or not held:
            continue
        count = len(sources)
        if count == 1:  # most events, and worth a way of their own
            each = held * passed // of
            parts[place] = held - each
            parts[sources[0]] += each
            continue
        each = held * passed // (of * count)
        parts[place] = held - each * count
        for cause in sources:
            parts[cause] += each
    return parts, WHOLE
