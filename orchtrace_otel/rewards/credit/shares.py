"""How a method says what each event gets: integer parts of a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

WHOLE: Final = 1 << 119
"""What a reward is split into: integers, so that no part of it is lost or made.

Four digits of Python's integers. A share below 2**-119 of the reward counts as none.
"""

Shares: TypeAlias = tuple[Sequence[int], int]
"""The part of each event, by position, and what all of it would be."""
