"""A bounded table of what is known; what is used stays, what nobody asks for goes."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_ENTRY: Final = 300
"""Bytes that an entry takes up beside its texts, about."""


class Known(Generic[K, V]):
    """What is known, by what it was made of.

    Entries are of two generations. When the young one is full it becomes the old one, and
    what was old is forgotten; an old entry that is used is young again. So what each call
    needs is there however long a run is, at the price of a look into a table.

    Who reads holds no lock: at worst something is made a second time.

    Args:
        most: Bytes that a generation may take up, about.

    Example:
        >>> known = Known(1_000)
        >>> for number in range(10):
        ...     known.put(number, number * number, 100)
        ...     _ = known.get(0)
        >>> known.get(0), known.get(1), known.get(9)
        (0, None, 81)
    """

    __slots__ = ("_lock", "_most", "_old", "_size", "_young")

    def __init__(self, most: int) -> None:
        self._most = most
        # Of the thread's own: in the middle of it the collector may run code of the host's.
        self._lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        """Know nothing."""
        self._size = 0
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}

    def end(self) -> None:
        """Know nothing from now on."""
        self._most = 0
        self.clear()

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def get(self, key: K) -> V | None:
        """Return what is known by a key."""
        entry = self._young.get(key)
        if entry is None:
            entry = self._old.get(key)
            if entry is None:
                return None
            self._take(key, entry)
        return entry[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Know a value, whose texts and its key's have `size` bytes, from now on."""
        self._take(key, (value, size + _ENTRY))

    def _take(self, key: K, entry: tuple[V, int]) -> None:
        with self._lock:
            if key in self._young or entry[1] > self._most:
                return
            if self._size + entry[1] > self._most:
                self._old, self._young, self._size = self._young, {}, 0
            self._young[key] = entry
            self._size += entry[1]
