"""Tool calls: as an assistant makes them, and as any other agent runs a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from opentelemetry.context import get_current

from orchtrace_autogen import _framework as f
from orchtrace_autogen._calls import Call, drive, follow
from orchtrace_autogen._work import ToolCall, recording, tool_of, work_of
from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Flow
from orchtrace_otel.spans import is_suppressed, open_tool, outcome


class _Tool(Call):
    __slots__ = ("_flow", "_scope")

    def __init__(self, tool: ToolCall, flow: Flow) -> None:
        super().__init__(tool.context)
        self._scope = tool.scope
        self._flow = flow

    @guarded
    def close(self, result: Any, error: BaseException | None, /) -> None:
        """End the call; its close enters what the agent does next."""
        status, _ = outcome(error)
        if error is None and _is_error(result):
            status = "error"
        scope = self._scope
        scope.close(status=status, error=error if status == "error" else None)
        self._flow.returned(scope.closed, "tool_dependency")


def _is_error(result: Any) -> bool:
    """Whether a call came back as an error: an assistant's is a pair of call and result."""
    if not isinstance(result, tuple):
        return False
    parts = cast("tuple[object, ...]", result)
    return any(isinstance(part, f.FunctionExecutionResult) and part.is_error for part in parts)


def assistant_call(wrapped: Any, _assistant: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Trace `AssistantAgent._execute_tool_call`, where every kind of tool comes along."""
    call = kwargs.get("tool_call") or (args[0] if args else None)
    return follow(lambda: _open_call(call), wrapped(*args, **kwargs))


@guarded
def _open_call(call: Any) -> Call | None:
    return _open(str(call.name), str(call.id), is_taken=False)


def tool_run(wrapped: Any, tool: f.BaseTool[Any, Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Trace `BaseTool.run_json`."""
    return follow(lambda: _open_run(tool, args, kwargs), wrapped(*args, **kwargs))


def tool_stream(
    wrapped: Any, tool: f.BaseStreamTool[Any, Any, Any], args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """Trace `BaseStreamTool.run_json_stream`."""
    return drive(lambda: _open_run(tool, args, kwargs), wrapped(*args, **kwargs))


@guarded
def _open_run(tool: f.BaseTool[Any, Any], args: Any, kwargs: Mapping[str, Any]) -> Call | None:
    call_id = kwargs.get("call_id") or next(iter(args[2:]), None)
    context = get_current()
    scope = recording(context)
    around = None if scope is None else tool_of(scope, context)
    if around is not None and not around.is_taken and around.call_id == call_id:
        around.is_taken = True
        return None
    return _open(tool.name, call_id, is_taken=True)


def _open(name: str, call_id: str | None, *, is_taken: bool) -> Call | None:
    context = get_current()
    scope = recording(context)
    if scope is None or is_suppressed(context):
        return None
    flow = scope.flow.here()
    work = work_of(scope, context)
    edges, turns = (flow.take(), []) if work is None else work.caused(call_id, flow)
    opened = open_tool(
        scope.activation,
        name,
        call_id=call_id or None,
        edges=edges,
        attributes={a.TURNS: turns} if turns else None,
        context=context,
    )
    return _Tool(ToolCall(opened, call_id, is_taken=is_taken), flow)
