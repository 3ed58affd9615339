"""A request, checked span by span and cut by OTel trace, still encoded.

A span that cannot be taken is left out and said so; the rest of its batch is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from orchtrace_otel import attributes as a
from orchtrace_otel.collect.admission import Bounds, RefusedError
from orchtrace_otel.collect.undecoded import Undecoded
from orchtrace_otel.otlp import root_of

_TRACE_ID: Final = 16
_SPAN_ID: Final = 8
_NO_TRACE: Final = bytes(_TRACE_ID)
_NO_SPAN: Final = bytes(_SPAN_ID)

_RUN_ID_DIGITS: Final = 2 * _TRACE_ID + 1 + 2 * _SPAN_ID
_RUN_ID: Final = (
    bytes([0x0A, len(a.RUN_ID)])
    + a.RUN_ID.encode()
    + bytes([0x12, _RUN_ID_DIGITS + 2, 0x0A, _RUN_ID_DIGITS])
)
"""How the attribute of a root is encoded, up to its value: to find it costs no decoding."""

_MOST_TIMES: Final = 2
"""How much larger than the largest request its parts may be, which repeat what spans share."""


class Part:
    """Spans of one OTel trace in one request.

    Attributes:
        trace_id: 16 bytes.
        data: They, as an encoded `ExportTraceServiceRequest`.
        marks: A number for each, the same for equal spans.
        runs: Span ids of roots of runs that spans name in their tracestate; a root whose
            tracestate something on the way dropped names itself.
        roots: Those of roots that are here.
        has_top: Whether a span without a parent is here.
    """

    __slots__ = ("data", "has_top", "marks", "roots", "runs", "trace_id")

    def __init__(self, trace_id: bytes, data: bytes) -> None:
        self.trace_id = trace_id
        self.data = data
        self.marks: list[int] = []
        self.runs: set[str] = set()
        self.roots: set[str] = set()
        self.has_top = False


class Rejected:
    """What a request held that cannot be taken.

    Attributes:
        count: How many spans or log records.
        message: What was wrong with the first one.
    """

    __slots__ = ("count", "message")

    def __init__(self) -> None:
        self.count = 0
        self.message = ""

    def add(self, why: str, count: int = 1) -> None:
        """Count one more."""
        self.count += count
        self.message = self.message or why


def parsed(kind: Any, data: bytes) -> Any:
    """Read a message of a kind in protobuf.

    Raises:
        RefusedError: If it is none.
    """
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError:
        name = kind.DESCRIPTOR.name
        msg = f"a body must be whole and valid, came a {name} of {len(data)} bytes that are none"
        raise RefusedError(msg, "invalid") from None
    return message


def cut(body: bytes, bounds: Bounds, rejected: Rejected) -> list[Part]:
    """Cut a request by OTel trace.

    Args:
        body: An `ExportTraceServiceRequest` in protobuf.
        bounds: What it and a span may hold.
        rejected: Where to say what was left out.

    Raises:
        RefusedError: If it is none, or the parts, each with its resource and scope, are too
            much together.
    """
    found: dict[bytes, Part] = {}
    pieces: dict[bytes, list[bytes]] = {}
    room = _MOST_TIMES * bounds.request_bytes
    kind: Any = ExportTraceServiceRequest
    request = Undecoded(body, kind.DESCRIPTOR.name, bounds.request_items)
    resources, around = request.split(0, len(body), 1)
    parsed(kind, around)
    for of_resource in resources:
        scopes, around = request.split(*of_resource, 2)
        outer = head(ResourceSpans, around, bounds)
        for of_scope in scopes:
            given, around = request.split(*of_scope, 2)
            inner = head(ScopeSpans, around, bounds)
            spans: dict[bytes, list[bytes]] = {}
            for begin, end in given:
                _take(body[begin:end], spans, found, bounds, rejected)
            room -= (len(outer) + len(inner)) * len(spans) + sum(map(_size, spans.values()))
            if room < 0:
                msg = (
                    "a request must not name one resource for so many traces; send smaller batches"
                )
                raise RefusedError(msg, "too_large")
            for trace_id, encoded in spans.items():
                taken = field(2, inner + b"".join(encoded))
                pieces.setdefault(trace_id, []).append(field(1, outer + taken))
    for trace_id, part in found.items():
        part.data = b"".join(pieces[trace_id])
    return list(found.values())


def _size(encoded: list[bytes]) -> int:
    return sum(map(len, encoded))


def _take(
    data: bytes,
    spans: dict[bytes, list[bytes]],
    found: dict[bytes, Part],
    bounds: Bounds,
    rejected: Rejected,
) -> None:
    if len(data) > bounds.span_bytes:
        rejected.add(f"a span must have at most {bounds.span_bytes} bytes, came {len(data)}")
        return
    span = parsed(Span, data)
    encoded: bytes = span.SerializeToString()
    fault = _fault(span, encoded, bounds)
    if fault is not None:
        rejected.add(fault)
        return
    trace_id: bytes = span.trace_id
    part = found.get(trace_id)
    if part is None:
        part = found[trace_id] = Part(trace_id, b"")
    part.marks.append(hash(encoded))
    root = root_of(span.trace_state) or _root_named_in(encoded)
    if root is not None:
        part.runs.add(root)
        if root == span.span_id.hex():
            part.roots.add(root)
    if not span.parent_span_id:
        part.has_top = True
    held = spans.get(trace_id)
    if held is None:
        held = spans[trace_id] = []
    held.append(field(2, encoded))


def _root_named_in(encoded: bytes) -> str | None:
    at = encoded.find(_RUN_ID)
    if at < 0:
        return None
    end = at + len(_RUN_ID) + _RUN_ID_DIGITS
    return encoded[end - 2 * _SPAN_ID : end].decode("ascii", "replace")


def _fault(span: Any, encoded: bytes, bounds: Bounds) -> str | None:
    trace_id: bytes = span.trace_id
    span_id: bytes = span.span_id
    if len(trace_id) != _TRACE_ID or trace_id == _NO_TRACE:
        return f"a trace id must be 16 bytes and not all 0, came {len(trace_id)}"
    if len(span_id) != _SPAN_ID or span_id == _NO_SPAN:
        return f"a span id must be 8 bytes and not all 0, came {len(span_id)}"
    if len(span.parent_span_id) not in {0, _SPAN_ID}:
        return f"a parent's span id must be 8 bytes or none, came {len(span.parent_span_id)}"
    # Counting costs little, but most spans are too small to hold too much.
    if len(encoded) > bounds.span_links:
        return _oversize(span, bounds)
    return None


def _oversize(span: Any, bounds: Bounds) -> str | None:
    if len(span.links) > bounds.span_links:
        return f"a span must have at most {bounds.span_links} links, came {len(span.links)}"
    if len(span.attributes) > bounds.span_attributes:
        most = bounds.span_attributes
        return f"a span must have at most {most} attributes, came {len(span.attributes)}"
    return None


def head(kind: Any, around: bytes, bounds: Bounds) -> bytes:
    """Check what stands around spans or log records: the resource or scope, and its schema.

    Raises:
        RefusedError: If it is too large, or none.
    """
    if len(around) > bounds.span_bytes:
        msg = f"a resource or scope must have at most {bounds.span_bytes} bytes, came {len(around)}"
        raise RefusedError(msg, "too_large")
    encoded: bytes = parsed(kind, around).SerializeToString() if around else b""
    return encoded


def field(number: int, payload: bytes) -> bytes:
    """Encode a field of length-delimited kind."""
    size = len(payload)
    head = bytearray((number << 3 | 2,))
    while size > 0x7F:  # noqa: PLR2004 - seven bits a byte, as protobuf has it
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + payload


def span_count(parts: list[Part]) -> int:
    """Count the spans of some parts."""
    return sum(len(part.marks) for part in parts)


def parts_of(body: bytes) -> Iterator[Part]:
    """Cut what was checked and kept before, such as a record of the spool.

    It was acknowledged, so no bound applies, were they set lower since.
    """
    yield from cut(body, UNBOUNDED, Rejected())


UNBOUNDED: Final = Bounds(
    request_bytes=sys.maxsize,
    request_items=sys.maxsize,
    span_bytes=sys.maxsize,
    span_attributes=sys.maxsize,
    span_links=sys.maxsize,
)
