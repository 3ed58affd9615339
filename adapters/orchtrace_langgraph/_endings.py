"""How a run of a graph ended, and what its end follows from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from orchtrace_langgraph._causes import Writer
from orchtrace_langgraph._framework import find
from orchtrace_otel import spans
from orchtrace_otel.flow import Edge, Mark

_REASONS: Final = {
    "done": ("ok", "information_complete"),
    "out_of_steps": ("error", "max_steps"),
    "draining": ("paused", "external"),
}


def edges_of(writer: Writer) -> list[Edge]:
    """Return the edges from a writer to the end of the run, where nothing else followed."""
    if writer.decision is not None:
        return [("causal", writer.decision)]
    kind = "causal" if writer.task.activation is None else "return"
    return [(kind, mark) for mark in writer.task.marks()]


def marks_of(writers: Iterable[Writer]) -> list[Mark]:
    found: dict[str, Mark] = {}
    for task, decision, is_handoff in writers:
        marks = task.marks() if decision is None else (decision,)
        if is_handoff and task.author is not None:
            marks += task.author.marks()
        found.update((mark.event_id, mark) for mark in marks)
    return list(found.values())


def outcome(
    loop: Any, error: BaseException | None
) -> tuple[str, str, str | None, BaseException | None]:
    """Return status, stop reason, stop detail, and the error where it is one."""
    state = getattr(loop, "status", "")
    if error is None:
        status, reason = _REASONS.get(state, ("ok", "information_complete"))
        if reason == "max_steps":
            # The loop ends quietly; what its caller then gets is this error.
            error = recursion_error()
        return status, reason, None if state == "done" else state, error
    status, reason = spans.outcome(error)
    detail = state if state.startswith("interrupt_") else spans.error_type(error)
    return status, reason, detail, error if status == "error" else None


def recursion_error() -> BaseException:
    """Return the error that LangGraph raises when a run is out of steps."""
    error: BaseException = find("langgraph.errors:GraphRecursionError")()
    return error
