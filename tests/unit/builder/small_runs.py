"""Spans with small numbers, and the runs that are built of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchtrace_otel import attributes as a
from orchtrace_otel import schema
from orchtrace_otel.builder import SpanRecord, build
from orchtrace_otel.model import Json, Trace
from orchtrace_otel.rewards import score

TRACE = "0" * 31 + "1"
SECOND = 1_000_000_000


def span_id(number: int) -> str:
    """A span id that is a number."""
    return f"{number:016x}"


RUN = f"{TRACE}-{span_id(1)}"


def span(
    number: int, parent: int | None, start: int, end: int, found: Mapping[str, Any], **facts: Any
) -> SpanRecord:
    """A span with small numbers: ids, and seconds since the epoch."""
    return SpanRecord(
        span_id(number),
        None if parent is None else span_id(parent),
        start * SECOND,
        end * SECOND,
        found,
        **facts,
    )


def root(
    number: int = 1, *, parent: int | None = None, start: int = 10, end: int = 20, **more: Any
) -> SpanRecord:
    """The root of a run by a lead."""
    found = {
        a.OPERATION: a.INVOKE_WORKFLOW,
        a.RUN_ID: RUN,
        a.OPENS: "begin",
        a.AGENT_NAME: "lead",
        a.INSTANCE: "lead#1",
    }
    return span(number, parent, start, end, found | more)


def activation(
    number: int,
    parent: int | None = 1,
    start: int = 11,
    end: int = 15,
    opens: str = "spawn",
    **more: Any,
) -> SpanRecord:
    """A stretch of work by a critic."""
    found = {
        a.OPERATION: a.INVOKE_AGENT,
        a.OPENS: opens,
        a.AGENT_NAME: "critic",
        a.INSTANCE: "critic#1",
    }
    return span(number, parent, start, end, found | more)


def point(number: int, verb: str, parent: int | None = 1, at: int = 12, **more: Any) -> SpanRecord:
    """An instant of a lead."""
    return span(number, parent, at, at, {a.VERB: verb, a.AGENT_NAME: "lead"} | more)


def stop(number: int = 99, at: int = 20, **more: Any) -> SpanRecord:
    """The stop of the run."""
    return point(number, "stop", at=at, **{a.STOP_REASON: "information_complete", **more})


def chat(number: int, parent: int | None = 1, start: int = 12, **more: Any) -> SpanRecord:
    """A call of a model that another instrumentation recorded."""
    return span(number, parent, start, start + 1, {a.OPERATION: "chat", **more})


def usage(read: Any, written: Any) -> dict[str, Any]:
    """What a call of a model used."""
    return {a.INPUT_TOKENS: read, a.OUTPUT_TOKENS: written}


def built(*records: SpanRecord) -> Trace:
    """Build the run, in two orders of arrival, and check that the schema accepts it."""
    one = score(build(RUN, records))
    assert score(build(RUN, reversed(records))).to_json() == one.to_json()
    faults = [fault for fault in schema.check(one.to_dict()) if fault.rule != "orchtrace"]
    assert faults == []
    return one


def sound(*records: SpanRecord) -> Trace:
    """Build the run and check that nothing is wrong with the trace."""
    one = built(*records)
    assert list(schema.check(one.to_dict())) == []
    return one


def keys(one: Trace, event_id: str) -> Json:
    """An event of a trace by its id, with all its keys, those of scoring aside."""
    found = next(event.to_dict() for event in one.events if event.id == event_id)
    return {key: value for key, value in found.items() if key not in {"rewards", "credit"}}
