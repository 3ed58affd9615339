"""Implicit causes: what plain code did last, so that what it does next has its cause.

A `Flow` follows one stretch of an agent's work. What is called in it follows from
the latest thing it did, and what came back from callees enters whatever it does
next. Work handed to another asyncio task or thread is a fork: causes go in, and
returns come back to the flow when its owner next does something, but forks do not
see each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import NamedTuple, TypeAlias

from opentelemetry.trace import SpanContext

Unit: TypeAlias = "asyncio.Task[object] | int"


class Mark(NamedTuple):
    """An event that an edge can start from, and the span that a link points at."""

    event_id: str
    context: SpanContext


Edge: TypeAlias = tuple[str, Mark]
"""Type of an edge, one of `model.EDGE_TYPES`, and its cause."""


def unit() -> Unit:
    """Return what runs now: the asyncio task, else the thread's identity."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - current_task() raises without one
    if loop is None:
        return threading.get_ident()
    return asyncio.current_task(loop) or threading.get_ident()


class Flow:
    """One flow of control inside an activation.

    Attributes:
        last: The latest event that is a cause of what comes next.
        owner: The task or thread that runs it.
    """

    __slots__ = ("_forks", "_pending", "last", "owner")

    def __init__(self, last: Mark, owner: Unit, pending: deque[Edge] | None = None) -> None:
        self.last = last
        self.owner = owner
        self._pending: deque[Edge] = deque() if pending is None else pending
        self._forks: list[Flow] | None = None

    def here(self) -> Flow:
        """Return the flow of the task or thread that asks: this one, or a fork of it."""
        asking = unit()
        if asking is self.owner or asking == self.owner:
            return self
        if isinstance(asking, int):
            # A pool's thread runs one job after another and does not tell them
            # apart: each call there is a fork of its own that returns to us.
            return Flow(self.last, asking, self._pending)
        if self._forks is None:
            self._forks = []
        for fork in self._forks:
            if fork.owner is asking:
                return fork
        fork = Flow(self.last, asking)
        self._forks.append(fork)
        return fork

    def returned(self, mark: Mark, edge_type: str = "return") -> None:
        """Note that a callee's close came back to this flow."""
        self._pending.append((edge_type, mark))

    def take(self, edge_type: str = "causal") -> list[Edge]:
        """Return the causes of what the flow does next; returns are handed out once."""
        edges: list[Edge] = [(edge_type, self.last)]
        edges += self.drain()
        return edges

    def drain(self) -> list[Edge]:
        """Return what came back since the flow last did something."""
        edges: list[Edge] = []
        pending = self._pending
        while pending:
            edges.append(pending.popleft())
        if self._forks is not None:
            for fork in self._forks:
                edges += fork.drain()
            self._forks = [f for f in self._forks if not _done(f.owner)] or None
        return edges


def _done(owner: Unit) -> bool:
    return not isinstance(owner, int) and owner.done()
