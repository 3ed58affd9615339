"""Student's distribution: how wide a 95 % interval is that rests on few observations."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

CONFIDENCE: Final = 0.95

NORMAL: Final = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
"""The same quantile of the normal distribution: that of very many observations."""

_FEW: Final = (12.706, 4.303, 3.182, 2.776)
"""Student's quantiles for one to four degrees of freedom, where the series is too short."""


def student(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's distribution, by its series in 1/freedom.

    Between two of the first few it is on the line in 1/freedom, and so rather too great.

    Example:
        >>> round(student(4), 2), round(student(30), 2), round(student(1e9), 2)
        (2.78, 2.04, 1.96)
    """
    if freedom <= len(_FEW):
        return _of_few(max(freedom, 1.0))
    z, v = NORMAL, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def _of_few(freedom: float) -> float:
    above = math.ceil(freedom)
    if above == freedom:
        return _FEW[above - 1]
    share = (1 / freedom - 1 / above) * above * (above - 1)
    return _FEW[above - 1] + share * (_FEW[above - 2] - _FEW[above - 1])
