"""Other instrumentations of LangChain, beside ours.

They make spans of their own for the same work, out of callbacks, and some put a context
of their own in the place of the one that a node runs in. Theirs stay as they are; ours
know by Python's own context where they belong.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from opentelemetry import trace

from orchtrace_langgraph._tasks import CURRENT
from orchtrace_otel import spans
from orchtrace_otel.spans import Scope

if TYPE_CHECKING:
    from opentelemetry.context import Context

TOOL: Final[ContextVar[Scope | None]] = ContextVar("orchtrace_langgraph_tool", default=None)
"""The tool call whose code runs here."""

_THEIRS: Final = "langchain"
"""How the tracers of other instrumentations are named, or end."""


def innermost(found: Scope | None) -> Scope | None:
    """Return where code runs: `found` in OpenTelemetry's context, or what that lost."""
    task = CURRENT.get()
    if task is None:
        return found
    activation = task.activation
    tool = TOOL.get()
    if tool is None and found is activation:
        return found
    if activation is None or (found is not None and found.run is not activation.run):
        return found
    here: Scope = activation
    if tool is not None and not tool.is_closed and tool.activation is activation:
        here = tool
    if found is None or found is activation:
        return here
    above = activation.parent
    while above is not None and above is not found.activation:
        above = above.parent
    return found if above is None else here


def context_in(context: Context, scope: Scope) -> Context:
    """Return the context for a span in `scope`: `context`, without a twin of theirs."""
    if spans.lies_below(scope.span, context):
        return context
    tracer = getattr(trace.get_current_span(context), "instrumentation_scope", None)
    if tracer is not None and tracer.name.endswith(_THEIRS):
        return trace.set_span_in_context(scope.span, context)
    return context
