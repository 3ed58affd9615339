"""What a policy is worth where the log stopped by chance: importance weights and doubly robust.

The log stops at its n-th point with probability h_n times the product of 1 - h of the
points before. Where that is known, runs that happen to stop where another policy would
stand for those that did not. Points count from 0 here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Draw(NamedTuple):
    """One logged run, and where another policy stops in it.

    Attributes:
        hazard: How likely the log was to stop at each of its points.
        stopped: Point at which it did.
        target: Point at which the other policy stops; None: it goes on past the log's stop.
        worth: What the log's stop was worth, U.
        stop_value: Estimate of what stopping at each point is worth.
        go_value: Estimate of what going on from each point is worth.
    """

    hazard: Sequence[float]
    stopped: int
    target: int | None
    worth: float
    stop_value: Sequence[float] = ()
    go_value: Sequence[float] = ()


def weight(draw: Draw) -> float:
    """Return how many runs this one stands for under the other policy; 0 where they differ.

    Infinite where that is more than a float holds.

    Example:
        >>> round(weight(Draw((0.3, 0.5), 1, 1, 0.5)), 3)
        2.857
    """
    if draw.target != draw.stopped:
        return 0.0
    on = math.prod(1.0 - h for h in draw.hazard[: draw.stopped])
    chance = on * draw.hazard[draw.stopped]
    return 1.0 / chance if chance else math.inf


def doubly_robust(draw: Draw) -> float:
    """Return one run's estimate: what the model says, put right by what was seen.

    Unbiased where the hazards are right, or the two estimates are.
    """
    hazard, stopped, target = draw.hazard, draw.stopped, draw.target
    last = stopped if target is None else min(stopped, target)
    value = 0.0
    for at in range(last, -1, -1):
        if at == target:
            said = draw.stop_value[at]
            seen = draw.worth - said if at == stopped else 0.0
            value = said + seen / hazard[at]
        elif at == stopped:
            value = draw.go_value[at]
        else:
            said = draw.go_value[at]
            value = said + (value - said) / (1.0 - hazard[at])
    return value


def effective_size(weights: Sequence[float]) -> float:
    """Return how many equal weights would be as sure: (sum w)^2 / sum w^2; 0 for none.

    Example:
        >>> effective_size([2.0, 0.0, 2.0, 0.0])
        2.0
    """
    most = max(weights, default=0.0)
    if not most:
        return 0.0
    shares = [one / most for one in weights]  # whose squares a float holds
    return math.fsum(shares) ** 2 / math.fsum(one * one for one in shares)


def lacks_overlap(draw: Draw) -> bool:
    """Whether the log could not have done what the other policy does in this run."""
    at, last = draw.target, draw.stopped
    end = last if at is None else min(last, at)
    never_stops = at is not None and at <= last and draw.hazard[at] == 0.0
    passed = (h for place, h in enumerate(draw.hazard[: end + 1]) if place != at)
    return never_stops or any(h == 1.0 for h in passed)
