"""Ranks, and how much two rankings agree."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value from 1 on, the mean rank for equal ones.

    Example:
        >>> ranks([0.5, 0.1, 0.5])
        [2.5, 1.0, 2.5]
    """
    places: defaultdict[float, list[int]] = defaultdict(list)
    for at, value in enumerate(sorted(values), start=1):
        places[value].append(at)
    return [fmean(places[value]) for value in values]


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 where either says that all are equal.

    Example:
        >>> spearman([1, 2, 3], [10, 30, 20]), spearman([1, 1], [1, 2])
        (0.5, 0.0)
    """
    first, second = ranks(one), ranks(other)
    mid = (len(first) + 1) / 2
    across = sum((a - mid) * (b - mid) for a, b in zip(first, second, strict=True))
    spread = sum((a - mid) ** 2 for a in first) * sum((b - mid) ** 2 for b in second)
    return float(across / spread**0.5) if spread else 0.0
