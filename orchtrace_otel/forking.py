"""What a forked child may not go on with, and what it would leave undone at its end."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol


class Forked(Protocol):
    """What the child of a fork has a copy of."""

    def start_afresh(self) -> None:
        """Forget in the child what is the parent's."""


_alive: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()


def afresh_in_children(one: Forked) -> None:
    """Have `one` start afresh in every child that this process forks, while it lives."""
    _alive.add(one)


_BEFORE_QUEUES: Final = -1
"""When it is our turn as a child ends: all work is done, and its queues, which may wait for a
reader for ever, are closed after us."""


class _Ends:
    """What is to be done where a child of `multiprocessing` ends.

    One that was forked, by its parent or by the server for that, leaves by `os._exit`, past
    whatever is registered with `atexit`. A spawned one does not.
    """

    def __init__(self) -> None:
        self._last_words: list[Callable[[], None]] = []
        self._is_known = False

    def call(self, last_words: Callable[[], None]) -> None:
        self._last_words.append(last_words)
        self.watch()

    def watch(self) -> None:
        """Be told of children that begin from now on, and of this one where it has begun."""
        util: Any = sys.modules.get("multiprocessing.util")
        if util is None:
            return
        if not self._is_known:
            self._is_known = True
            # A child clears its finalizers as it begins, and then asks who is registered here.
            util.register_after_fork(self, _Ends.begun)
        if sys.modules["multiprocessing"].parent_process() is not None:
            self.begun()

    def begun(self) -> None:
        """Do it at the end of this process."""
        if sys.modules["multiprocessing"].get_start_method() != "spawn":
            util: Any = sys.modules["multiprocessing.util"]
            util.Finalize(None, self._speak, exitpriority=_BEFORE_QUEUES)

    def _speak(self) -> None:
        for last_words in self._last_words:
            last_words()


_ENDS: Final = _Ends()


def at_end_of_children(last_words: Callable[[], None]) -> None:
    """Have `last_words` called where children that `multiprocessing` forks end, this one too.

    Args:
        last_words: What a process does at its exit; called at most twice in a child.
    """
    _ENDS.call(last_words)


def _in_child() -> None:
    for one in list(_alive):
        one.start_afresh()
    _ENDS.watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
