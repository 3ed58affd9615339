"""What led to what in a trace of others, as far as nesting and order say it.

Inside one scope (a workflow, an agent, a tool) things happen in the order they began.
What begins follows from the scope's opening, or from the latest instant in it, and
takes along what came back since. That is what a caller who waits does; that this one
waited is a guess.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_SHARED: Final = 32
"""How much of what came back the later branches of a step share; all of it would be a
number of edges that grows with the square of the trace."""


class Back(NamedTuple):
    """Something that came back to its scope.

    Attributes:
        at: When, in nanoseconds since the epoch.
        event: Id of its closing.
        type: Type of the edge to what its scope does next.
    """

    at: int
    event: str
    type: str


@dataclass(slots=True)
class Flow:
    """One scope, followed in the order of beginnings.

    Attributes:
        last: The event that is a cause of what comes next.
        pending: What came back, or will, and was not handed to anything; a heap.
        turn: The latest call of a model.
        turn_end: When that one ended.
        held: What was handed out last.
    """

    last: str
    pending: list[Back] = field(default_factory=list[Back])
    turn: str | None = None
    turn_end: int = 0
    held: list[Back] = field(default_factory=list[Back])

    def wait_for(self, backs: Iterable[Back]) -> None:
        """Note what comes back, and when."""
        for back in backs:
            heapq.heappush(self.pending, back)

    def take(self, at: int) -> list[Back]:
        """Return what came back until then.

        It is handed out once, but for what begins while the one that got it goes on:
        these are branches of one step.
        """
        came: list[Back] = []
        while self.pending and self.pending[0].at <= at:
            came.append(heapq.heappop(self.pending))
        if came:
            self.held = came[-_SHARED:]
        return self.held if self.pending and not came else came

    def drain(self, at: int) -> list[Back]:
        """Return what came back until the scope's end and was not handed out."""
        self.held = []
        return self.take(at)

    def move(self, event: str) -> None:
        """Take an instant as the cause of what comes next."""
        self.last = event
        self.held = []

    def turns(self, at: int) -> tuple[str, ...]:
        """Return the call of a model that what begins at a time seems to come from."""
        return () if self.turn is None or self.turn_end > at else (self.turn,)
