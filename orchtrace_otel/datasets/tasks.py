"""Tasks that are nearly the same, and which split each cluster of them belongs to.

A task asked twice with other words must not be learned from and tested on. Texts of
tasks are compared by the share of their runs of three words that they have in common
(Jaccard), estimated by MinHash; candidates come from bands of it, so that no two tasks
are compared that do not already share something (Broder 1997; Leskovec, Rajaraman and
Ullman, Mining of Massive Datasets, chapter 3). Tasks that are asked in the words of one
template share bands with all others, so a band names the first few of its tasks only: what is
alike beyond the template meets in bands that hold words of its own.
"""

from __future__ import annotations

import hashlib
import random
import re
import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import eq
from typing import Final

from orchtrace_otel.tables.scratch import Scratch

_PERMUTATIONS: Final = 64
_BAND: Final = 4
_MOST_IN_A_BAND: Final = 32
_RUN: Final = 3
_PRIME: Final = (1 << 61) - 1
_draw = random.Random(20_261_129)  # noqa: S311 - the same permutations everywhere, no secret
_FACTORS: Final = tuple(
    (_draw.randrange(1, _PRIME), _draw.randrange(_PRIME)) for _ in range(_PERMUTATIONS)
)
_TABLES: Final = """
create table signed (task text primary key, signature blob) without rowid;
create table bands (band blob, task text, primary key (band, task)) without rowid;
"""
_WORD: Final = re.compile(r"\w+")


def signature(text: str) -> tuple[int, ...] | None:
    """Return the MinHash of a text; None where it has no word."""
    words = _WORD.findall(text.lower())
    if not words:
        return None
    runs = {" ".join(words[i : i + _RUN]) for i in range(max(len(words) - _RUN + 1, 1))}
    hashes = [int.from_bytes(hashlib.blake2b(run.encode(), digest_size=7).digest()) for run in runs]
    return tuple(min((a * x + b) % _PRIME for x in hashes) for a, b in _FACTORS)


def likeness(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Return the estimated share of runs of words that two texts have in common, 0 to 1.

    Example:
        >>> text = "how high is the tide at noon in the harbour town"
        >>> likeness(signature(text), signature(text.upper()))
        1.0
    """
    equal: int = sum(map(eq, one, other))
    return equal / len(one)


def clusters(texts: Iterable[tuple[str, str]], alike: float) -> Iterator[tuple[str, str]]:
    """Return the cluster of each task that is like another one, named by its first task.

    Args:
        texts: Task id and text, in order of the id.
        alike: Likeness from which two tasks belong together; they do so transitively.

    Example:
        >>> told = "how high is the tide at noon in the old harbour town today"
        >>> asked = "How high is the tide at noon in the old harbour town today?"
        >>> list(clusters([("a", told), ("b", "bake bread"), ("c", asked)], 0.8))
        [('a', 'a'), ('c', 'a')]
    """
    parents: dict[str, str] = {}
    base = Scratch(_TABLES)
    try:
        for task, text in texts:
            signed = signature(text)
            if signed is not None:
                _join(base, task, signed, alike, parents)
    finally:
        base.close()
    for task in sorted(parents):
        yield task, _root(task, parents)


def _join(
    base: Scratch,
    task: str,
    signed: tuple[int, ...],
    alike: float,
    parents: dict[str, str],
) -> None:
    packed = struct.pack(f"{_PERMUTATIONS}Q", *signed)
    size = 8 * _BAND
    bands = [
        bytes([place]) + packed[place * size : (place + 1) * size]
        for place in range(_PERMUTATIONS // _BAND)
    ]
    held = [_tasks_in(base, band) for band in bands]
    for other in sorted(set(chain.from_iterable(held))):
        first, second = sorted((_root(task, parents), _root(other, parents)))
        if first != second and likeness(signed, _signature_of(base, other)) >= alike:
            parents.setdefault(first, first)
            parents[second] = first
    base.execute_many("insert or ignore into signed values (?, ?)", [(task, packed)])
    free = [band for band, tasks in zip(bands, held, strict=True) if len(tasks) < _MOST_IN_A_BAND]
    base.execute_many("insert or ignore into bands values (?, ?)", ((band, task) for band in free))


def _tasks_in(base: Scratch, band: bytes) -> list[str]:
    return [task for (task,) in base.execute("select task from bands where band = ?", (band,))]


def _signature_of(base: Scratch, task: str) -> tuple[int, ...]:
    ((packed,),) = base.execute("select signature from signed where task = ?", (task,))
    return struct.unpack(f"{_PERMUTATIONS}Q", packed)


def _root(task: str, parents: dict[str, str]) -> str:
    while parents.get(task, task) != task:
        task = parents[task]
    return task


def split_of(cluster: str, seed: int, validation: float) -> str:
    """Return `train` or `validation`, by chance that follows from the seed and the cluster alone.

    Example:
        >>> [split_of("q", 0, share) for share in (0.0, 1.0)]
        ['train', 'validation']
    """
    drawn = hashlib.sha256(f"{seed}:{cluster}".encode("utf-8", "backslashreplace")).digest()
    share = int.from_bytes(drawn[:7]) / 2**56
    return "validation" if share < validation else "train"
