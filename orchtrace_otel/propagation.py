"""A run across processes: W3C context out, and in again.

Spans below a run's root carry the run in their tracestate by themselves, so that an
instrumented HTTP client needs nothing of this. `inject` and `extract` are for every
other way in which one agent calls another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, Self, TypeAlias, cast

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace
from opentelemetry.trace import NonRecordingSpan
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from orchtrace_otel import spans
from orchtrace_otel._guard import guarded, warn_once

Carrier: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str] | tuple[bytes, bytes]]


def inject(carrier: MutableMapping[str, str] | None = None) -> MutableMapping[str, str]:
    """Write the current run into a carrier, such as the headers of a request.

    Uses the process's standard propagators.

    Returns:
        The carrier; a new dict unless one is given.
    """
    headers: MutableMapping[str, str] = {} if carrier is None else carrier
    _write(headers)
    return headers


@guarded
def _write(headers: MutableMapping[str, str]) -> None:
    kind: type[object] = type(headers)
    if not hasattr(kind, "__setitem__") or issubclass(kind, list):
        must = "inject() needs headers that can be written to, got a %s; the run is not sent along"
        warn_once("inject", must, kind.__name__)
        return
    context = otel_context.get_current()
    activation = spans.current()
    if activation is not None:
        own = trace.get_current_span(context).get_span_context()
        trace_id, _, root_id = activation.run.id.partition("-")
        if f"{own.trace_id:032x}" != trace_id:  # a host's span of another OTel trace is current
            own = activation.span.get_span_context()
        carried = NonRecordingSpan(spans.carrying(own, root_id))
        context = trace.set_span_in_context(carried, context)
    propagate.inject(headers, context=context)
    is_missing = isinstance(cast("object", headers), Mapping) and _TRACESTATE not in headers
    if activation is not None and is_missing:
        warn_once(
            "propagators",
            "inject() needs a propagator that writes tracestate, as tracecontext does among "
            "OTEL_PROPAGATORS, got none; runs are not sent along",
        )


_TRACESTATE: Final = "tracestate"


class extract:  # noqa: N801 - the propagators' word, used as `with extract(headers)`
    """Take up the run that a carrier brings, for the code of the `with` block.

    Agents called in the block belong to the caller's run and get no root of their own.
    A carrier without a run changes nothing but the OTel context.

    Args:
        carrier: What `inject` or an instrumented client wrote: a mapping or pairs, texts or bytes,
            names in any case, as headers of requests, of ASGI and of WSGI come. What is none of
            it is logged once, and changes nothing.

    Example:
        >>> with extract({}):
        ...     pass
    """

    __slots__ = ("_blocks", "_carrier")

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._blocks: list[spans.Block | None] = []  # one object may be entered again

    def __enter__(self) -> Self:
        context = _context_of(self._carrier)
        block = None if context is None else spans.Block(context)
        if block is not None:
            caller: Any = spans.join_run()
            if caller is not None:
                block.leave()
                block = spans.Block(caller.context)
        self._blocks.append(block)
        return self

    def __exit__(self, *_: object) -> None:
        block = self._blocks.pop()
        if block is not None:
            block.leave()


@guarded
def _context_of(carrier: object) -> otel_context.Context | None:
    """Return the OTel context that a carrier brings; None where it is none."""
    headers = _headers(carrier)
    if headers is None:
        kind = type(carrier).__name__
        warn_once("extract", "extract() needs headers, got a %s; no run is taken up", kind)
        return None
    return _with_tracestate(propagate.extract(headers), headers)


def _with_tracestate(
    context: otel_context.Context, headers: Mapping[str, Any]
) -> otel_context.Context:
    """Give back the tracestate where a propagator that knows none, as B3, read the same span."""
    own = trace.get_current_span(context).get_span_context()
    if own.trace_state or _TRACESTATE not in headers:
        return context
    read = TraceContextTextMapPropagator().extract(headers, otel_context.Context())
    told = trace.get_current_span(read).get_span_context()
    if (told.trace_id, told.span_id) != (own.trace_id, own.span_id):
        return context
    return trace.set_span_in_context(NonRecordingSpan(told), context)


def _headers(carrier: Any) -> dict[str, Any] | None:
    """Return headers by their names, and by these in lower case; None where there are none.

    Servers hand them on as they came, and propagators ask for one spelling.

    Example:
        >>> _headers([(b"TraceParent", b"00-1-2-01")])
        {'traceparent': '00-1-2-01', 'TraceParent': '00-1-2-01'}
        >>> _headers({"HTTP_TRACESTATE": "orchtrace=1", "wsgi.errors": 3})
        {'tracestate': 'orchtrace=1', 'HTTP_TRACESTATE': 'orchtrace=1'}
    """
    items: object = carrier.items() if hasattr(carrier, "items") else carrier
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        return None
    found: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for item in cast("Iterable[object]", items):
        if not isinstance(item, (tuple, list)) or len(cast("Sequence[object]", item)) != _PAIR:
            return None
        name, value = map(_text, cast("Sequence[object]", item))
        if isinstance(name, str) and value is not None:
            plain = name.lower()
            if plain.startswith("http_"):  # of WSGI
                plain = plain.removeprefix("http_").replace("_", "-")
            found.setdefault(plain, value)
            named[name] = value
    return {**found, **named}


_PAIR: Final = 2


def _text(given: object) -> str | list[str] | None:
    """Return a text, or several, of a header; None where it is something else."""
    if isinstance(given, bytes):
        return given.decode("latin-1")
    if isinstance(given, str):
        return given
    if isinstance(given, (list, tuple)):
        texts = [one for one in cast("Sequence[object]", given) if isinstance(one, str)]
        return texts or None
    return None
