"""How alike two texts are: the plug that rewards of split, merging and messages use.

By default texts are compared by the sets of their words, by runs of letters or by their
SimHash: exact, fast, and without a model. Who has an embedding function gives it, with
`embedded`; none is ever downloaded. A similarity is a function of two texts that gives 0
for nothing in common to 1 for the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from typing import Final, TypeAlias

Similarity: TypeAlias = Callable[[str, str], float]
"""A function of two texts, symmetric, from 0 to 1, and 1 for the same text."""

_WORD: Final = re.compile(r"\w+")
_BITS: Final = 64
_REMEMBERED: Final = 4096
NEAR: Final = 3
"""SimHashes that differ in so many bits, or fewer, count as near-duplicates."""


def content_hash(text: str) -> str:
    """Return 16 hexadecimal digits that are the same for the same text.

    Not keyed: for texts that stay in this process, or that may be guessed.

    Example:
        >>> content_hash("find the price") == content_hash("find the price")
        True
    """
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def words(text: str) -> frozenset[str]:
    """Return the words of a text, whatever their case.

    Example:
        >>> sorted(words("The price, the PRICE!"))
        ['price', 'the']
    """
    return frozenset(_WORD.findall(text.casefold()))


def ngrams(text: str, n: int = 3) -> frozenset[str]:
    """Return all runs of `n` characters, whatever their case; a shorter text is one run.

    Example:
        >>> sorted(ngrams("abab"))
        ['aba', 'bab']
    """
    folded = " ".join(text.casefold().split())
    if len(folded) <= n:
        return frozenset((folded,)) if folded else frozenset()
    return frozenset(folded[at : at + n] for at in range(len(folded) - n + 1))


def jaccard(one: Collection[object], other: Collection[object]) -> float:
    """Return the share of members that two sets have in common; 1 where both are empty.

    Example:
        >>> jaccard({1, 2, 3}, {3, 4})
        0.25
    """
    left, right = frozenset(one), frozenset(other)
    if not left and not right:
        return 1.0
    return len(left & right) / len(left | right)


def by_words(one: str, other: str) -> float:
    """Compare two texts by the sets of their words.

    Example:
        >>> by_words("price of trains", "price of parking")
        0.5
    """
    return jaccard(words(one), words(other))


def by_ngrams(one: str, other: str) -> float:
    """Compare two texts by their runs of three characters, which forgives endings.

    Example:
        >>> by_ngrams("trains", "train") > 0.7
        True
    """
    return jaccard(ngrams(one), ngrams(other))


@lru_cache(_REMEMBERED)
def _word_hash(word: str) -> int:
    digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=_BITS // 8).digest()
    return int.from_bytes(digest, "big")


def simhash(text: str) -> int:
    """Return the 64-bit SimHash of a text's words: near texts differ in few bits.

    Charikar's rounding of a random projection, with one hash a word; a word that comes
    twice counts twice. The same in every process. A text without words has 0.

    Example:
        >>> one = simhash("check the price of the train to Bern on Monday")
        >>> distance(one, simhash("Check the price of the train to Bern, on Monday."))
        0
    """
    votes = [0] * _BITS
    for word in _WORD.findall(text.casefold()):
        hashed = _word_hash(word)
        for bit in range(_BITS):
            votes[bit] += 1 if hashed >> bit & 1 else -1
    return sum(1 << bit for bit, vote in enumerate(votes) if vote > 0)


def distance(one: int, other: int) -> int:
    """Return in how many bits two SimHashes differ, 0 to 64.

    Example:
        >>> distance(0b1010, 0b0110)
        2
    """
    return (one ^ other).bit_count()


def by_simhash(one: str, other: str) -> float:
    """Compare two texts by their SimHashes: the share of bits that are the same.

    Unrelated texts share about half of the bits, so that 0.5 means nothing in common.
    """
    return 1 - distance(simhash(one), simhash(other)) / _BITS


def is_near(one: int, other: int, most: int = NEAR) -> bool:
    """Whether two SimHashes are near-duplicates."""
    return distance(one, other) <= most


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, -1 to 1; 0 where one is 0.

    Raises:
        ValueError: If their lengths differ, or one is no vector of finite numbers.

    Example:
        >>> round(cosine((1.0, 0.0), (1.0, 1.0)), 4)
        0.7071
    """
    if len(one) != len(other):
        msg = f"two vectors must be of one length, got {len(one)} and {len(other)}"
        raise ValueError(msg)
    if not all(map(math.isfinite, (*one, *other))):
        msg = "a vector must hold finite numbers, got one with NaN or infinity"
        raise ValueError(msg)
    # `hypot` neither overflows nor vanishes where squares would.
    long, wide = math.hypot(*one), math.hypot(*other)
    if not long or not wide:
        return 0.0
    dot = math.fsum(x / long * (y / wide) for x, y in zip(one, other, strict=True))
    return max(-1.0, min(1.0, dot))


def embedded(embed: Callable[[str], Sequence[float]]) -> Similarity:
    """Make a similarity of a function that gives a text's vector: their cosine, at least 0.

    Each text is embedded once, as long as it is among the last few thousand.

    Example:
        >>> alike = embedded(lambda text: (len(text), 1.0))
        >>> alike("four", "also")
        1.0
    """
    vector = lru_cache(_REMEMBERED)(embed)

    def compare(one: str, other: str) -> float:
        return 1.0 if one == other else max(0.0, cosine(vector(one), vector(other)))

    return compare


def pairwise(texts: Iterable[str], similarity: Similarity = by_words) -> list[float]:
    """Return how alike each pair of texts is, as many numbers as there are pairs.

    Example:
        >>> pairwise(["a b", "a b", "c"])
        [1.0, 0.0, 0.0]
    """
    return [similarity(one, other) for one, other in combinations(texts, 2)]


def novelty(text: str, held: Iterable[str], similarity: Similarity = by_words) -> float:
    """Return how new a text is to someone: 1 - the greatest similarity to what it holds.

    The sheet's novelty of a message; 1 where nothing is held.

    Example:
        >>> novelty("price of trains", ["price of parking", "weather"])
        0.5
    """
    return 1 - max((similarity(text, other) for other in held), default=0.0)
