"""OTLP as the protocol has it, both ways in; of a batch with a bad span the rest is kept."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHttp
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub
from opentelemetry.sdk.trace.export import SpanExportResult

from orchtrace_otel import attributes as a
from orchtrace_otel.model import Trace
from orchtrace_otel.testing import capture
from tests.collecting import (
    PROTOBUF,
    Collecting,
    as_stored,
    collecting,
    encoded,
    eventually,
    recorded,
    research,
    stored,
)
from tests.e2e.collect.sending import GZIP, a_request, as_json, is_stored, spans_of

OK = SpanExportResult.SUCCESS


def test_the_official_exporters_are_understood(tmp_path: Path) -> None:
    """HTTP and gRPC, plain and compressed: each run is stored as it was built inline."""
    traces: list[Trace] = []
    with collecting(tmp_path, "--grace", "0.1") as collector:
        endpoint, address = f"{collector.url}/v1/traces", f"http://127.0.0.1:{collector.grpc_port}"
        exporters = [
            OverHttp(endpoint),
            OverHttp(endpoint, compression=Compression.Gzip),
            OverHttp(endpoint, compression=Compression.Deflate),
            OverGrpc(address, insecure=True),
            OverGrpc(address, insecure=True, compression=grpc.Compression.Gzip),
        ]
        for exporter in exporters:
            runs, spans = recorded(2, random.Random(3))  # noqa: S311
            assert exporter.export(spans) is OK
            exporter.shutdown()
            traces += runs
        eventually(lambda: len(stored(tmp_path)) == len(traces))
    assert stored(tmp_path) == as_stored(traces)


def test_json_is_understood_as_protobuf_is(tmp_path: Path) -> None:
    """Ids in hexadecimal digits, 64 bits as texts, unknown fields passed over."""
    with capture(deterministic=False) as captured:
        research(3)
    document = as_json(ExportTraceServiceRequest.FromString(encoded(captured.spans)))
    document["fromTheFuture"] = {"anything": [1]}
    with collecting(tmp_path, "--grace", "0.1") as collector:
        answer = httpx.post(f"{collector.url}/v1/traces", json=document)
        assert (answer.status_code, answer.json()) == (200, {})
        eventually(lambda: stored(tmp_path))
    assert stored(tmp_path) == as_stored(captured.traces)


def test_several_members_of_gzip_are_one_body(collector: Collecting) -> None:
    """As `gzip` itself takes them."""
    body = a_request().SerializeToString()
    joined = gzip.compress(body[:100]) + gzip.compress(body[100:])
    answer = httpx.post(f"{collector.url}/v1/traces", content=joined, headers=GZIP)
    assert (answer.status_code, answer.content) == (200, b"")


def test_an_empty_request_is_fine(collector: Collecting) -> None:
    """The protocol asks for success."""
    for kind in ("traces", "logs"):
        answer = httpx.post(f"{collector.url}/v1/{kind}", content=b"", headers=PROTOBUF)
        assert (answer.status_code, answer.content) == (200, b"")


def _no_trace_id(span: Any) -> None:
    span.trace_id = b""


def _zero_trace_id(span: Any) -> None:
    span.trace_id = bytes(16)


def _short_span_id(span: Any) -> None:
    span.span_id = b"1234567"


def _long_parent(span: Any) -> None:
    span.parent_span_id = b"123456789"


def _ten_thousand_links(span: Any) -> None:
    for number in range(10_000):
        span.links.add(trace_id=span.trace_id, span_id=(number + 1).to_bytes(8, "big"))


def _a_huge_attribute(span: Any) -> None:
    span.attributes.add(key="essay").value.string_value = "x" * 2**20


def _five_thousand_attributes(span: Any) -> None:
    for number in range(5_000):
        span.attributes.add(key=f"k{number}").value.int_value = number


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_no_trace_id, "a trace id must be 16 bytes and not all 0, came 0"),
        (_zero_trace_id, "a trace id must be 16 bytes and not all 0, came 16"),
        (_short_span_id, "a span id must be 8 bytes and not all 0, came 7"),
        (_long_parent, "a parent's span id must be 8 bytes or none, came 9"),
        (_ten_thousand_links, "a span must have at most 5000 links, came 10001"),
        (_a_huge_attribute, "a span must have at most 1048576 bytes"),
        (_five_thousand_attributes, "a span must have at most 2000 attributes"),
    ],
)
def test_a_span_that_cannot_be_taken_is_rejected_and_the_rest_is_kept(
    spoil: Any, said: str, collector: Collecting
) -> None:
    """Over HTTP and gRPC the answer counts it and says why; the run is stored without it."""
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        for is_grpc in (False, True):
            request = a_request()
            spans = spans_of(request)
            trace_id, count = spans[0].trace_id, len(spans)
            spoil(spans[0])
            before = collector.metric("spans_total", "rejected")
            if is_grpc:
                answer = TraceServiceStub(channel).Export(request)
            else:
                body = request.SerializeToString()
                got = httpx.post(f"{collector.url}/v1/traces", content=body, headers=PROTOBUF)
                assert got.status_code == 200
                assert got.headers["content-type"] == "application/x-protobuf"
                answer = ExportTraceServiceResponse.FromString(got.content)
            assert answer.partial_success.rejected_spans == 1
            assert said in answer.partial_success.error_message
            assert collector.metric("spans_total", "rejected") == before + 1
            eventually(lambda of=trace_id, n=count: is_stored(collector, of, n - 1))


def test_a_span_in_json_that_is_none_is_rejected_and_the_rest_is_kept(
    collector: Collecting,
) -> None:
    """Ids in base64 are the usual mistake; the answer is JSON, its count a text."""
    request = a_request()
    document = as_json(request)
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["spanId"] = "APBnqgupArc="
    spans[1]["startTimeUnixNano"] = "soon"
    answer = httpx.post(f"{collector.url}/v1/traces", json=document)
    assert answer.status_code == 200
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "2"
    assert "ids are hexadecimal digits" in answer.json()["partialSuccess"]["errorMessage"]
    trace_id = spans_of(request)[0].trace_id
    eventually(lambda: is_stored(collector, trace_id, len(spans) - 2))


def test_log_records_that_are_no_rewards_are_rejected_and_said_so(collector: Collecting) -> None:
    """A collector of runs keeps no logs, and lets nobody believe that it does."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add(event_name="app.started")
    good = records.add(event_name=a.EVALUATION_EVENT, trace_id=b"t" * 16)
    good.attributes.add(key=a.EVALUATION_VALUE).value.double_value = 1.0
    good.attributes.add(key=a.EVALUATION_NAME).value.string_value = "style"
    endless = records.add(event_name=a.EVALUATION_EVENT, trace_id=b"t" * 16)
    endless.attributes.add(key=a.EVALUATION_VALUE).value.double_value = float("inf")
    body = request.SerializeToString()
    answer = httpx.post(f"{collector.url}/v1/logs", content=body, headers=PROTOBUF)
    assert answer.status_code == 200
    partial = ExportLogsServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_log_records == 2
    assert "must be an event gen_ai.evaluation.result" in partial.error_message
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        told = LogsServiceStub(channel).Export(request)
    assert told.partial_success.rejected_log_records == 2


def test_odd_spans_are_taken_and_flagged(collector: Collecting) -> None:
    """Cycles of parents and spans from the future delay no run and break none."""
    request = a_request(4)
    spans = spans_of(request)
    trace_id, count = spans[0].trace_id, len(spans)
    inner = [span for span in spans if span.parent_span_id][:2]
    inner[0].parent_span_id, inner[1].parent_span_id = inner[1].span_id, inner[0].span_id
    inner[1].start_time_unix_nano = inner[1].end_time_unix_nano = 2**64 - 1
    body = request.SerializeToString()
    answer = httpx.post(f"{collector.url}/v1/traces", content=body, headers=PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    eventually(lambda: is_stored(collector, trace_id, count))
    (run,) = [
        run for run_id, run in stored(collector.store).items() if run_id.startswith(trace_id.hex())
    ]
    assert {"cyclic_parents", "late_spans"} <= set(run["events"][-1]["flags"])


def test_health_and_readiness_are_told(collector: Collecting) -> None:
    """Alive while it runs, ready while requests are taken; numbers as Prometheus has them."""
    assert httpx.get(f"{collector.url}/healthz").text == "alive\n"
    assert httpx.get(f"{collector.url}/readyz").text == "ready\n"
    told = httpx.get(f"{collector.url}/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE orchtrace_collect_spans_total counter" in told.text
    assert "orchtrace_collect_ready 1" in told.text
