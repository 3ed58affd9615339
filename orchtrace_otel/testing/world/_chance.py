"""Chance that a seed fixes: the same in every process, whatever was drawn before."""

from __future__ import annotations

import hashlib
import random


def chance(*parts: object) -> random.Random:
    """Return a source of numbers that depends on `parts` alone."""
    return random.Random(repr(parts))  # noqa: S311 - a simulation, no secret


def unit(*parts: object) -> float:
    """Return a number from 0 to below 1 that depends on `parts` alone.

    Example:
        >>> unit("a", 1) == unit("a", 1) != unit("a", 2)
        True
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:7], "big") / 2**56
