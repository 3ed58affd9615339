"""Means with their standard errors and intervals, of few numbers and of many."""

from __future__ import annotations

import math
from statistics import NormalDist, fmean, variance
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE: Final = 0.95

_Z: Final = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
_FEW: Final = (12.706, 4.303, 3.182, 2.776)
"""Student's quantiles for one to four degrees of freedom, where the series is too short."""


class Estimate(NamedTuple):
    """A number that was estimated.

    Attributes:
        value: The estimate; None where there is none.
        n: Observations that it rests on.
        se: Its standard error; None for fewer than two observations.
        low: Lower end of its 95 % interval; None where there is none.
        high: Upper end of it.
    """

    value: float | None
    n: int
    se: float | None = None
    low: float | None = None
    high: float | None = None

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
        return Estimate(center, n, se, *wilson(center, n))
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
    first, second = mean(one), mean(other)
    if first.value is None or second.value is None:
        return Estimate(None, first.n + second.n)
    value, n = first.value - second.value, first.n + second.n
    if first.se is None or second.se is None:
        return Estimate(value, n)
    se = math.hypot(first.se, second.se)
    if all(number in (0, 1) for number in (*one, *other)):
        return Estimate(value, n, se, *_newcombe(first, second))
    reach = student(_welch(first, second)) * se
    return Estimate(value, n, se, value - reach, value + reach)


def combine(parts: Sequence[tuple[float, Estimate]]) -> Estimate:
    """Return the sum of estimates, each with its weight; absent where one of them is.

    The interval is the normal one, of independent parts.

    Example:
        >>> whole = combine([(1.0, Estimate(0.5, 10, 0.03)), (-1.0, Estimate(0.2, 10, 0.04))])
        >>> round(whole.value, 3), round(whole.se, 3), whole.n
        (0.3, 0.05, 20)
    """
    n = sum(part.n for _, part in parts)
    if not parts or any(part.value is None for _, part in parts):
        return Estimate(None, n)
    value = math.fsum(weight * (part.value or 0.0) for weight, part in parts)
    if any(part.se is None for _, part in parts):
        return Estimate(value, n)
    se = math.sqrt(math.fsum((weight * (part.se or 0.0)) ** 2 for weight, part in parts))
    return Estimate(value, n, se, value - _Z * se, value + _Z * se)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of `n`.

    Example:
        >>> [round(end, 3) for end in wilson(0.6, 5)]
        [0.231, 0.882]
    """
    spread = _Z * _Z / n
    center = (share + spread / 2) / (1 + spread)
    reach = _Z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(center - reach, 0.0), min(center + reach, 1.0)


def student(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's distribution, by its series in 1/freedom.

    Example:
        >>> round(student(4), 2), round(student(30), 2), round(student(1e9), 2)
        (2.78, 2.04, 1.96)
    """
    if freedom <= len(_FEW):
        return _FEW[max(math.ceil(freedom), 1) - 1]
    z, v = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def _newcombe(first: Estimate, second: Estimate) -> tuple[float, float]:
    a, b = first.value or 0.0, second.value or 0.0
    (a_low, a_high), (b_low, b_high) = wilson(a, first.n), wilson(b, second.n)
    low = a - b - math.hypot(a - a_low, b_high - b)
    return low, a - b + math.hypot(a_high - a, b - b_low)


def _welch(first: Estimate, second: Estimate) -> float:
    a, b = (first.se or 0.0) ** 2, (second.se or 0.0) ** 2
    if a + b == 0.0:
        return float(first.n + second.n - 2)
    return (a + b) ** 2 / (a * a / (first.n - 1) + b * b / (second.n - 1))
