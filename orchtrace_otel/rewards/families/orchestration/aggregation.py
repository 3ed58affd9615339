"""How results were merged (O4): what was won, kept, made up, and said twice."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from itertools import combinations
from typing import NamedTuple

from orchtrace_otel.rewards.similarity import jaccard

_WELCOMES_REDUNDANCY = frozenset({"debate"})


class Gain(NamedTuple):
    """What merging won: over the best of the children, and over their mean."""

    best: float
    mean: float


def gain(value: float, children: Sequence[float]) -> Gain | None:
    """Return what merging won in value; None without children.

    Example:
        >>> [round(won, 4) for won in gain(0.9, [0.6, 0.7])]
        [0.2, 0.25]
    """
    if not children:
        return None
    return Gain(value - max(children), value - math.fsum(children) / len(children))


class Claims(NamedTuple):
    """What became of claims, each 0 to 1.

    Attributes:
        retention: Share of the children's claims that were kept; None where they had none.
        unsupported: Share of the merged claims that no child made; None where it has none.
        redundancy: Mean Jaccard similarity of pairs of children; 0 with one child.
    """

    retention: float | None
    unsupported: float | None
    redundancy: float


def claims(merged: Collection[Hashable], children: Sequence[Collection[Hashable]]) -> Claims | None:
    """Compare the claims of a merged result with those of what was merged; None without any.

    Example:
        >>> claims({1, 3, 4, 9}, [{1, 2, 3}, {3, 4}])
        Claims(retention=0.75, unsupported=0.25, redundancy=0.25)
    """
    if not children:
        return None
    result = frozenset(merged)
    union = frozenset[Hashable]().union(*map(frozenset, children))
    alike = [jaccard(one, other) for one, other in combinations(children, 2)]
    return Claims(
        len(result & union) / len(union) if union else None,
        len(result - union) / len(result) if result else None,
        math.fsum(alike) / len(alike) if alike else 0.0,
    )


class Weights(NamedTuple):
    """How much each component of a merge counts beside `gain_best`."""

    retention: float = 1.0
    unsupported: float = 1.0
    redundancy: float = 1.0


def merge_reward(
    won: Gain | None,
    found: Claims | None,
    weights: Weights = Weights(),  # noqa: B008 - frozen
    topology: str | None = None,
) -> float | None:
    """Return gain_best + a retention - b unsupported - r redundancy; None where one is unknown.

    In a debate the same said twice lowers variance; there redundancy counts for the merge.
    A component of weight 0 need not be known.

    Example:
        >>> found = claims({1, 3, 4, 9}, [{1, 2, 3}, {3, 4}])
        >>> round(merge_reward(gain(0.9, [0.6, 0.7]), found, Weights(0.2, 0.4, 0.1)), 4)
        0.225
    """
    if won is None:
        return None
    reward = won.best
    kept, made_up, twice = found or (None, None, None)
    sign = 1 if topology in _WELCOMES_REDUNDANCY else -1
    for weight, value in (
        (weights.retention, kept),
        (-weights.unsupported, made_up),
        (sign * weights.redundancy, twice),
    ):
        if weight and value is None:
            return None
        reward += weight * (value or 0.0)
    return reward
