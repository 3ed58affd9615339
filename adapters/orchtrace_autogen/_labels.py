"""What is known about the host's objects: by identity, for as long as they live."""

from __future__ import annotations

import weakref
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

V = TypeVar("V")


class Label(NamedTuple):
    """The name and the role that the host gave to an object."""

    name: str
    role: str | None = None


class Known(Generic[V]):
    """A fact about each of some objects, which need not be hashable."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], V]] = {}

    def put(self, owner: object, fact: V) -> None:
        """Know a fact about an object for as long as it lives."""
        key = id(owner)
        self._known[key] = (weakref.ref(owner, lambda _: self._known.pop(key, None)), fact)

    def of(self, owner: object) -> V | None:
        """Return what is known about an object."""
        known = self._known.get(id(owner))
        return known[1] if known is not None and known[0]() is owner else None

    def forget(self, owner: object) -> None:
        """Know nothing about an object any more."""
        if self.of(owner) is not None:
            del self._known[id(owner)]


Labels: TypeAlias = Known[Label]
"""Names and roles that the host gave to its teams and agents."""
