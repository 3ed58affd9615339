"""When to try again: later and later, never in step with others, and not before asked to."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

FIRST_S: Final = 0.5
LONGEST_S: Final = 60.0
LONGEST_ASKED_S: Final = 3_600.0
"""How long a server's own word on when to come back is believed."""


class Pace:
    """The pause after a failure: doubled with each, with a random half of it.

    Args:
        first_s: Pause after the first failure.
        longest_s: Pause that is never exceeded, unless the server asks for more.
        draw: Gives a number from 0 to 1.

    Example:
        >>> pace = Pace(draw=lambda: 1.0)
        >>> [pace.failed() for _ in range(9)]
        [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
        >>> pace.failed(asked_s=90)
        99.0
        >>> pace.worked(); pace.failed()
        0.5
    """

    def __init__(
        self,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._draw = draw
        self._failed = 0

    def failed(self, asked_s: float | None = None) -> float:
        """Return how many seconds to pause.

        Args:
            asked_s: What the server asked for; waited for in full, up to an hour, and up
                to a tenth more, so that those who were asked together come apart.
        """
        pause = min(self._first_s * 2.0 ** min(self._failed, 32), self._longest_s)
        self._failed += 1
        if asked_s is not None:
            asked_s = min(asked_s, LONGEST_ASKED_S)
            return asked_s + asked_s * self._draw() / 10
        return pause * (0.5 + self._draw() / 2)

    def worked(self) -> None:
        """Begin anew: the last request was answered."""
        self._failed = 0
