"""OTLP, protobuf or JSON, to the same traces as inline.

Reads `ExportTraceServiceRequest` documents: bytes of protobuf (needs the extra
`otlp`), JSON text, or lines of JSON as the OpenTelemetry file exporter writes them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import (
    SpanRecord,
    above,
    build,
    distinct,
    foreign_attributes,
    is_ours,
)
from orchtrace_otel.dialects import adopt, read
from orchtrace_otel.errors import MissingDependencyError, TraceFormatError
from orchtrace_otel.model import Json, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.spans import writable

Received: TypeAlias = tuple[str, SpanRecord]
"""A span and the OTel trace it belongs to, 32 hexadecimal digits."""

_HEX: Final = frozenset("0123456789abcdef")
_TRACE_ID: Final = 32
_SPAN_ID: Final = 16
_RUN_ID: Final = _TRACE_ID + 1 + _SPAN_ID
_MOST_NANOSECONDS: Final = 2**64 - 1
_MOST_INT64: Final = 2**63

_LENGTH: Final = 4
_ZSTD: Final = b"\x28\xb5\x2f\xfd"

_EXCEPTION: Final = "exception"
_EXCEPTION_TYPE: Final = "exception.type"

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
        (hexadecimal(span.trace_id.hex(), _TRACE_ID), _from_protobuf(span))
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _from_protobuf(span: Any) -> SpanRecord:
    attributes = {item.key: _protobuf_value(item.value) for item in span.attributes}
    record = SpanRecord(
        hexadecimal(span.span_id.hex(), _SPAN_ID),
        span.parent_span_id.hex() or None,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        attributes,
        span.status.code == _ERROR,
        span.dropped_links_count,
        span.dropped_attributes_count,
    )
    if is_ours(attributes):
        record.root_id = root_of(span.trace_state)
    else:
        raised = [
            item.value.string_value
            for event in span.events
            if event.name == _EXCEPTION
            for item in event.attributes
            if item.key == _EXCEPTION_TYPE
        ]
        keep_foreign(record, span.name, raised)
    return record


_ROOT: Final = re.compile(
    rf"(?:^|,)[ \t]*{a.TRACESTATE_KEY}=((?!0{{16}})[0-9a-f]{{16}})[ \t]*(?:,|$)"
)


def root_of(tracestate: str) -> str | None:
    """Return the span id of the run's root that a W3C tracestate tells; None where it tells none.

    >>> root_of("ot=th:c,orchtrace=00f067aa0ba902b7")
    '00f067aa0ba902b7'
    """
    found = _ROOT.search(tracestate)
    return None if found is None else found[1]


def keep_foreign(record: SpanRecord, name: str, raised: Iterable[str] = ()) -> None:
    """Reduce the record of a span of others to what is used of it.

    Nothing that people or models wrote is among that.

    Args:
        record: The record, with all attributes that came.
        name: The span's name.
        raised: Types of the exceptions that it recorded.
    """
    record.foreign = read(name, record.attributes, raised)
    record.attributes = foreign_attributes(record.attributes)


def hexadecimal(text: str, digits: int) -> str:
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
    """Read one `ExportTraceServiceRequest` in JSON, in which null is as good as absent.

    Raises:
        TraceFormatError: If the text is none.
    """
    try:
        request = parse_json(text)
        return [
            (hexadecimal(str(span["traceId"]), _TRACE_ID), _from_json(span))
            for resource in request["resourceSpans"]
            for scope in resource.get("scopeSpans") or ()
            for span in scope.get("spans") or ()
        ]
    except TraceFormatError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        msg = (
            "OTLP JSON must be an ExportTraceServiceRequest with resourceSpans, got "
            f"{len(text)} characters that are none ({type(error).__name__})"
        )
        raise TraceFormatError(msg) from error


def parse_json(text: str | bytes) -> Any:
    r"""Read a document of JSON in which half a surrogate pair is a replacement character.

    JavaScript writes such halves where a text breaks off in an emoji; one must not cost a batch.

    Raises:
        ValueError: If it is no JSON.
        RecursionError: If it is nested too deeply.

    Example:
        >>> parse_json(r'["caf\u00e9", "\ud83d"]')
        ['café', '�']
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.loads(writable(json.dumps(json.loads(text), ensure_ascii=False)))


def read_lines(text: str | bytes) -> Iterator[Received]:
    """Read lines of JSON, each an `ExportTraceServiceRequest`; empty lines are left out."""
    for line in lines_of(text):
        if line.strip():
            yield from read_json(line)


def lines_of(text: str | bytes) -> Sequence[str | bytes]:
    r"""Return the lines of JSON in a text, which may hold any other separator of lines.

    Example:
        >>> lines_of('["\u2028"]\n[]')
        ['["\u2028"]', '[]']
    """
    return text.split(b"\n") if isinstance(text, bytes) else text.split("\n")


def read_messages(data: bytes) -> Iterator[Received]:
    """Read protobuf requests, each behind its length in 4 bytes, as the Collector writes files.

    That is its file exporter with `format: proto` and no compression.

    Raises:
        MissingDependencyError: If opentelemetry-proto is not installed.
        TraceFormatError: If the bytes are none.
    """
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + _LENGTH])
        message = data[at + _LENGTH : at + _LENGTH + size]
        if len(message) < size or at + _LENGTH > len(data):
            msg = (
                f"a file of OTLP messages must hold each behind its length, got {len(data)} "
                f"bytes that end inside the one at {at}"
            )
            raise TraceFormatError(msg)
        if message.startswith(_ZSTD):
            msg = (
                "a file of OTLP messages must not be compressed, got zstd; unpack it, or leave "
                "`compression` out of the Collector's file exporter"
            )
            raise TraceFormatError(msg)
        yield from read_protobuf(message)
        at += _LENGTH + size


def _from_json(span: Json) -> SpanRecord:
    status: Json = span.get("status") or {}
    attributes = _json_attributes(span)
    record = SpanRecord(
        hexadecimal(str(span["spanId"]), _SPAN_ID),
        str(span.get("parentSpanId") or "").lower() or None,
        nanoseconds(span.get("startTimeUnixNano") or 0),
        nanoseconds(span.get("endTimeUnixNano") or 0),
        attributes,
        status.get("code") in (_ERROR, "STATUS_CODE_ERROR"),
        int(span.get("droppedLinksCount") or 0),
        int(span.get("droppedAttributesCount") or 0),
    )
    if is_ours(attributes):
        record.root_id = root_of(str(span.get("traceState") or ""))
    else:
        raised = [
            str(_json_attributes(event).get(_EXCEPTION_TYPE, ""))
            for event in span.get("events") or ()
            if event.get("name") == _EXCEPTION
        ]
        keep_foreign(record, str(span.get("name") or ""), raised)
    return record


def _json_attributes(holder: Json) -> dict[str, Any]:
    return _json_pairs(holder.get("attributes"))


def _json_pairs(pairs: Iterable[Json] | None) -> dict[str, Any]:
    return {item["key"]: _json_value(item.get("value") or {}) for item in pairs or ()}


def nanoseconds(given: str | int) -> int:
    """Return a time in nanoseconds.

    Raises:
        TraceFormatError: If it is none that 64 bits hold.
    """
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
        if held is not None:
            read = _READ.get(kind)
            return held if read is None else read(held)
    return None


def _json_array(held: Json) -> tuple[Any, ...]:
    return tuple(_json_value(item) for item in held.get("values") or ())


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "intValue": _int64,
    "doubleValue": float,
    "bytesValue": base64.b64decode,
    "arrayValue": _json_array,
    "kvlistValue": lambda held: _json_pairs(held.get("values")),
}
"""How a value of each kind is read; others are what they hold."""


def traces(received: Iterable[Received]) -> list[Trace]:
    """Build and score a trace of each run that was received, by start.

    In an OTel trace that holds spans of ours, spans of others belong to the run of the
    nearest of ours above them, and those below none are left out. One that holds none is
    a run of its own, as far as others say what happened; what says nothing is none.
    """
    by_trace: dict[str, list[SpanRecord]] = {}
    for trace_id, record in received:
        by_trace.setdefault(trace_id, []).append(record)
    built = [
        score(trace, fresh=True)
        for trace_id, records in by_trace.items()
        for trace in (
            _built(trace_id, records)
            if any(is_ours(record.attributes) for record in records)
            else _adopted(trace_id, records)
        )
    ]
    return sorted(built, key=_began)


def _adopted(trace_id: str, records: list[SpanRecord]) -> list[Trace]:
    run = adopt(trace_id, records)
    return [] if run is None else [run.trace()]


def _built(trace_id: str, all_records: list[SpanRecord]) -> list[Trace]:
    """Build the runs of one OTel trace that holds spans of ours."""
    runs: dict[str, list[SpanRecord]] = {}
    flags: dict[str, set[str]] = {}
    untold: list[SpanRecord] = []
    records, differing = distinct(all_records)
    runs_of = _runs_of(trace_id, records)
    for record in records.values():
        run_id = runs_of[record.span_id]
        if run_id is not None:
            runs.setdefault(run_id, []).append(record)
            if record.span_id in differing:
                flags.setdefault(run_id, set()).add("duplicate_spans")
        elif is_ours(record.attributes):
            untold.append(record)
    if untold:
        _place(untold, runs, flags)
    return [build(run_id, held, flags.get(run_id, ())) for run_id, held in runs.items()]


def _runs_of(trace_id: str, records: Mapping[str, SpanRecord]) -> dict[str, str | None]:
    """Return, for each span, the run that the nearest span at or above it tells, if one does."""
    runs: dict[str, str | None] = {}
    for record in records.values():
        untold: list[str] = []
        at: SpanRecord | None = record
        while at is not None and at.span_id not in runs:
            run_id = runs[at.span_id] = _told(trace_id, at)
            if run_id is not None:
                break
            untold.append(at.span_id)
            around = above(at)
            at = None if around is None else records.get(around)
        run_id = None if at is None else runs[at.span_id]
        runs.update(dict.fromkeys(untold, run_id))
    return runs


def _told(trace_id: str, record: SpanRecord) -> str | None:
    """Return the run that a span tells itself.

    Its attribute goes first, unless a limit of the SDK cut it: where a root could not be
    given a tracestate of its own, it has that of what it is below, maybe another run's.
    """
    named = record.attributes.get(a.RUN_ID)
    run_id = named if isinstance(named, str) and named else None
    if record.root_id is not None and (run_id is None or len(run_id) < _RUN_ID):
        return f"{trace_id}-{record.root_id}"
    return run_id


def _place(
    untold: list[SpanRecord], runs: dict[str, list[SpanRecord]], flags: dict[str, set[str]]
) -> None:
    """Place spans of ours that came without a tracestate and without what is above them.

    They are of the one run that there is; of several it is not known which, so that
    each of them says that it may lack some.
    """
    if len(runs) == 1:
        for held in runs.values():
            held.extend(untold)
    for run_id in runs if len(runs) > 1 else ():
        flags.setdefault(run_id, set()).add("orphans")


def _began(trace: Trace) -> tuple[int, str]:
    return (int(trace.events[0].get("start_unix_nano", 0)), trace.trace_id)
