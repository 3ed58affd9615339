"""Games whose values are known, as runs that can be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchtrace_otel.model import Trace
from orchtrace_otel.replay import Change, Part

if TYPE_CHECKING:
    from collections.abc import Callable

SHEET = {"": 0, "A": 0.2, "B": 0.3, "C": 0, "AB": 0.9, "AC": 0.2, "BC": 0.3, "ABC": 1.0}


@pytest.fixture
def trace() -> Trace:
    """A run of which nothing is known but its id."""
    return Trace("run", "task", ())


@pytest.fixture
def team() -> list[Part]:
    """The players of the sheet's game."""
    return [Part("agent", name) for name in "ABC"]


@pytest.fixture
def sheet_game() -> Callable[[Change, int], float]:
    """The sheet's test game, section 5.2, as a function that replays."""

    def replay(change: Change, seed: int) -> float:
        out = {part.name for part in change.without}
        return SHEET["".join(name for name in "ABC" if name not in out)]

    return replay
