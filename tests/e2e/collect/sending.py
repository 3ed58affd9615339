"""Requests of OTLP, how they are sent, and what a refusal says."""

from pathlib import Path
from typing import Any

import httpx
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from orchtrace_otel.testing import capture
from tests.collecting import PROTOBUF, Collecting, encoded, research, stored

JSON = {"content-type": "application/json"}
GZIP = {**PROTOBUF, "content-encoding": "gzip"}
TLS = Path(__file__).parents[1] / "tls"


def a_request(count: int = 3) -> Any:
    """A request with the spans of a run."""
    with capture(deterministic=False) as captured:
        research(count)
    return ExportTraceServiceRequest.FromString(encoded(captured.spans))


def spans_of(request: Any) -> Any:
    """The spans of a request of one scope."""
    return request.resource_spans[0].scope_spans[0].spans


def is_stored(collector: Collecting, trace_id: bytes, spans: int) -> bool:
    """Whether a run of that many spans is in the store."""
    found = stored(collector.store)
    runs = [found[run_id] for run_id in found if run_id.startswith(trace_id.hex())]
    ids = {event["id"].partition(".")[0] for run in runs for event in run["events"]}
    return len(ids) == spans


def as_json(request: Any) -> dict[str, Any]:
    """A request as OTLP has it in JSON: ids in hexadecimal digits."""
    document = MessageToDict(request)
    for span, original in zip(
        document["resourceSpans"][0]["scopeSpans"][0]["spans"], spans_of(request), strict=True
    ):
        span["traceId"], span["spanId"] = original.trace_id.hex(), original.span_id.hex()
        if original.parent_span_id:
            span["parentSpanId"] = original.parent_span_id.hex()
        for link, of in zip(span.get("links", ()), original.links, strict=True):
            link["traceId"], link["spanId"] = of.trace_id.hex(), of.span_id.hex()
    return document


def refused(answer: httpx.Response) -> tuple[int, int, str]:
    """The status, the code and the message of a refusal."""
    if answer.headers["content-type"] == "application/json":
        told = answer.json()
        return answer.status_code, told["code"], told["message"]
    assert answer.headers["content-type"] == "application/x-protobuf"
    status = Status.FromString(answer.content)
    return answer.status_code, status.code, status.message
