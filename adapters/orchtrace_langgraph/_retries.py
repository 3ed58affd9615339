"""Tries: a node that fails and is run again is one activation a try.

LangGraph asks a policy whether to try again once a try has failed, and since 1.2 resets
a counter after it has waited, just before it does. Both happen where the task runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from orchtrace_langgraph import _tasks
from orchtrace_langgraph._tasks import Task
from orchtrace_otel._guard import guarded

RETRY: Final = "langgraph.pregel._retry"
RESET: Final = "_reset_interrupt_counter"


class Retries:
    """Follows the tries of tasks.

    Args:
        tells_begin: Whether this version tells when the next try begins; where it does
            not, the wait before it counts as part of it.
    """

    def __init__(self, *, tells_begin: bool) -> None:
        self._tells_begin = tells_begin

    def may_retry(
        self, wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Wrap `_should_retry_on`: closes a try that failed and is followed by another."""
        again = wrapped(*args, **kwargs)
        if again:
            self._failed(*args, **kwargs)
        return again

    def begin(
        self, wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Wrap `_reset_interrupt_counter`: opens the next try."""
        task = _tasks.CURRENT.get()
        if task is not None:
            _tasks.try_again(task)
        return wrapped(*args, **kwargs)

    @guarded
    def _failed(self, retry_policy: Any, exc: BaseException) -> None:
        task = _tasks.CURRENT.get()
        if task is None or not _is_of(task, exc):
            return
        if task.attempt >= retry_policy.max_attempts:
            return
        _tasks.failed(task, exc)
        if not self._tells_begin:
            _tasks.try_again(task)


def _is_of(task: Task, error: BaseException) -> bool:
    """Whether an error is a task's own; one that is not traced may fail inside one that is.

    LangGraph's note says whose it is. An error that takes no notes is taken to be the task's.
    """
    notes: list[str] = getattr(error, "__notes__", None) or [task.id]
    return task.id in notes[-1]
