"""OTLP in JSON, as the same messages that protobuf gives.

OTLP's JSON is protobuf's but for ids, which are hexadecimal digits and not base64. A span
that is none is rejected alone; a body that is no request at all is refused.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from orchtrace_otel.collect.admission import RefusedError
from orchtrace_otel.collect.parts import Rejected
from orchtrace_otel.collect.undecoded import too_many
from orchtrace_otel.model import Json
from orchtrace_otel.otlp import parse_json

_IDS: Final = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
_WRONG: Final = (AttributeError, LookupError, ParseError, RecursionError, TypeError, ValueError)

_BRACKETS: Final = 20
"""How many objects and arrays there may be for each span that may be; each takes memory."""


def read_traces(body: bytes, rejected: Rejected, most: int = sys.maxsize) -> Any:
    """Read an `ExportTraceServiceRequest` in JSON of at most so many spans.

    Raises:
        RefusedError: If it is none.
    """
    names = ("resourceSpans", "scopeSpans", "spans")
    return _read(body, rejected, ExportTraceServiceRequest, names, most)


def read_logs(body: bytes, rejected: Rejected, most: int = sys.maxsize) -> Any:
    """Read an `ExportLogsServiceRequest` in JSON of at most so many log records.

    Raises:
        RefusedError: If it is none.
    """
    names = ("resourceLogs", "scopeLogs", "logRecords")
    return _read(body, rejected, ExportLogsServiceRequest, names, most)


def _read(
    body: bytes,
    rejected: Rejected,
    kind: Callable[[], Any],
    names: tuple[str, str, str],
    most: int,
) -> Any:
    outer, middle, inner = names
    left = most
    if body.count(b"{") + body.count(b"[") > _BRACKETS * most:
        raise too_many(most)
    request = kind()
    try:
        given: Json = parse_json(body)
        resources = _listed(given, outer)
        for resource in resources:
            scopes = [scope.pop(inner, None) or () for scope in _listed(resource, middle)]
            left -= 1 + sum(1 + len(items) for items in scopes)
            if left < 0:
                raise too_many(most)
            of_resource = _parse({outer: [resource]}, kind())
            request.MergeFrom(of_resource)
            made = getattr(request, _snake(outer))[-1]
            for place, items in enumerate(scopes):
                scope = getattr(made, _snake(middle))[place]
                _fill(getattr(scope, _snake(inner)), items, rejected)
    except _WRONG as error:
        msg = (
            f"a body must be an {kind().DESCRIPTOR.name} in JSON, came {len(body)} bytes "
            f"that are none ({type(error).__name__})"
        )
        raise RefusedError(msg, "invalid") from None
    return request


def _listed(of: Json, name: str) -> list[Json]:
    held = of.get(name, of.get(_snake(name)))
    if held is None:
        return []
    if not isinstance(held, list):
        msg = f"{name} must be an array"
        raise TypeError(msg)
    return cast("list[Json]", held)


def _fill(into: Any, items: Iterable[Any], rejected: Rejected) -> None:
    for item in items:
        added = into.add()
        try:
            _parse(_with_ids(item), added)
        except _WRONG as error:
            del into[-1]
            is_id = isinstance(error, binascii.Error)
            why = "ids are hexadecimal digits" if is_id else type(error).__name__
            rejected.add(f"a span or log record must be one in OTLP's JSON ({why})")


def _parse(given: Json, into: Any) -> Any:
    return ParseDict(given, into, ignore_unknown_fields=True)


def _with_ids(item: Json) -> Json:
    """Return a span or log record with its ids, and those of its links, in base64."""
    links = [_with_ids(link) for link in item.get("links") or ()]
    changed = {key: _base64(item[key]) for key in _IDS if item.get(key)}
    return {**item, **changed, "links": links} if links else {**item, **changed}


def _base64(digits: str) -> str:
    return base64.b64encode(binascii.unhexlify(digits)).decode()


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
