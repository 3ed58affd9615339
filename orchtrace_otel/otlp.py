"""OTLP, protobuf or JSON, to the same traces as inline.

Reads `ExportTraceServiceRequest` documents: bytes of protobuf (needs the extra
`otlp`), JSON text, or lines of JSON as the OpenTelemetry file exporter writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import orjson

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import SpanRecord, build, distinct, foreign_attributes
from orchtrace_otel.errors import MissingDependencyError, TraceFormatError
from orchtrace_otel.model import Json, Trace
from orchtrace_otel.rewards import score

Received: TypeAlias = tuple[str, SpanRecord]
"""A span and the OTel trace it belongs to, 32 hexadecimal digits."""

_HEX: Final = frozenset("0123456789abcdef")
_TRACE_ID: Final = 32
_SPAN_ID: Final = 16
_MOST_NANOSECONDS: Final = 2**64 - 1
_MOST_INT64: Final = 2**63

_ERROR: Final = 2
"""Value of `STATUS_CODE_ERROR` in OTLP."""


def read_protobuf(data: bytes) -> list[Received]:
    """Read one `ExportTraceServiceRequest` in protobuf.

    Raises:
        MissingDependencyError: If opentelemetry-proto is not installed.
        TraceFormatError: If the bytes are none.
    """
    try:
        from google.protobuf.message import DecodeError  # noqa: PLC0415 - the extra `otlp`
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
            ExportTraceServiceRequest,
        )
    except ImportError as error:
        msg = (
            "reading OTLP protobuf needs opentelemetry-proto; "
            "run: pip install 'orchtrace-otel[otlp]'"
        )
        raise MissingDependencyError(msg) from error
    request: Any = ExportTraceServiceRequest()
    try:
        request.ParseFromString(data)
    except DecodeError as error:
        msg = (
            "OTLP protobuf must be an ExportTraceServiceRequest, "
            f"got {len(data)} bytes that are none"
        )
        raise TraceFormatError(msg) from error
    return [
        (_hex(span.trace_id.hex(), _TRACE_ID), _from_protobuf(span))
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _from_protobuf(span: Any) -> SpanRecord:
    return SpanRecord(
        _hex(span.span_id.hex(), _SPAN_ID),
        span.parent_span_id.hex() or None,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _kept({item.key: _protobuf_value(item.value) for item in span.attributes}),
        span.status.code == _ERROR,
        span.dropped_links_count,
        span.dropped_attributes_count,
    )


def _hex(text: str, digits: int) -> str:
    """Return an id in lower case.

    Raises:
        TraceFormatError: If it is no id of that many hexadecimal digits.
    """
    text = text.lower()
    if len(text) == digits and set(text) <= _HEX:
        return text
    msg = f"an id in OTLP must have {digits} hexadecimal digits, got {text[:40]!r}"
    raise TraceFormatError(msg)


def _protobuf_value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_protobuf_value(item) for item in value.array_value.values)
    if kind == "kvlist_value":
        return {item.key: _protobuf_value(item.value) for item in value.kvlist_value.values}
    return None if kind is None else getattr(value, kind)


def read_json(text: str | bytes) -> list[Received]:
    """Read one `ExportTraceServiceRequest` in JSON.

    Raises:
        TraceFormatError: If the text is none.
    """
    try:
        request = orjson.loads(text)
        return [
            (_hex(str(span["traceId"]), _TRACE_ID), _from_json(span))
            for resource in request["resourceSpans"]
            for scope in resource.get("scopeSpans", ())
            for span in scope.get("spans", ())
        ]
    except TraceFormatError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        msg = (
            "OTLP JSON must be an ExportTraceServiceRequest with resourceSpans, got "
            f"{len(text)} characters that are none ({type(error).__name__})"
        )
        raise TraceFormatError(msg) from error


def read_lines(text: str | bytes) -> Iterator[Received]:
    """Read lines of JSON, each an `ExportTraceServiceRequest`; empty lines are left out."""
    for line in text.splitlines():
        if line.strip():
            yield from read_json(line)


def _from_json(span: Json) -> SpanRecord:
    status = span.get("status", {}).get("code", 0)
    return SpanRecord(
        _hex(str(span["spanId"]), _SPAN_ID),
        str(span.get("parentSpanId") or "").lower() or None,
        _nanoseconds(span.get("startTimeUnixNano", 0)),
        _nanoseconds(span.get("endTimeUnixNano", 0)),
        _kept({item["key"]: _json_value(item["value"]) for item in span.get("attributes", ())}),
        status in (_ERROR, "STATUS_CODE_ERROR"),
        int(span.get("droppedLinksCount", 0)),
        int(span.get("droppedAttributesCount", 0)),
    )


def _nanoseconds(given: str | int) -> int:
    found = int(given)
    if 0 <= found <= _MOST_NANOSECONDS:
        return found
    msg = f"a time in OTLP must be nanoseconds in 64 bits, got {found:.3g}"
    raise TraceFormatError(msg)


def _int64(given: str | int) -> int:
    found = int(given)
    if -_MOST_INT64 <= found < _MOST_INT64:
        return found
    msg = f"an integer in OTLP must fit in 64 bits, got {found:.3g}"
    raise TraceFormatError(msg)


def _json_value(value: Mapping[str, Any]) -> Any:
    for kind, held in value.items():
        match kind:
            case "intValue":
                return _int64(held)
            case "arrayValue":
                return tuple(_json_value(item) for item in held.get("values", ()))
            case "kvlistValue":
                return {item["key"]: _json_value(item["value"]) for item in held.get("values", ())}
            case "doubleValue":
                return float(held)
            case _:
                return held
    return None


def _kept(attributes: dict[str, Any]) -> dict[str, Any]:
    is_ours = a.RUN_ID in attributes or a.VERB in attributes
    return attributes if is_ours else foreign_attributes(attributes)


def traces(received: Iterable[Received]) -> list[Trace]:
    """Build and score a trace of each run that was received, by start.

    Spans of others belong to the run of the nearest span of ours above them; those
    below none are left out.
    """
    by_trace: dict[str, list[SpanRecord]] = {}
    for trace_id, record in received:
        by_trace.setdefault(trace_id, []).append(record)
    runs: dict[str, list[SpanRecord]] = {}
    flags: dict[str, set[str]] = {}
    for all_records in by_trace.values():
        records, differing = distinct(all_records)
        for record in records.values():
            run_id = _run_of(record, records)
            if run_id is not None:
                runs.setdefault(run_id, []).append(record)
                if record.span_id in differing:
                    flags.setdefault(run_id, set()).add("duplicate_spans")
    built = [
        score(build(run_id, records, flags.get(run_id, ()))) for run_id, records in runs.items()
    ]
    return sorted(built, key=_began)


def _run_of(record: SpanRecord, records: Mapping[str, SpanRecord]) -> str | None:
    at: SpanRecord | None = record
    for _ in range(len(records)):
        if at is None:
            return None
        run_id = at.attributes.get(a.RUN_ID)
        if isinstance(run_id, str) and run_id:
            return run_id
        at = records.get(at.parent_id) if at.parent_id is not None else None
    return None


def _began(trace: Trace) -> tuple[int, str]:
    return (int(trace.events[0].get("start_unix_nano", 0)), trace.trace_id)
