"""OTLP as the protocol has it: both ways in, every refusal, and the rest of a batch kept."""

from __future__ import annotations

import gzip
import http.client
import random
import resource
import signal
import ssl
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHttp
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
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
    GRPC_TRACES,
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

JSON = {"content-type": "application/json"}
GZIP = {**PROTOBUF, "content-encoding": "gzip"}
TLS = Path(__file__).with_name("tls")
OK = SpanExportResult.SUCCESS


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    """A collector with small bounds, for all tests that look at answers only."""
    folder = tmp_path_factory.mktemp("store")
    with collecting(folder, "--grace", "0.1", "--fsync", "never", "--max-request-mib", "4") as made:
        yield made


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


# --- what is taken ---------------------------------------------------------------------


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


# --- partial success -------------------------------------------------------------------


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


# --- what is refused -------------------------------------------------------------------


def refused(answer: httpx.Response) -> tuple[int, int, str]:
    """The status, the code and the message of a refusal."""
    if answer.headers["content-type"] == "application/json":
        told = answer.json()
        return answer.status_code, told["code"], told["message"]
    assert answer.headers["content-type"] == "application/x-protobuf"
    status = Status.FromString(answer.content)
    return answer.status_code, status.code, status.message


BOMB = zlib.compressobj(9, wbits=31)
BOMB_BODY = b"".join(BOMB.compress(bytes(2**20)) for _ in range(512)) + BOMB.flush()


@pytest.mark.parametrize(
    ("body", "headers", "status", "code", "said"),
    [
        (b"\xff\xff\xff", PROTOBUF, 400, 3, "must be an ExportTraceServiceRequest, came 3 bytes"),
        (b"{", JSON, 400, 3, "must be a ExportTraceServiceRequest in JSON"),
        (b"[]", JSON, 400, 3, "must be a ExportTraceServiceRequest in JSON"),
        (b'{"resourceSpans": 7}', JSON, 400, 3, "must be a ExportTraceServiceRequest in JSON"),
        (b"no gzip", GZIP, 400, 3, "a body of encoding gzip must be gzip"),
        (gzip.compress(b"\n\0" * 99)[:-9], GZIP, 400, 3, "must be whole, came its beginning"),
        (BOMB_BODY, GZIP, 413, 8, "must not become more than 4194304 bytes"),
        (bytes(5 * 2**20), PROTOBUF, 413, 8, "must have at most 4194304 bytes"),
        (b"", {"content-type": "text/plain"}, 415, 3, "must be application/x-protobuf or"),
        (b"", {**PROTOBUF, "content-encoding": "br"}, 415, 3, "encoding gzip, deflate or none"),
    ],
    ids=[
        *("garbage", "half JSON", "a JSON array", "JSON of another shape", "no gzip", "half gzip"),
        *("a bomb", "too large", "another type", "another encoding"),
    ],
)
def test_a_body_that_is_no_request_is_refused_with_a_status(  # noqa: PLR0913 - a table
    body: bytes,
    headers: dict[str, str],
    status: int,
    code: int,
    said: str,
    collector: Collecting,
) -> None:
    """`google.rpc.Status` in the sender's own encoding; what comes after is taken."""
    answer = httpx.post(f"{collector.url}/v1/traces", content=body, headers=headers)
    found = refused(answer)
    assert found[:2] == (status, code)
    assert said in found[2]
    assert "retry-after" not in answer.headers
    after = a_request().SerializeToString()
    answer = httpx.post(f"{collector.url}/v1/traces", content=after, headers=PROTOBUF)
    assert answer.status_code == 200


def test_a_body_without_a_length_is_bounded_as_well(collector: Collecting) -> None:
    """A sender that streams is cut off when it has sent too much."""
    pieces = (bytes(2**20) for _ in range(6))
    answer = httpx.post(f"{collector.url}/v1/traces", content=pieces, headers=PROTOBUF)
    assert refused(answer)[:2] == (413, 8)


@pytest.mark.parametrize(
    ("body", "compression", "code", "said"),
    [
        (b"\xff\xff\xff", None, grpc.StatusCode.INVALID_ARGUMENT, "3 bytes that are none"),
        (bytes(64 * 2**20), grpc.Compression.Gzip, grpc.StatusCode.RESOURCE_EXHAUSTED, "4194304"),
        (bytes(5 * 2**20), None, grpc.StatusCode.RESOURCE_EXHAUSTED, "larger than max"),
    ],
    ids=["garbage", "a bomb", "too large"],
)
def test_grpc_refuses_with_its_codes(
    body: bytes,
    compression: grpc.Compression | None,
    code: grpc.StatusCode,
    said: str,
    collector: Collecting,
) -> None:
    """Garbage, a bomb, too large a message; none tells the sender to come back."""
    address = f"127.0.0.1:{collector.grpc_port}"
    with grpc.insecure_channel(address, compression=compression) as channel:
        export = channel.unary_unary(GRPC_TRACES)
        with pytest.raises(grpc.RpcError) as caught:
            export(body)
        assert caught.value.code() is code
        assert said in caught.value.details()
        details = dict(caught.value.trailing_metadata()).get("grpc-status-details-bin")
        if details is not None:
            assert Status.FromString(details).details == []
        assert export(a_request().SerializeToString()) == b""


def test_many_large_calls_at_once_cost_no_more_memory_than_the_bounds(
    collector: Collecting,
) -> None:
    """Of 800 MB that come at once over gRPC no more is held than may be in flight."""
    channels = [
        grpc.insecure_channel(
            f"127.0.0.1:{collector.grpc_port}", [("grpc.use_local_subchannel_pool", 1)]
        )
        for _ in range(10)
    ]
    body = b"\xff" * 4_000_000
    calls: list[Any] = [
        channels[number % 10].unary_unary(GRPC_TRACES).future(body, timeout=60)
        for number in range(200)
    ]
    codes = {call.code() for call in calls}
    for channel in channels:
        channel.close()
    assert codes == {grpc.StatusCode.INVALID_ARGUMENT}
    status = Path(f"/proc/{collector.pid}/status").read_text()
    most = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(most.split()[1]) < 400 * 1024, most


def test_metrics_are_not_taken_and_senders_are_told(collector: Collecting) -> None:
    """404 and UNIMPLEMENTED, which no exporter tries again."""
    answer = httpx.post(f"{collector.url}/v1/metrics", content=b"", headers=PROTOBUF)
    assert refused(answer)[:2] == (404, 12)
    with grpc.insecure_channel(f"127.0.0.1:{collector.grpc_port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            MetricsServiceStub(channel).Export(ExportMetricsServiceRequest())
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert httpx.get(f"{collector.url}/v1/traces").status_code == 405


def test_health_and_readiness_are_told(collector: Collecting) -> None:
    """Alive while it runs, ready while requests are taken; numbers as Prometheus has them."""
    assert httpx.get(f"{collector.url}/healthz").text == "alive\n"
    assert httpx.get(f"{collector.url}/readyz").text == "ready\n"
    told = httpx.get(f"{collector.url}/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE orchtrace_collect_spans_total counter" in told.text
    assert "orchtrace_collect_ready 1" in told.text


# --- who gets in -----------------------------------------------------------------------


def test_only_who_has_the_token_gets_in(tmp_path: Path) -> None:
    """401 and UNAUTHENTICATED for none and for a wrong one; the right one is let in, by TLS too."""
    (tmp_path / "token").write_text("s3cret\n")
    options = ("--grace", "0.1", "--token-file", str(tmp_path / "token"))
    tls = ("--tls-cert", str(TLS / "loopback.crt"), "--tls-key", str(TLS / "loopback.key"))
    trusted = ssl.create_default_context(cafile=TLS / "loopback.crt")
    with collecting(tmp_path / "store", *options, *tls) as collector:
        url = f"https://127.0.0.1:{collector.http_port}/v1/traces"
        body = a_request().SerializeToString()
        with httpx.Client(verify=trusted) as client:
            for wrong in (None, "Bearer other", "Bearer", "Basic s3cret", "Bearer s3cretly"):
                headers = {**PROTOBUF, **({} if wrong is None else {"authorization": wrong})}
                answer = client.post(url, content=body, headers=headers)
                assert refused(answer)[:2] == (401, 16)
                assert answer.headers["www-authenticate"] == "Bearer"
            headers = {**PROTOBUF, "authorization": "bearer s3cret"}
            assert client.post(url, content=body, headers=headers).status_code == 200
        secure = grpc.ssl_channel_credentials((TLS / "loopback.crt").read_bytes())
        with grpc.secure_channel(f"127.0.0.1:{collector.grpc_port}", secure) as channel:
            stub = TraceServiceStub(channel)
            for sent in ((), (("authorization", "Bearer other"),)):
                with pytest.raises(grpc.RpcError) as caught:
                    stub.Export(a_request(), metadata=sent)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            stub.Export(a_request(), metadata=(("authorization", "Bearer s3cret"),))
        eventually(lambda: len(stored(tmp_path / "store")) == 2)


def test_senders_that_come_too_fast_are_told_when_to_come_back(tmp_path: Path) -> None:
    """A store that cannot be written is 503 or UNAVAILABLE, with a time, and readiness is off."""
    with collecting(tmp_path, "--grace", "0.1", "--fsync", "never") as collector:
        _, hard = resource.prlimit(collector.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (10, hard))
        address = f"127.0.0.1:{collector.grpc_port}"
        with (
            grpc.insecure_channel(address) as channel,
            pytest.raises(grpc.RpcError) as caught,
        ):
            TraceServiceStub(channel).Export(a_request())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        details = dict(caught.value.trailing_metadata())["grpc-status-details-bin"]
        info = RetryInfo()
        assert Status.FromString(details).details[0].Unpack(info)
        assert info.retry_delay.seconds > 0
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (hard, hard))
        with grpc.insecure_channel(address) as channel:
            TraceServiceStub(channel).Export(a_request())
        assert httpx.get(f"{collector.url}/readyz").status_code == 200


def collect(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the command until it gives up."""
    return subprocess.run(
        [sys.executable, "-m", "orchtrace_otel.cli", "collect", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--http", "4318"], "--http must be HOST:PORT"),
        (["--grpc", "127.0.0.1:99999"], "--grpc must be HOST:PORT"),
        (["--http", "none", "--grpc", "none"], "one of --http and --grpc must be HOST:PORT"),
        (["--http", "nowhere.invalid:4318"], "--http must be an address to listen on"),
        (["--grpc", "nowhere.invalid:4317"], "--grpc must be an address to listen on"),
        (["--tls-cert", str(TLS / "loopback.crt")], "TLS needs a certificate and its key"),
        (["--tables", "nowhere"], "exporters need the form"),
        (["--max-spans", "0"], "0 is not in the range x>=1"),
        (["--grace", "-1"], "-1.0 is not in the range x>=0"),
    ],
)
def test_wrong_usage_is_told_in_a_line(options: list[str], said: str, tmp_path: Path) -> None:
    """Exit code 2, as of every verb."""
    done = collect("--store", str(tmp_path), *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "bytes that are no ASCII"),
        (b" \n", "with nothing"),
        (b"one\ntwo\n", "with more than one line"),
    ],
)
def test_a_file_without_a_token_is_told_in_a_line(
    content: bytes, said: str, tmp_path: Path
) -> None:
    """No sender could have that token, or all would."""
    (tmp_path / "token").write_bytes(content)
    done = collect("--store", str(tmp_path), "--token-file", str(tmp_path / "token"))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "--token-file must" in done.stderr
    assert said in done.stderr


def test_a_store_that_cannot_be_written_is_told_in_a_line(tmp_path: Path) -> None:
    """Before anything listens."""
    (tmp_path / "file").touch()
    for store in (tmp_path / "file", Path("/proc/nothing")):
        done = collect("--store", str(store), "--http", "127.0.0.1:0", "--grpc", "none")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
        assert "--store must be a folder to write" in done.stderr


def test_addresses_of_the_sixth_version_are_told_as_urls(tmp_path: Path) -> None:
    """What is printed can be given to an exporter; one way in is enough."""
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "orchtrace_otel.cli", "collect", "--store", tmp_path),
            *("--http", "[::1]:0", "--grpc", "none"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[2]
        assert url.startswith("http://[::1]:")
        assert httpx.get(f"{url}/readyz").text == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_who_comes_while_it_ends_is_told_to_come_back(tmp_path: Path) -> None:
    """503 with Retry-After, UNAVAILABLE with RetryInfo; never CANCELLED, which loses spans."""
    held = Collecting(tmp_path, "--grace", "0.1", "--fsync", "never")
    held.start()
    request = a_request()
    body = request.SerializeToString()
    told: list[httpx.Response] = []
    failed: list[Any] = []

    def by_http() -> None:
        with httpx.Client() as client:
            while not told:
                answer = client.post(f"{held.url}/v1/traces", content=body, headers=PROTOBUF)
                told.extend([answer] if answer.status_code != 200 else [])

    def by_grpc() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{held.grpc_port}") as channel:
            export = TraceServiceStub(channel).Export
            while not is_over.is_set():
                try:
                    export(request)
                except grpc.RpcError as error:
                    failed.append(error)

    is_over = threading.Event()
    senders = [threading.Thread(target=work, daemon=True) for work in (by_http, by_grpc, by_grpc)]
    for sender in senders:
        sender.start()
    eventually(lambda: held.metric("requests_total", "traces:accepted") > 20)
    assert held.stop() == 0
    is_over.set()
    for sender in senders:
        sender.join(30)
    (answer,) = told
    assert refused(answer)[:2] == (503, 14)
    assert int(answer.headers["retry-after"]) > 0
    assert {error.code() for error in failed} == {grpc.StatusCode.UNAVAILABLE}
    details = dict(failed[0].trailing_metadata())["grpc-status-details-bin"]
    assert Status.FromString(details).details[0].Is(RetryInfo.DESCRIPTOR)


def test_no_call_on_a_kept_connection_goes_without_an_answer(tmp_path: Path) -> None:
    """While it ends each connection is closed by an answer that says so, and by nothing else."""
    held = Collecting(tmp_path, "--grace", "0.1", "--fsync", "never")
    held.start()
    body = a_request().SerializeToString()

    def last_answer(number: int) -> int:
        dice = random.Random(number)  # noqa: S311 - a load, not a secret
        connection = http.client.HTTPConnection("127.0.0.1", held.http_port, timeout=30)
        while True:
            connection.request("POST", "/v1/traces", body, PROTOBUF)
            answer = connection.getresponse()
            answer.read()
            if answer.getheader("connection") == "close":
                return answer.status
            assert answer.status == 200
            time.sleep(dice.random() / 10)  # as a sender does that waits for more spans

    with ThreadPoolExecutor(16) as senders:
        answers = [senders.submit(last_answer, number) for number in range(16)]
        eventually(lambda: held.metric("requests_total", "traces:accepted") > 50)
        assert held.stop() == 0
        assert {answer.result(30) for answer in answers} <= {200, 503}


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_an_address_in_use_is_told_in_a_line(
    way: str, collector: Collecting, tmp_path: Path
) -> None:
    """Nothing is left running by who could not listen."""
    taken = collector.http_port if way == "http" else collector.grpc_port
    done = collect(
        "--store",
        str(tmp_path),
        "--http",
        "none",
        "--grpc",
        "none",
        f"--{way}",
        f"127.0.0.1:{taken}",
    )
    assert done.returncode == 2
    assert f"--{way} must be an address to listen on" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("absent", ["grpc", "uvicorn", "starlette", "opentelemetry.proto"])
def test_without_its_extra_the_verb_says_how_to_get_it(absent: str, tmp_path: Path) -> None:
    """The line that installs it, and exit code 2."""
    hide = f"import sys; sys.modules[{absent!r}] = None"
    code = f"{hide}; from orchtrace_otel.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "collect", "--store", tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.rstrip().endswith("run: pip install 'orchtrace-otel[collect]'")


def test_a_store_in_use_is_told_in_a_line(collector: Collecting) -> None:
    """Two collectors would write one spool."""
    done = collect("--store", str(collector.store), "--http", "127.0.0.1:0", "--grpc", "none")
    assert done.returncode == 2
    assert "where another runs" in done.stderr


def test_an_index_that_is_none_is_told_in_a_line(tmp_path: Path) -> None:
    """With what to do."""
    (tmp_path / "index.sqlite").write_text("no index, whatever its name says\n" * 99)
    done = collect("--store", str(tmp_path), "--http", "127.0.0.1:0", "--grpc", "none")
    assert done.returncode == 2
    assert "index.sqlite may be removed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_certificate_that_is_none_is_told_in_a_line(tmp_path: Path) -> None:
    """Before anything listens."""
    (tmp_path / "bad.pem").write_text("no certificate")
    bad = str(tmp_path / "bad.pem")
    for off in ("--http", "--grpc"):
        options = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", off, "none")
        done = collect("--store", str(tmp_path), *options, "--tls-cert", bad, "--tls-key", bad)
        assert done.returncode == 2
        assert "--tls-cert and --tls-key must be a certificate and its key" in done.stderr
        assert "Traceback" not in done.stderr
