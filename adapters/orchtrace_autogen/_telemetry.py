"""AutoGen's own spans while ours are on.

Its runtime writes six spans a message, with the message's body among the attributes,
and ignores the context that came with it: these are off. Its spans of agents and tools
carry descriptions and texts of exceptions, stay current across yields, which makes a
stream that is closed elsewhere log an error, and begin traces of their own where an
agent is made. They are made here in its place: same names, same scope, same attributes
without the texts, inside ours, and current nowhere.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import autogen_agentchat.agents._base_chat_agent as chat_agent
import autogen_agentchat.teams._group_chat._chat_agent_container as container
import autogen_core._single_threaded_agent_runtime as runtime
import autogen_core.tools._base as tools
from autogen_core._telemetry import EnvelopeMetadata, TraceHelper
from opentelemetry import trace
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, Tracer

from orchtrace_autogen._adapter import REPLACE, REUSE
from orchtrace_autogen._work import recording
from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.adapter import Patches
from orchtrace_otel.spans import Scope, all_writable, is_suppressed, writable

_TRACER: Final = "autogen-core"
_TOOL_SPAN: Final = "trace_tool_span"
_SYSTEM: Final = "gen_ai.system"
_AGENT_ID: Final = "gen_ai.agent.id"

_NOTHING: Final = contextlib.nullcontext(INVALID_SPAN)


def _no_metadata() -> EnvelopeMetadata:
    """Nobody reads the context of an envelope: a runtime of one process has no use for it."""
    return EnvelopeMetadata()


def _trace_block(_wrapped: Any, _helper: Any, _args: Any, _kwargs: Any) -> Any:
    return _NOTHING


async def _attributes(_wrapped: Any, host: Any, _args: Any, kwargs: dict[str, Any]) -> Any:
    """Skip what is only for spans; an agent that cannot be made still fails as it did."""
    for key in ("sender_agent_id", "recipient_agent_id"):
        agent = kwargs.get(key)
        if agent:
            await host._get_agent(agent)  # noqa: SLF001 - what the original does
    return {}


class _Own:
    """One of AutoGen's spans, open for a block, and current nowhere in it."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        return self._span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(error)

    @guarded
    def _end(self, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            self._span.set_status(Status(StatusCode.ERROR))
            self._span.set_attribute(a.ERROR_TYPE, type(error).__name__)
        self._span.end()


class Telemetry:
    """AutoGen's helpers that make its spans, as they are while ours are on.

    Args:
        mode: `reuse`, `quiet` or `replace`.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._patches: Patches | None = None
        self._modules: set[str] = set()
        self._made: tuple[object, Tracer] | None = None

    def install(self, patches: Patches) -> None:
        """Stand in for AutoGen's own telemetry until `patches` are undone."""
        patches.wrap(TraceHelper, "trace_block", _trace_block)
        patches.wrap(runtime.SingleThreadedAgentRuntime, "_create_otel_attributes", _attributes)
        patches.replace(runtime, "get_telemetry_envelope_metadata", _no_metadata)
        patches.wrap(chat_agent, "trace_create_agent_span", self._create_agent)
        patches.wrap(chat_agent, "trace_invoke_agent_span", self._invoke_agent)
        patches.wrap(container, "trace_invoke_agent_span", self._invoke_agent)
        patches.wrap(tools, _TOOL_SPAN, self._execute_tool)
        self._patches = patches

    @guarded
    def adopt(self, kind: type[Any]) -> None:
        """Do the same in AutoGen's module of a workbench, such as MCP's, once it is loaded."""
        module = sys.modules.get(kind.__module__)
        if self._patches is None or module is None or module is tools:
            return
        is_ours = module.__name__ in self._modules
        if not is_ours and module.__name__.startswith("autogen_") and hasattr(module, _TOOL_SPAN):
            self._modules.add(module.__name__)
            self._patches.wrap(module, _TOOL_SPAN, self._execute_tool)

    def _create_agent(self, _wrapped: Any, _module: Any, args: Any, kwargs: Any) -> Any:
        name = args[0] if args else kwargs.get("agent_name")
        return self._begin("create_agent", SpanKind.CLIENT, {a.AGENT_NAME: name})

    def _invoke_agent(self, _wrapped: Any, _module: Any, args: Any, kwargs: Any) -> Any:
        facts = {a.AGENT_NAME: args[0] if args else kwargs.get("agent_name")}
        if kwargs.get("agent_id") is not None:
            facts[_AGENT_ID] = kwargs["agent_id"]
        return self._begin(a.INVOKE_AGENT, SpanKind.CLIENT, facts)

    def _execute_tool(self, _wrapped: Any, _module: Any, args: Any, kwargs: Any) -> Any:
        facts = {a.TOOL_NAME: args[0] if args else kwargs.get("tool_name")}
        if kwargs.get("tool_call_id") is not None:
            facts[a.TOOL_CALL_ID] = kwargs["tool_call_id"]
        return self._begin(a.EXECUTE_TOOL, SpanKind.INTERNAL, facts)

    def _begin(self, operation: str, kind: SpanKind, facts: dict[str, Any]) -> Any:
        span = None if self._mode == REPLACE else self._start(operation, kind, facts)
        return _NOTHING if span is None else _Own(span)

    @guarded
    def _start(self, operation: str, kind: SpanKind, facts: Mapping[str, Any]) -> Span | None:
        """Start a span below one that is there; it never begins a trace."""
        context = get_current()
        if is_suppressed(context):
            return None
        scope = recording(context)
        around = trace.get_current_span(context)
        if scope is None and not around.is_recording():
            return None
        name = next(iter(facts.values()))
        attributes = {a.OPERATION: operation, _SYSTEM: "autogen", **facts}
        if self._mode == REUSE and scope is not None:
            attributes[a.ACTIVATION] = scope.activation.span_id
        return self._tracer(scope).start_span(
            writable(f"{operation} {name}"),
            context=context,
            kind=kind,
            attributes=all_writable(attributes),
        )

    def _tracer(self, scope: Scope | None) -> Tracer:
        """Return AutoGen's tracer of the provider that our spans go to, else of the global one."""
        provider = None if scope is None else scope.run.tracing.provider
        if provider is None:
            provider = trace.get_tracer_provider()
        if self._made is None or self._made[0] is not provider:
            self._made = (provider, provider.get_tracer(_TRACER))
        return self._made[1]


def silence(patches: Patches) -> None:
    """Switch AutoGen's spans off until `patches` are undone."""
    Telemetry(REPLACE).install(patches)
