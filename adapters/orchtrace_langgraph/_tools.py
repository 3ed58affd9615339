"""Tool calls: the span of a call is current in the tool's own code."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context as otel_context

from orchtrace_langgraph import _callbacks
from orchtrace_langgraph._beside import TOOL, context_in
from orchtrace_langgraph._content import MESSAGE, answers, tool_closes, tool_opens
from orchtrace_langgraph._framework import COMMAND, is_a
from orchtrace_langgraph._handoffs import Transfer, each
from orchtrace_langgraph._replay_tools import keep_arun, keep_run
from orchtrace_langgraph._tasks import CURRENT, Task, restore
from orchtrace_langgraph._turns import Asked, asked_for
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.content import gate
from orchtrace_otel.flow import Edge, Flow
from orchtrace_otel.spans import Scope

if TYPE_CHECKING:
    from opentelemetry.context import Context


class _Call(NamedTuple):
    """A tool call that is open."""

    tool: Scope
    call_id: str | None
    flow: Flow
    asked: Asked | None
    task: Task | None
    token: Token[Context]
    place: Token[Scope | None]


@guarded
def _enter(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
    context = otel_context.get_current()
    scope = spans.scope_of(context)
    if _callbacks.tasks:
        scope = _callbacks.scope_for(getattr(kwargs.get("callbacks"), "parent_run_id", None), scope)
    if scope is None or scope.run.is_closed or spans.is_suppressed(context):
        return None
    call_id = kwargs.get("tool_call_id")
    asked = asked_for(call_id, scope.activation) if call_id else None
    flow = scope.flow.here()
    edges = flow.take()
    if asked is not None and asked.answers:
        edges = _without_siblings(edges, asked, flow)
    opened = spans.open_tool(
        scope.activation,
        tool.name,
        call_id=call_id,
        edges=edges,
        attributes=None if asked is None else {a.TURNS: (asked.turn,)},
        context=context_in(context, scope),
    )
    if gate.recorder is not None:
        names = None if asked is None or call_id is None else asked.names.get(call_id)
        tool_opens(opened, args[0] if args else kwargs.get("tool_input"), names)
    task = CURRENT.get()
    return _Call(opened, call_id, flow, asked, task, opened.attach(), TOOL.set(opened))


def _without_siblings(edges: list[Edge], asked: Asked, flow: Flow) -> list[Edge]:
    """Leave what the same turn asked for to the next one who follows from it."""
    kept: list[Edge] = []
    for kind, mark in edges:
        if mark.event_id in asked.answers:
            flow.returned(mark, kind)
        else:
            kept.append((kind, mark))
    return kept


@guarded
def _leave(call: _Call, result: Any, error: BaseException | None) -> None:
    tool, call_id, flow, asked, task, token, place = call
    restore(TOOL, place, token)
    status, _ = spans.outcome(error)
    commands: list[Any] = []
    for one in answers(result):
        if is_a(one, COMMAND):
            commands.append(one)
        elif is_a(one, MESSAGE) and one.status == "error":
            status = "error"  # a tool may catch its error and answer with it
    if gate.recorder is not None and error is None:
        tool_closes(tool, result)
    tool.end(status, error=error if status == "error" else None)
    closed = tool.closed
    if asked is not None:
        asked.answers.add(closed.event_id)
    flow.returned(closed, "tool_dependency")
    if task is not None:
        turn = None if asked is None else asked.turn
        gone = [each(command.goto) for command in commands if command.goto]
        if gone:
            task.hand_over().transfers += [Transfer(goals, call_id, turn, closed) for goals in gone]


def run_tool(
    wrapped: Callable[..., Any], tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Wrap `BaseTool.run`: opens and closes the span of a tool call."""
    call = _enter(tool, args, kwargs)
    if call is None:
        return keep_run(wrapped, tool, args, kwargs)
    try:
        result = keep_run(wrapped, tool, args, kwargs)
    except BaseException as error:
        _leave(call, None, error)
        raise
    _leave(call, result, None)
    return result


def arun_tool(
    wrapped: Callable[..., Any], tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Wrap `BaseTool.arun`, as `run_tool` wraps its twin."""
    if spans.current() is None and not _callbacks.tasks:
        return keep_arun(wrapped, tool, args, kwargs)
    return _arun_tool(wrapped, tool, args, kwargs)


async def _arun_tool(
    wrapped: Callable[..., Any], tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    call = _enter(tool, args, kwargs)
    if call is None:
        return await keep_arun(wrapped, tool, args, kwargs)
    try:
        result = await keep_arun(wrapped, tool, args, kwargs)
    except BaseException as error:
        _leave(call, None, error)
        raise
    _leave(call, result, None)
    return result
