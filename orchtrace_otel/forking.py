"""What a forked child may not go on with: its parent's threads, locks and open work."""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class Forked(Protocol):
    """What the child of a fork has a copy of."""

    def start_afresh(self) -> None:
        """Forget in the child what is the parent's."""


_alive: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()


def afresh_in_children(one: Forked) -> None:
    """Have `one` start afresh in every child that this process forks, while it lives."""
    _alive.add(one)


def _in_child() -> None:
    for one in list(_alive):
        one.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
