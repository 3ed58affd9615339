"""What tests of the LangGraph adapter share: a strict recorder, and ways to read a trace."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("langgraph")

import jsonschema
from opentelemetry import context as otel_context

import orchtrace_otel as orchtrace
from orchtrace_otel import Trace, schema
from orchtrace_otel.testing import Captured, capture

_PUBLISHED = Path(__file__).parents[4] / "shared" / "schema" / "trace_schema.json"


class Logged(logging.Handler):
    """Log records above INFO of OpenTelemetry, asyncio, LangGraph, LangChain and of ours."""

    names = ("opentelemetry", "asyncio", "langgraph", "langchain", "orchtrace")

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(self.names):
            self.records.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that are interrupted at almost any place, as on a busy machine now and then."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture(scope="session")
def referee() -> Callable[[Trace], None]:
    """Fails on a trace that the published schema, or ours, does not accept."""
    published = json.loads(_PUBLISHED.read_text()) if _PUBLISHED.exists() else None

    def check(trace: Trace) -> None:
        document = trace.to_dict()
        assert schema.check(document) == []
        if published is not None:
            jsonschema.validate(document, published)

    return check


@pytest.fixture
def traced(referee: Callable[[Trace], None]) -> Iterator[Captured]:
    """Everything recorded; afterwards all spans must have ended, once, and all is valid."""
    logged = Logged()
    logging.getLogger().addHandler(logged)
    before = otel_context.get_current()
    try:
        with capture() as captured, orchtrace.instrument("langgraph"):
            yield captured
    finally:
        logging.getLogger().removeHandler(logged)
    assert captured.open == {}
    assert captured.ended_twice == []
    assert captured.started == captured.ended
    assert logged.records == []
    assert otel_context.get_current() == before
    for trace in captured.traces:
        referee(trace)


@pytest.fixture
def read() -> SimpleNamespace:
    """Ways to write a trace down."""
    return SimpleNamespace(
        outline=outline,
        triggers=triggers,
        triggers_by_span=triggers_by_span,
        informants=informants,
        stop=stop,
    )


def outline(trace: Trace) -> list[str]:
    """Each event as `number instance verb to <- edge type and number of each cause`.

    Who wrote what was read is left to `informants`.
    """
    number = {event.id: n for n, event in enumerate(trace.events)}
    causes: dict[str, list[tuple[str, int]]] = {}
    for edge in trace.edges:
        if edge.type != "message" and edge.src != edge.dst.removesuffix(".close") + ".open":
            causes.setdefault(edge.dst, []).append((edge.type, number[edge.src]))
    lines: list[str] = []
    for event in trace.events:
        to = event.get("tool") or event.get("chosen") or event.get("stop_reason") or ""
        to = "+".join(to) if isinstance(to, list) else to
        line = f"{number[event.id]} {event.get('instance')} {event.verb} {to}".rstrip()
        if event.get("status", "ok") != "ok":
            line += f" ({event['status']})"
        if causes.get(event.id):
            line += " <- " + ", ".join(f"{kind} {n}" for kind, n in sorted(causes[event.id]))
        lines.append(line)
    return lines


def _sources(trace: Trace) -> dict[str, set[str]]:
    """Id of each activation's span to those of the activations that triggered it.

    Read off the edges alone, back through what the orchestrator decided and merged.
    """
    events = {event.id: event for event in trace.events}
    into: dict[str, list[str]] = {}
    for edge in trace.edges:
        if edge.type not in {"message", "temporal", "return"}:
            into.setdefault(edge.dst, []).append(edge.src)
    found: dict[str, set[str]] = {}
    for event in trace.events[1:]:
        if not event.id.endswith(".open") or event.verb == "tool_call":
            continue
        sources: set[str] = set()
        left = list(into.get(event.id, ()))
        while left:
            cause = events[left.pop()]
            if cause.verb in {"decide", "aggregate", "human_intervention"}:
                left += into.get(cause.id, ())
            else:
                sources.add(cause["activation"])
        found[event["activation"]] = sources
    return found


def triggers_by_span(trace: Trace) -> dict[str, frozenset[str]]:
    """Span id of each activation to the span ids of what triggered it; none for the root."""
    root = trace.events[0]["activation"]
    return {span: frozenset(found - {root}) for span, found in _sources(trace).items()}


def triggers(trace: Trace) -> dict[str, list[set[str]]]:
    """Each agent's activations, in order, as the instances that triggered them."""
    name = {event["activation"]: event["instance"] for event in trace.events}
    order: dict[str, list[set[str]]] = {}
    for span, found in _sources(trace).items():
        order.setdefault(name[span], []).append({name[source] for source in found})
    return order


def informants(trace: Trace) -> dict[str, list[list[str]]]:
    """Each agent's activations, in order, as the instances whose writes they read as news."""
    name = {event.id: event["instance"] for event in trace.events}
    into: dict[str, set[str]] = {}
    for edge in trace.edges:
        if edge.type == "message":
            into.setdefault(edge.dst, set()).add(name[edge.src])
    found: dict[str, list[list[str]]] = {}
    for event in trace.events[1:]:
        if event.id.endswith(".open") and event.verb != "tool_call":
            found.setdefault(event["instance"], []).append(sorted(into.get(event.id, ())))
    return found


def stop(trace: Trace) -> tuple[str, str, str | None]:
    """Reason, status and detail of a stop."""
    event = trace.stop
    assert event is not None
    return event["stop_reason"], event["status"], event.get("stop_detail")
