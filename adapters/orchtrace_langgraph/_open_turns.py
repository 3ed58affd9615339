"""LLM calls that are open, and who makes them."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final
from uuid import UUID

from orchtrace_otel.spans import Interval

if TYPE_CHECKING:
    from orchtrace_langgraph._tasks import Task
    from orchtrace_otel.content.opened import OpenTurn

_MOST_OPEN: Final = 10_000
"""LLM calls that may be open at once; the oldest is given up, it was most likely dropped."""


class Turn:
    """An LLM call that is open, the task that makes it, and another that the host gave its id."""

    __slots__ = ("content", "interval", "other", "task")

    def __init__(self, interval: Interval, task: Task | None) -> None:
        self.interval = interval
        self.task = task
        self.content: OpenTurn | None = None
        self.other: Turn | None = None


turns: Final[dict[UUID, Turn]] = {}
"""LLM calls that are open, by LangChain's id."""


BEGUN: Final[ContextVar[list[UUID] | None]] = ContextVar("orchtrace_langgraph_begun", default=None)
"""LLM calls that began in the method of a model that runs here."""


def note(run_id: UUID, turn: Turn) -> None:
    """Note an LLM call that begins."""
    begun = BEGUN.get()
    if begun is not None:
        begun.append(run_id)
    task = turn.task
    if task is not None:
        if task.turns is None:
            task.turns = {run_id}
        else:
            task.turns.add(run_id)
    turn.other = turns.get(run_id)
    turns[run_id] = turn  # first of all: other threads may take the oldest one meanwhile
    if len(turns) > _MOST_OPEN:
        _cancel(next(iter(turns)))


def take(run_id: UUID) -> Turn:
    """Return an LLM call that ends, which is open no more."""
    turn = turns.pop(run_id)
    if turn.other is not None:
        turns[run_id] = turn.other
    if turn.task is not None and turn.task.turns is not None:
        turn.task.turns.discard(run_id)
    return turn


def give_up(run_ids: Iterable[UUID]) -> None:
    """Close turns that are still open, since nobody else will."""
    for run_id in tuple(run_ids):
        _cancel(run_id)


def _cancel(run_id: UUID) -> None:
    turn = turns.pop(run_id, None)
    while turn is not None:
        turn.interval.close(status="cancelled")
        turn = turn.other
