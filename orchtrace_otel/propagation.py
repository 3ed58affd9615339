"""A run across processes: W3C context out, and in again.

Spans below a run's root carry the run in their tracestate by themselves, so that an
instrumented HTTP client needs nothing of this. `inject` and `extract` are for every
other way in which one agent calls another.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from contextvars import Token
from typing import Any, Self

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext

from orchtrace_otel import attributes as a
from orchtrace_otel import spans


def inject(carrier: MutableMapping[str, str] | None = None) -> MutableMapping[str, str]:
    """Write the current run into a carrier, such as the headers of a request.

    Uses the process's standard propagators.

    Returns:
        The carrier; a new dict unless one is given.
    """
    headers: MutableMapping[str, str] = {} if carrier is None else carrier
    context = otel_context.get_current()
    activation = spans.current()
    if activation is not None:
        own = trace.get_current_span(context).get_span_context()
        root_id = activation.run.id.rpartition("-")[2]
        state = own.trace_state.update(a.TRACESTATE_KEY, root_id)
        carried = SpanContext(own.trace_id, own.span_id, own.is_remote, own.trace_flags, state)
        context = trace.set_span_in_context(NonRecordingSpan(carried), context)
    propagate.inject(headers, context=context)
    return headers


class extract:  # noqa: N801 - the propagators' word, used as `with extract(headers)`
    """Take up the run that a carrier brings, for the code of the `with` block.

    Agents called in the block belong to the caller's run and get no root of their own.
    A carrier without a run changes nothing but the OTel context.

    Args:
        carrier: What `inject` or an instrumented client wrote; names in any case, as headers.

    Example:
        >>> with extract({}):
        ...     pass
    """

    __slots__ = ("_carrier", "_token")

    def __init__(self, carrier: Mapping[str, str]) -> None:
        self._carrier = carrier
        self._token: Token[otel_context.Context] | None = None

    def __enter__(self) -> Self:
        context = propagate.extract(_in_any_case(self._carrier))
        token = otel_context.attach(context)
        caller: Any = spans.join_run()
        if caller is not None:
            otel_context.detach(token)
            token = otel_context.attach(caller.context)
        self._token = token
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            otel_context.detach(self._token)


def _in_any_case(carrier: Mapping[str, str]) -> Mapping[str, str]:
    """Return headers by their names and these in lower case.

    Servers hand them on as they came, and propagators ask for one spelling.
    """
    items = list(carrier.items()) if hasattr(carrier, "items") else []
    if all(name == str(name).lower() for name, _ in items):
        return carrier
    return {**{str(name).lower(): value for name, value in items}, **dict(items)}
