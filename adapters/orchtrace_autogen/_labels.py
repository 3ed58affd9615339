"""Names and roles that the host gave to its teams and agents."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple


class Label(NamedTuple):
    """The name and the role that the host gave to an object."""

    name: str
    role: str | None = None


class Labels:
    """Names given to objects: by identity, since a host's agents need not be hashable."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Label]] = {}

    def put(self, owner: object, label: Label) -> None:
        """Give an object a name for as long as it lives."""
        key = id(owner)
        self._known[key] = (weakref.ref(owner, lambda _: self._known.pop(key, None)), label)

    def of(self, owner: object) -> Label | None:
        """Return the name of an object, if it was given one."""
        known = self._known.get(id(owner))
        return known[1] if known is not None and known[0]() is owner else None
