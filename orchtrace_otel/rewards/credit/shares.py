"""How a method says what each event gets: integer parts of a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

WHOLE: Final = 1 << 119
"""What a reward is split into: integers, so that no part of it is lost or made.

Four digits of Python's integers. A share below 2**-119 of the reward counts as none.
"""

Shares: TypeAlias = tuple[Sequence[int], int]
"""The part of each event, by position, and what all of it would be."""


def amounts(parts: Iterable[int], whole: int, reward: float) -> list[float]:
    """What each part of a whole is of a reward.

    Example:
        >>> amounts([0, 1, 3], 4, 0.5)
        [0.0, 0.125, 0.375]
    """
    if whole & (whole - 1):
        return [part / whole * reward if part else 0.0 for part in parts]
    scale = reward / whole  # exact for a power of two, and much faster
    return [part * scale if part else 0.0 for part in parts]
