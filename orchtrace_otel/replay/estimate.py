"""Means with their standard errors and intervals, of few numbers and of many."""

from __future__ import annotations

import math
from statistics import fmean, variance
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel.rewards.student import NORMAL, student

if TYPE_CHECKING:
    from collections.abc import Sequence

_HALVES: Final = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""What the mean of two differences of zeros and ones may be."""


class Estimate(NamedTuple):
    """A number that was estimated.

    Attributes:
        value: The estimate; None where there is none.
        n: Observations that it rests on.
        se: Its standard error; None for fewer than two observations.
        low: Lower end of its 95 % interval; None where there is none.
        high: Upper end of it.
        is_share: Whether it is the share of ones among two zeros and ones or more.
    """

    value: float | None
    n: int
    se: float | None = None
    low: float | None = None
    high: float | None = None
    is_share: bool = False

    @property
    def width(self) -> float:
        """How wide the interval is; infinite where there is none."""
        if self.low is None or self.high is None:
            return math.inf
        return self.high - self.low


NOTHING: Final = Estimate(None, 0)


def mean(values: Sequence[float]) -> Estimate:
    """Return the mean of `values`, with Student's interval; of zeros and ones Wilson's.

    Example:
        >>> few = mean([1, 1, 1, 0, 0])
        >>> few.value, round(few.low, 3), round(few.high, 3)
        (0.6, 0.231, 0.882)
        >>> mean([2.0]).se is None
        True
    """
    n = len(values)
    if n == 0:
        return NOTHING
    center = fmean(values)
    if n == 1:
        return Estimate(center, 1)
    se = math.sqrt(variance(values, center) / n)
    if all(value in (0, 1) for value in values):
        return Estimate(center, n, se, *wilson(center, n), is_share=True)
    reach = student(n - 1) * se
    return Estimate(center, n, se, center - reach, center + reach)


def difference(one: Sequence[float], other: Sequence[float]) -> Estimate:
    """Return the mean of `one` minus that of `other`, which are no pairs.

    The interval is Welch's; for zeros and ones Newcombe's, made of two of Wilson's, which
    holds its promise where all are equal and a standard error would be 0.

    Example:
        >>> gain = difference([1.0] * 20, [0.0, 1.0] * 10)
        >>> gain.value, gain.n, round(gain.low, 3), round(gain.high, 3)
        (0.5, 40, 0.243, 0.701)
    """
    return combine([(1.0, mean(one)), (-1.0, mean(other))])


def combine(parts: Sequence[tuple[float, Estimate]]) -> Estimate:
    """Return the sum of means, each with its weight, of parts that know nothing of each other.

    The interval is Student's with the degrees of freedom of Welch and Satterthwaite. Shares
    come in with their own, as Newcombe does for two, and Zou and Donner for any: also beside
    parts that are none, for of ones alone a standard error would be 0.

    Example:
        >>> whole = combine([(0.5, mean([0, 0, 1, 0])), (-0.5, mean([1, 1, 1, 1]))])
        >>> whole.value, whole.n, round(whole.low, 3), round(whole.high, 3)
        (-0.375, 8, -0.477, -0.043)
    """
    n = sum(part.n for _, part in parts)
    if not parts or any(part.value is None for _, part in parts):
        return Estimate(None, n)
    value = math.fsum(weight * (part.value or 0.0) for weight, part in parts)
    if any(part.se is None for _, part in parts):
        return Estimate(value, n)
    se = math.hypot(*(weight * (part.se or 0.0) for weight, part in parts))
    reaches = [_reaches(weight, part) for weight, part in parts if part.is_share]
    reaches.append(_reach([(weight, part) for weight, part in parts if not part.is_share]))
    below, above = (math.hypot(*ends) for ends in zip(*reaches, strict=True))
    return Estimate(value, n, se, value - below, value + above)


def gain(added: Sequence[float]) -> Estimate:
    """Return the mean of what something adds, each the mean of two differences of outcomes.

    The interval is Student's. Where all may be differences of zeros and ones it is that of
    Bonett and Price, which adds one gain and one loss: of zeros alone it leaves room on
    both sides.

    Example:
        >>> found = gain([0.0] * 18 + [0.5] * 2)
        >>> found.value, round(found.low, 3), round(found.high, 3)
        (0.05, -0.094, 0.185)
    """
    found = mean(added)
    if found.se is None or not all(number in _HALVES for number in added):
        return found
    n = found.n + 2
    center = math.fsum(added) / n
    reach = NORMAL * math.sqrt(
        (math.fsum((*(one * one for one in added), 2.0)) / n - center**2) / n
    )
    ends = max(center - reach, -1.0), min(center + reach, 1.0)
    return Estimate(found.value, found.n, found.se, *ends)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of `n`.

    Example:
        >>> [round(end, 3) for end in wilson(0.6, 5)]
        [0.231, 0.882]
    """
    spread = NORMAL * NORMAL / n
    center = (share + spread / 2) / (1 + spread)
    reach = NORMAL * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(center - reach, 0.0), min(center + reach, 1.0)


def _reaches(weight: float, share: Estimate) -> tuple[float, float]:
    """How far a weighed share's interval reaches below and above it."""
    value = share.value or 0.0
    below, above = value - (share.low or 0.0), (share.high or 0.0) - value
    return (weight * below, weight * above) if weight > 0 else (weight * above, weight * below)


def _reach(parts: Sequence[tuple[float, Estimate]]) -> tuple[float, float]:
    """How far Student's interval of a sum of means reaches to both sides; of none 0."""
    errors = [weight * (part.se or 0.0) for weight, part in parts]
    freedom = _freedom(errors, [part.n for _, part in parts])
    reach = student(freedom) * math.hypot(*errors)
    return reach, reach


def _freedom(errors: Sequence[float], counts: Sequence[int]) -> float:
    """Degrees of freedom of a sum of means, after Welch and Satterthwaite."""
    squares = [error**2 for error in errors]
    whole = math.fsum(squares)
    if whole == 0.0:
        return float(sum(counts) - len(counts))
    return whole**2 / math.fsum(
        square * square / (count - 1) for square, count in zip(squares, counts, strict=True)
    )
