"""How a span tells its run: the run's root in the span's tracestate."""

from __future__ import annotations

from typing import Final

from opentelemetry.trace import SpanContext, TraceState

from orchtrace_otel import attributes as a

_MOST_MEMBERS: Final = 32
"""How many members W3C lets a tracestate have; the last one gives way to a new one."""


def carrying(context: SpanContext, root_id: str) -> SpanContext:
    """Return a span's context with the run of that root in its tracestate.

    Args:
        context: The span's context, with any tracestate.
        root_id: Span id of the run's root, 16 hexadecimal digits.

    Example:
        >>> own = SpanContext(1, 2, is_remote=False, trace_state=TraceState([("ot", "th:8")]))
        >>> carrying(own, "00f067aa0ba902b7").trace_state.to_header()
        'orchtrace=00f067aa0ba902b7,ot=th:8'
    """
    others = [item for item in context.trace_state.items() if item[0] != a.TRACESTATE_KEY]
    state = TraceState([(a.TRACESTATE_KEY, root_id), *others[: _MOST_MEMBERS - 1]])
    return SpanContext(
        context.trace_id, context.span_id, context.is_remote, context.trace_flags, state
    )
