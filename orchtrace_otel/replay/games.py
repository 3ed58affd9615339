"""What each player of a game adds, from the values of coalitions: the mathematics alone.

A coalition is the set of players that are in, as the bits of a number: bit i is player i.
Where players have causes among each other, only coalitions closed downwards count: no
effect without its causes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from orchtrace_otel.errors import ConfigError

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

Causes: TypeAlias = tuple[int, ...]
"""For each player the players that lead to it, as bits; all those before them too."""

MOST_EXACT: Final = 12
"""Players up to which all coalitions are played: 4,096 of them."""

MOST_COUNTED: Final = 1 << 14
"""Closed coalitions up to which the orders through them are counted."""


def free(count: int) -> Causes:
    """Return the causes of players of whom none leads to another.

    Example:
        >>> free(3)
        (0, 0, 0)
    """
    return (0,) * count


def is_closed(coalition: int, causes: Causes) -> bool:
    """Whether every player in it has its causes in it.

    Example:
        >>> is_closed(0b10, (0b00, 0b01)), is_closed(0b11, (0b00, 0b01))
        (False, True)
    """
    return all(
        not coalition >> player & 1 or before & ~coalition == 0
        for player, before in enumerate(causes)
    )


def coalitions(causes: Causes) -> list[int]:
    """Return all coalitions that are closed downwards, the empty one and all players included.

    Example:
        >>> coalitions(free(2)), coalitions((0, 1))
        ([0, 1, 2, 3], [0, 1, 3])
    """
    return [mask for mask in range(1 << len(causes)) if is_closed(mask, causes)]


def shapley_weights(causes: Causes) -> list[Mapping[int, float]]:
    """Return for each player the weight of each coalition's value in its Shapley value.

    The mean of what a player adds to those before it, over all orders in which causes
    come before effects: without causes the Shapley value, sum over S of
    |S|! (n - |S| - 1)! / n! (v(S + i) - v(S)), with them the asymmetric one. The values
    of all players add up to v(all) - v(none).

    Example:
        >>> weights = shapley_weights(free(2))
        >>> sorted(weights[0].items())
        [(0, -0.5), (1, 0.5), (2, -0.5), (3, 0.5)]
    """
    count = len(causes)
    whole = (1 << count) - 1
    closed = coalitions(causes)
    below, above = _orders(closed, causes), _orders_left(causes, len(closed)) or {}
    weights: list[defaultdict[int, float]] = [defaultdict(float) for _ in range(count)]
    for coalition in closed:
        for player in _next(coalition, causes):
            joined = coalition | 1 << player
            share = below[coalition] * above[joined] / below[whole]
            weights[player][joined] += share
            weights[player][coalition] -= share
    return [dict(one) for one in weights]


def banzhaf_weights(causes: Causes) -> list[Mapping[int, float]]:
    """Return for each player the weight of each coalition's value in its Banzhaf value.

    The mean of what it adds, over all coalitions that it can join; they count the same.
    The values do not add up to v(all) - v(none).

    Example:
        >>> sorted(banzhaf_weights(free(2))[1].items())
        [(0, -0.5), (1, -0.5), (2, 0.5), (3, 0.5)]
    """
    joins: list[list[int]] = [[] for _ in causes]
    for coalition in coalitions(causes):
        for player in _next(coalition, causes):
            joins[player].append(coalition)
    weights: list[Mapping[int, float]] = []
    for player, joined in enumerate(joins):
        share = 1 / len(joined)
        added = {coalition | 1 << player: share for coalition in joined}
        weights.append(added | dict.fromkeys(joined, -share))
    return weights


def order(causes: Causes, dice: random.Random) -> tuple[list[int], list[int]]:
    """Return a random order in which causes come first, and its opposite.

    Every such order is as likely as any other. Without causes each player draws a lot, and
    the opposite is the order backwards. With them orders are counted, one is drawn, and the
    opposite is as far from the last as it is from the first; where there are too many sets
    of players to count them, neighbours of whom none leads to the other change places until
    it does not matter where they began.

    Example:
        >>> import random
        >>> one, other = order(free(3), random.Random(0))
        >>> one == other[::-1], order((0, 1), random.Random(0))
        (True, ([0, 1], [0, 1]))
    """
    if any(causes):
        left = _orders_left(causes, MOST_COUNTED)
        if left is not None:
            rank = dice.randrange(left[0])
            return _by_rank(causes, left, rank), _by_rank(causes, left, left[0] - 1 - rank)
    lots = [dice.random() for _ in causes]
    found = _by_lot(causes, lots), _by_lot(causes, [-lot for lot in lots])
    if any(causes):
        for one in found:
            _stir(one, causes, dice)
    return found


def orders_needed(error: float, players: int, doubt: float = 0.05) -> int:
    """Return how many random orders bring every player's Shapley value near enough.

    Hoeffding's bound with one for each player: M >= (2 / error^2) ln(2 players / doubt),
    for outcomes from 0 to 1, so that what a player adds is between -1 and 1. It holds for
    any game; the interval that comes with each value is narrower as a rule.

    Args:
        error: How far off the value of each player may be, above 0.
        players: How many there are.
        doubt: How likely one of them may be further off.

    Raises:
        ConfigError: If a number is not above 0, or `doubt` is not below 1.

    Example:
        >>> orders_needed(0.1, 12)
        1235
    """
    if not (error > 0 and players > 0 and 0 < doubt < 1):
        msg = (
            "error and players must be above 0 and doubt between 0 and 1, "
            f"got {error!r}, {players!r} and {doubt!r}"
        )
        raise ConfigError(msg)
    return math.ceil(2 / error**2 * math.log(2 * players / doubt))


def advantages(means: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return how much better each alternative is than the others (C3, arXiv 2603.06859).

    A_j = R_j - (sum of w_k R_k - w_j R_j) / (sum of w_k - w_j), weights being counts of
    replays; 0 for a single one, as the authors' code has it.

    Example:
        >>> [round(one, 9) + 0.0 for one in advantages([0.8, 0.4, 0.6], [1, 1, 1])]
        [0.3, -0.3, 0.0]
        >>> advantages([0.8], [4])
        [0.0]
    """
    total = sum(weights)
    mass = sum(weight * mean for weight, mean in zip(weights, means, strict=True))
    if len(means) <= 1:
        return [0.0] * len(means)
    return [
        mean - (mass - weight * mean) / (total - weight)
        for weight, mean in zip(weights, means, strict=True)
    ]


def _by_rank(causes: Causes, left: Mapping[int, int], rank: int) -> list[int]:
    """The order of a rank among all, counted by who comes first."""
    found: list[int] = []
    coalition = 0
    while len(found) < len(causes):
        for player in _next(coalition, causes):
            joined = coalition | 1 << player
            if rank < left[joined]:
                found.append(player)
                coalition = joined
                break
            rank -= left[joined]
    return found


@lru_cache(maxsize=8)
def _orders_left(causes: Causes, most: int) -> Mapping[int, int] | None:
    """In how many orders the others can join each closed coalition; None for too many of those."""
    found = [0]
    seen = {0}
    for coalition in found:  # grows while it is read, smaller coalitions first
        new = {coalition | 1 << player for player in _next(coalition, causes)} - seen
        seen |= new
        found += sorted(new)
        if len(found) > most:
            return None
    left = {found[-1]: 1}
    for coalition in reversed(found[:-1]):
        left[coalition] = sum(left[coalition | 1 << one] for one in _next(coalition, causes))
    return left


def _stir(found: list[int], causes: Causes, dice: random.Random) -> None:
    """Let neighbours change places, each pair as often as it stays (Bubley and Dyer's walk)."""
    for _ in range(len(found) ** 3):
        at = dice.randrange(len(found) - 1)
        first, second = found[at], found[at + 1]
        if not causes[second] >> first & 1 and dice.getrandbits(1):
            found[at], found[at + 1] = second, first


def _by_lot(causes: Causes, lots: Sequence[float]) -> list[int]:
    found: list[int] = []
    coalition = 0
    while len(found) < len(causes):
        player = min(_next(coalition, causes), key=lambda one: lots[one])
        found.append(player)
        coalition |= 1 << player
    return found


def _next(coalition: int, causes: Causes) -> list[int]:
    """Players that can join a coalition."""
    return [
        player
        for player, before in enumerate(causes)
        if not coalition >> player & 1 and before & ~coalition == 0
    ]


def _orders(closed: Sequence[int], causes: Causes) -> dict[int, int]:
    """In how many orders each closed coalition can come together."""
    ways = {0: 1}
    for coalition in closed:  # smaller numbers first, so that parts come before the whole
        for player in _next(coalition, causes):
            joined = coalition | 1 << player
            ways[joined] = ways.get(joined, 0) + ways[coalition]
    return ways
