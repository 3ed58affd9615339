"""What was lost of content, written down beside the store: a later `orchtrace doctor` tells it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from orchtrace_otel._guard import guarded
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.noted import Losses

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LOST: Final = ("content_dropped", "content_undelivered", "content_unwritten")
"""Kinds of losses that are no limit of the user's: a run that reached one of those says so."""
_NAME: Final = "losses.jsonl"


class Notes:
    """Writes down what a process lost on its way to a folder of this machine.

    Args:
        folder: The store.
        counted: What was lost so far, by kind; somebody else counts.
    """

    def __init__(self, folder: Path, counted: Mapping[str, int]) -> None:
        self._folder = folder
        self._counted = counted
        self.start_afresh()
        afresh_in_children(self)

    def start_afresh(self) -> None:
        """Leave to the parent of a fork what it lost."""
        self._told: Counter[str] = Counter()
        self._losses = _losses(self._folder)

    @guarded
    def own_up(self) -> None:
        """Write down what was lost since the last time; later on where there is no room now."""
        for kind in _LOST:
            new = self._counted.get(kind, 0) - self._told[kind]
            if new > 0:
                self._losses.note(kind, new)
                self._told[kind] += new
        with suppress(OSError):
            self._losses.own_up()


def complaints(folder: Path) -> list[str]:
    """Say what processes lost on their way to a store that is a folder of this machine."""
    return _losses(folder).complaints()


def _losses(folder: Path) -> Losses:
    return Losses(folder / _NAME, "documents")
