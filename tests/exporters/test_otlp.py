"""OTLP over real sockets: what is sent arrives, and a collector that is down costs little."""

from __future__ import annotations

import http.server
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

grpc = pytest.importorskip("grpc")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: E402
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (  # noqa: E402
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import (  # noqa: E402
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.trace import Link  # noqa: E402

from orchtrace_otel.errors import ConfigError, MissingDependencyError  # noqa: E402
from orchtrace_otlp import open_grpc, open_http  # noqa: E402


class HttpCollector(http.server.ThreadingHTTPServer):
    """Takes OTLP over HTTP and answers with one status."""

    daemon_threads = True

    def __init__(self, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[tuple[str, dict[str, str], ExportTraceServiceRequest]] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    server: HttpCollector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = ExportTraceServiceRequest.FromString(body)
        self.server.requests.append((self.path, headers, request))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Keep the tests' output clean."""


@contextmanager
def http_collector(status: int = 200) -> Iterator[HttpCollector]:
    """Run a collector over HTTP on a free port."""
    with HttpCollector(status) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class GrpcCollector(TraceServiceServicer):
    """Takes OTLP over gRPC."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, Any], ExportTraceServiceRequest]] = []
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        add_TraceServiceServicer_to_server(self, self.server)
        self.url = f"http://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"

    def Export(self, request: ExportTraceServiceRequest, context: Any) -> Any:  # noqa: N802 - grpc's
        self.requests.append((dict(context.invocation_metadata()), request))
        return ExportTraceServiceResponse()


@contextmanager
def grpc_collector() -> Iterator[GrpcCollector]:
    """Run a collector over gRPC on a free port."""
    collector = GrpcCollector()
    collector.server.start()
    try:
        yield collector
    finally:
        collector.server.stop(None).wait()


@contextmanager
def provider_of(exporter: SpanExporter) -> Iterator[TracerProvider]:
    """Give spans to `exporter` one by one, as they end."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    try:
        yield provider
    finally:
        provider.shutdown()


def make_spans(exporter: SpanExporter) -> None:
    """Make a cause and an effect that is linked to it."""
    with provider_of(exporter) as provider:
        tracer = provider.get_tracer("test")
        cause = tracer.start_span("cause", attributes={"orchtrace.verb": "decide"})
        cause.end()
        link = Link(cause.get_span_context(), {"orchtrace.edge.type": "causal"})
        effect = tracer.start_span(
            "effect", links=[link], attributes={"orchtrace.edges": ["a", "b"]}
        )
        effect.end()


def told(requests: list[ExportTraceServiceRequest]) -> list[tuple[Any, ...]]:
    """Say of each span that arrived its name, its attributes, and the edges of its links."""
    spans = [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    ids = {span.span_id: span.name for span in spans}
    return [
        (
            span.name,
            {
                a.key: a.value.string_value or len(a.value.array_value.values)
                for a in span.attributes
            },
            [(ids[link.span_id], link.attributes[0].value.string_value) for link in span.links],
        )
        for span in spans
    ]


ARRIVED = [
    ("cause", {"orchtrace.verb": "decide"}, []),
    ("effect", {"orchtrace.edges": 2}, [("cause", "causal")]),
]


@pytest.mark.parametrize(
    ("path", "arrives_at"),
    [("", "/v1/traces"), ("/", "/v1/traces"), ("/v1/traces", "/v1/traces"), ("/in", "/in")],
)
def test_spans_arrive_over_http(path: str, arrives_at: str) -> None:
    """Links and attributes arrive, at the path that the target or the protocol says."""
    with http_collector() as collector:
        make_spans(open_http(collector.url + path))

    assert {request[0] for request in collector.requests} == {arrives_at}
    assert told([request[2] for request in collector.requests]) == ARRIVED


def test_spans_arrive_over_grpc() -> None:
    """Links and attributes arrive."""
    with grpc_collector() as collector:
        make_spans(open_grpc(collector.url))

    assert told([request[1] for request in collector.requests]) == ARRIVED


def test_the_environment_decides_where_no_target_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoint and headers come from the variables of OpenTelemetry, for both protocols."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=red")
    with http_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        make_spans(open_http())
    assert {(path, headers["x-team"]) for path, headers, _ in collector.requests} == {
        ("/v1/traces", "red")
    }

    with grpc_collector() as other:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", other.url)
        make_spans(open_grpc())
    assert {metadata["x-team"] for metadata, _ in other.requests} == {"red"}


def test_the_exporters_are_the_official_ones() -> None:
    """Whoever looks for an OTLP exporter by its class finds ours."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
        OTLPSpanExporter as Grpc,
    )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
        OTLPSpanExporter as Http,
    )

    exporters = [open_http("http://localhost:4318"), open_grpc("http://localhost:4317")]
    assert [isinstance(e, kind) for e, kind in zip(exporters, (Http, Grpc), strict=True)] == [
        True
    ] * 2
    for exporter in exporters:
        exporter.shutdown()


@pytest.mark.parametrize(
    "target", ["localhost:4318", "ftp://x", "http://", "http://h:99999", "http://[", "4318"]
)
def test_a_wrong_target_is_refused(target: str) -> None:
    """What is no URL of a collector is an error that says what to write."""
    with pytest.raises(ConfigError, match="otlp: takes an http:// or https:// URL, got"):
        open_http(target)
    with pytest.raises(ConfigError, match="otlp-grpc:http://localhost:4317"):
        open_grpc(target)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the error holds the line that installs it."""
    for protocol in ("http", "grpc"):
        name = f"opentelemetry.exporter.otlp.proto.{protocol}.trace_exporter"
        monkeypatch.setitem(sys.modules, name, None)
    for factory in (open_http, open_grpc):
        with pytest.raises(MissingDependencyError, match=r"pip install 'orchtrace-otel\[otlp\]'"):
            factory()


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings that were logged, with the port left out."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_collector_that_is_down_costs_one_warning(
    protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning at the first loss, and the number of lost spans at shutdown; no more."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    opener = {"http": open_http, "grpc": open_grpc}[protocol]
    exporter = opener("http://me:secret@127.0.0.1:9")
    make_spans(exporter)

    first, last = messages(caplog)
    assert first.startswith("the OTLP collector at ")
    assert "secret" not in first
    assert last == "2 spans did not reach the OTLP collector"


def test_a_collector_that_refuses_costs_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A 503 is tried again for as long as the timeout says, and then given up for a while."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with http_collector(503) as collector:
        make_spans(open_http(collector.url))

    assert len(messages(caplog)) == 2
    assert told([request[2] for request in collector.requests])[0] == ARRIVED[0]
    assert all(span[0] == "cause" for span in told([r[2] for r in collector.requests]))


@pytest.mark.parametrize(("status", "why"), [(401, "status 401"), (302, "status 302, a redirect")])
def test_a_collector_that_is_another_place_or_wants_another_key_is_told_as_such(
    status: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The official exporters take a redirect for success, and nothing arrives."""
    with http_collector(status) as collector:
        exporter = open_http(collector.url)
        make_spans(exporter)

    first, last = messages(caplog)
    assert f"takes no spans ({why})" in first
    assert last == "2 spans did not reach the OTLP collector"


def test_what_others_log_is_not_quietened(caplog: pytest.LogCaptureFixture) -> None:
    """An official exporter of the host's own says what it always says."""
    open_http("http://localhost:4318").shutdown()
    logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").warning("hello")
    assert messages(caplog) == ["hello"]


def test_delivery_goes_on_once_the_collector_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the pause, which grows with each loss, spans are tried again."""
    from orchtrace_otlp import _steady

    now = [100.0]
    monkeypatch.setattr(_steady.time, "monotonic", lambda: now[0])
    results = [SpanExportResult.FAILURE, SpanExportResult.FAILURE, SpanExportResult.SUCCESS]
    calls: list[float] = []

    class Official(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            calls.append(now[0])
            return results[len(calls) - 1]

    exporter = _steady.steady(Official, "test")()
    for _ in range(30):
        exporter.export([object()])
        now[0] += 1
        if len(calls) == 3:
            break

    assert calls == [100.0, 105.0, 115.0]
    assert exporter.lost == 15


def test_an_exporter_that_raises_has_lost_its_spans(caplog: pytest.LogCaptureFixture) -> None:
    """Release 1.40 raises where its last attempt comes too late; that is one more loss."""
    from orchtrace_otlp import _steady

    class Official(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            raise ValueError("timeout below 0")

    exporter = _steady.steady(Official, "test")()
    assert exporter.export([object(), object()]) is SpanExportResult.FAILURE
    assert (exporter.lost, len(messages(caplog))) == (2, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_what_a_parent_lost_is_told_by_it_alone() -> None:
    """A child of a fork counts anew."""
    exporter = open_http("http://127.0.0.1:9")
    exporter.lost = 3  # type: ignore[attr-defined]
    child = os.fork()
    if child == 0:
        os._exit(exporter.lost)  # type: ignore[attr-defined]
    assert os.waitpid(child, 0)[1] == 0
    exporter.shutdown()
    assert exporter.lost == 3  # type: ignore[attr-defined]


BEHIND_A_BATCH = """
import sys, time
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from orchtrace_otlp import open_http
provider = TracerProvider()
provider.add_span_processor(
    BatchSpanProcessor(open_http(sys.argv[1]), schedule_delay_millis=50, max_export_batch_size=10)
)
tracer = provider.get_tracer("app")
began = time.monotonic()
for _ in range(1000):
    tracer.start_span("work").end()
print(time.monotonic() - began < 1)
provider.shutdown()
print(time.monotonic() - began < 5)
"""


def test_an_application_neither_waits_nor_ends_late() -> None:
    """Its work takes no longer, and its end at most one timeout, not one for each batch."""
    with http_collector(503) as collector:
        done = subprocess.run(
            [sys.executable, "-c", BEHIND_A_BATCH, collector.url],
            env={"OTEL_EXPORTER_OTLP_TIMEOUT": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout == "True\nTrue\n"
    assert done.stderr.count("takes no spans") == 1


def test_the_demo_ships_its_spans(tmp_path: Path) -> None:
    """`orchtrace demo --otlp URL`: whole runs arrive, with their edges as links."""
    with http_collector() as collector:
        url = collector.url.replace("//", "//me:secret@")
        done = subprocess.run(
            [sys.executable, "-m", "orchtrace_otel.cli", "demo", "--otlp", url],
            cwd=tmp_path,
            env={"PYTHONUTF8": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
    assert f"The spans went to {collector.url} as well." in done.stdout
    spans = [
        span
        for _, _, request in collector.requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    roots = [span for span in spans if span.name.startswith("invoke_workflow ")]
    assert len(roots) == 3
    assert {span.trace_id for span in spans} == {root.trace_id for root in roots}
    known = {span.span_id for span in spans}
    linked = {link.span_id for span in spans for link in span.links}
    assert linked
    assert linked <= known
