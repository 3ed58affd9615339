"""Tool calls: as an assistant makes them, as a workbench serves them, as any agent runs a tool.

One call goes through up to three of these entries; the outermost one is the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from opentelemetry.context import get_current

from orchtrace_autogen import _framework as f
from orchtrace_autogen._calls import Call, drive, follow
from orchtrace_autogen._content import tool_closes, tool_opens
from orchtrace_autogen._replay_tools import keep_call, keep_run
from orchtrace_autogen._work import ToolCall, Work, around, recording, tool_of, work_of
from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.adapter import Wrapper
from orchtrace_otel.content import gate
from orchtrace_otel.flow import Flow
from orchtrace_otel.model import plain_text
from orchtrace_otel.spans import Value, is_suppressed, open_tool, outcome

ASSISTANT: Final = 0
WORKBENCH: Final = 1
TOOL: Final = 2

CODE: Final = "execute_code"
"""Name of the tool that an executor of code is."""
MEMORY_QUERY: Final = "memory.query"
MEMORY_ADD: Final = "memory.add"


class _Tool(Call):
    __slots__ = ("_flow", "_scope", "_work")

    def __init__(self, tool: ToolCall, flow: Flow, work: Work | None) -> None:
        super().__init__(tool.context)
        self._scope = tool.scope
        self._flow = flow
        self._work = work
        if work is not None:
            work.inside[self] = None

    def left(self) -> None:
        """End a call whose stream nobody can read on."""
        self.close(None, GeneratorExit())

    @guarded
    def close(self, result: Any, error: BaseException | None, /) -> None:
        """End the call; its close enters what the agent does next."""
        if self._scope.is_closed:
            return
        if self._work is not None:
            self._work.inside.pop(self, None)
        status, _ = outcome(error)
        if error is None and _is_error(result):
            status = "error"
        scope = self._scope
        if gate.recorder is not None and error is None:
            tool_closes(scope, result)
        scope.close(status=status, error=error if status == "error" else None)
        self._flow.returned(scope.closed, "tool_dependency")


@guarded
def _is_error(result: Any) -> bool:
    """Whether a call came back as an error: an assistant's is a pair of call and result."""
    if isinstance(result, f.CodeResult):
        return result.exit_code != 0
    if isinstance(result, f.ToolResult):
        return result.is_error
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
    return _open(plain_text(call.name), str(call.id), ASSISTANT, given=call.arguments)


def tool_run(wrapped: Any, tool: f.BaseTool[Any, Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    """Trace `BaseTool.run_json`."""
    call_id = _third(args, kwargs)
    work = keep_run(wrapped, tool, args, kwargs)
    if _is_inside(tool.name, call_id, TOOL):
        return work
    given = args[0] if args else kwargs.get("args")
    return follow(lambda: _open(tool.name, call_id, TOOL, given=given), work)


def tool_stream(
    wrapped: Any, tool: f.BaseStreamTool[Any, Any, Any], args: Any, kwargs: Mapping[str, Any]
) -> Any:
    """Trace `BaseStreamTool.run_json_stream`."""
    call_id = _third(args, kwargs)
    if _is_inside(tool.name, call_id, TOOL):
        return wrapped(*args, **kwargs)
    given = args[0] if args else kwargs.get("args")
    return drive(lambda: _open(tool.name, call_id, TOOL, given=given), wrapped(*args, **kwargs))


def _third(args: Any, kwargs: Mapping[str, Any]) -> str | None:
    given: str | None = kwargs["call_id"] if "call_id" in kwargs else next(iter(args[2:]), None)
    return given


def _workbench(wrapped: Any, workbench: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    asked = _asked(args, kwargs)
    work = keep_call(wrapped, workbench, args, kwargs)
    if asked is None or _is_inside(asked[0], asked[1], WORKBENCH):
        return work
    name, call_id, given = asked
    return follow(lambda: _open(name, call_id, WORKBENCH, given=given), work)


def _workbench_stream(wrapped: Any, _workbench: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    asked = _asked(args, kwargs)
    work = wrapped(*args, **kwargs)
    if asked is None or _is_inside(asked[0], asked[1], WORKBENCH):
        return work
    name, call_id, given = asked
    return drive(lambda: _open(name, call_id, WORKBENCH, given=given), work)


@guarded
def _asked(args: Any, kwargs: Mapping[str, Any]) -> tuple[str, str | None, Any]:
    call_id = kwargs["call_id"] if "call_id" in kwargs else next(iter(args[3:]), None)
    given = kwargs["arguments"] if "arguments" in kwargs else next(iter(args[1:]), None)
    return plain_text(args[0] if args else kwargs.get("name")), call_id, given


WORKBENCHES: Final[Mapping[str, Wrapper]] = {
    "call_tool": _workbench,
    "call_tool_stream": _workbench_stream,
}


def _code(wrapped: Any, _executor: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    given = args[0] if args else kwargs.get("code_blocks")
    return follow(lambda: _open_code(given), wrapped(*args, **kwargs))


@guarded
def _open_code(blocks: Any) -> Call | None:
    """Open a call unless it is how a tool does its work, or an executor another one's."""
    context = get_current()
    scope = recording(context)
    if scope is None or scope is not scope.activation:
        return None
    return _open(CODE, None, TOOL, given=blocks)


EXECUTORS: Final[Mapping[str, Wrapper]] = {"execute_code_blocks": _code}


def _query(wrapped: Any, _memory: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    return follow(lambda: _open_memory(MEMORY_QUERY, args), wrapped(*args, **kwargs))


def _add(wrapped: Any, _memory: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
    return follow(lambda: _open_memory(MEMORY_ADD, args), wrapped(*args, **kwargs))


@guarded
def _open_memory(name: str, args: Any) -> Call | None:
    """Open a call unless another use of a memory is made up of it."""
    context = get_current()
    scope = recording(context)
    around = None if scope is None else tool_of(scope, context)
    if around is not None and around.is_memory:
        return None
    given = next(iter(args), None)
    # The model's context, by which an agent asks, is in the prompt of its next turn.
    is_text = isinstance(given, str) or hasattr(given, "mime_type")
    return _open(name, None, TOOL, {a.TOOL_TYPE: "datastore"}, given=given if is_text else None)


MEMORIES: Final[Mapping[str, Wrapper]] = {"update_context": _query, "query": _query, "add": _add}


@guarded
def _is_inside(name: str, call_id: str | None, level: int) -> bool:
    """Whether what is entered is the call that is open: the same id, one entry further in.

    Not every server of models gives its calls ids, and not every workbench hands them on: then
    it is a call of the same name.
    """
    context = get_current()
    scope = recording(context)
    around = None if scope is None else tool_of(scope, context)
    if around is None or around.level >= level:
        return False
    if call_id != around.call_id and (call_id or name != around.name):
        return False
    around.level = level
    return True


@guarded
def _open(
    name: str,
    call_id: str | None,
    level: int,
    facts: Mapping[str, Value] | None = None,
    *,
    given: Any = None,
) -> Call | None:
    context = get_current()
    scope = recording(context)
    if scope is None or is_suppressed(context):
        return None
    flow = scope.flow.here()
    work = work_of(scope, context)
    edges, turns = (flow.take(), []) if work is None else work.caused(call_id, flow)
    attributes: dict[str, Value] = dict(facts) if facts else {}
    if turns:
        attributes[a.TURNS] = turns
    opened = open_tool(
        scope.activation,
        name,
        call_id=call_id or None,
        edges=edges,
        attributes=attributes,
        context=context,
    )
    if gate.recorder is not None:
        tool_opens(opened, given)
    call = ToolCall(opened, name, call_id, level=level, is_memory=bool(facts))
    return _Tool(call, flow, around(scope.run, context))
