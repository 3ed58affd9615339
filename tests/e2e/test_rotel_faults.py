"""Whatever happens between an application and the store, each acknowledged run is there once.

Light versions run with every `make test`; `make test-faults` sends more.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from orchtrace_otel import otlp
from orchtrace_otel.model import Trace
from orchtrace_otel.testing import capture
from tests.collecting import (
    PROTOBUF,
    Collecting,
    as_stored,
    batches,
    collecting,
    encoded,
    eventually,
    stored,
)
from tests.e2e.faulty import faulty
from tests.e2e.rotel import ABSENT, assert_stored, binary, forwarding, has_dropped
from tests.properties.test_random_programs import Program

# ruff: noqa: S311 - loads are random, not secret

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

pytestmark = [
    pytest.mark.skipif(binary() is None, reason=ABSENT),
    pytest.mark.timeout(600),
]

RUNS = int(os.environ.get("ORCHTRACE_E2E_RUNS", "60"))
SEEDS = range(int(os.environ.get("ORCHTRACE_E2E_SEEDS", "1")))
BATCH = 40


def programs(count: int, first: int = 0) -> tuple[list[Trace], list[ReadableSpan]]:
    """Run random programs: threads, tasks, streams, failures, messages, merges."""
    with capture(deterministic=False) as captured:
        for seed in range(first, first + count):
            Program(seed, is_traced=True).outcome()
    return captured.traces, captured.spans


def send(url: str, sent: Sequence[bytes]) -> None:
    """Send batches as an exporter does: again until each was acknowledged."""
    with httpx.Client(timeout=30) as client:
        for batch in sent:
            eventually(lambda batch=batch: _is_taken(client, url, batch), 60)


def _is_taken(client: httpx.Client, url: str, batch: bytes) -> bool:
    try:
        answer = client.post(f"{url}/v1/traces", content=batch, headers=PROTOBUF)
    except httpx.TransportError:
        return False
    assert answer.status_code in {200, 429, 503}, answer.text
    return answer.status_code == 200


def http(ways_in: dict[str, str]) -> str:
    """The URL of Rotel's way in over HTTP."""
    return ways_in["http"].removeprefix("otlp:")


@pytest.mark.parametrize("seed", SEEDS)
def test_synthetic_runs_collected_are_the_runs_inline(seed: int, tmp_path: Path) -> None:
    """Random programs, their spans in batches that mix them and are out of order."""
    dice = random.Random(seed)
    traces, spans = programs(RUNS, seed * RUNS)
    with (
        collecting(tmp_path, "--grace", "0.5") as collector,
        forwarding(collector.url) as ways_in,
    ):
        send(http(ways_in), batches(spans, dice, BATCH))
        assert_stored(collector, as_stored(traces), 120)
        assert len(stored(tmp_path)) == len(traces)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", ["refuse", "forget", "double", "shuffle"])
def test_a_fault_on_the_way_costs_nothing(fault: str, seed: int, tmp_path: Path) -> None:
    """503 with Retry-After, answers that get lost, batches twice and in another order."""
    dice = random.Random(seed)
    traces, spans = programs(RUNS // 3, seed * RUNS)
    with (
        collecting(tmp_path, "--grace", "0.5") as collector,
        faulty(collector.url, fault, dice) as between,
        forwarding(between.url, "--disable-batching") as ways_in,
    ):
        send(http(ways_in), batches(spans, dice, BATCH))
        assert_stored(collector, as_stored(traces), 60)
        assert between.faults > 0
        eventually(lambda: collector.metric("open_traces") == 0)
        assert len(stored(tmp_path)) == len(traces)


@pytest.mark.parametrize("way", ["http", "grpc"])
def test_a_receiver_that_is_down_for_a_while_gets_it_later(way: str, tmp_path: Path) -> None:
    """Rotel keeps what it took, and the collector comes back to the same addresses."""
    tries = (_is_back(way, tmp_path / str(number)) for number in range(2))
    assert any(tries), "Rotel itself dropped what it had taken, both times"


def _is_back(way: str, store: Path) -> bool:
    """Have the collector come back; False where Rotel gave something up, which says nothing."""
    dice = random.Random(way)
    traces, spans = programs(RUNS // 3)
    sent = batches(spans, dice, BATCH)
    collector = Collecting(store, "--grace", "0.5")
    target = collector.url if way == "http" else f"http://127.0.0.1:{collector.grpc_port}"
    try:
        with forwarding(target, protocol=way) as ways_in:
            send(http(ways_in), sent[: len(sent) // 3])
            collector.start()
            send(http(ways_in), sent[len(sent) // 3 : 2 * len(sent) // 3])
            assert collector.stop() == 0
            send(http(ways_in), sent[2 * len(sent) // 3 :])
            collector.start()
            if has_dropped(ways_in):
                return False
            assert_stored(collector, as_stored(traces), 60)
    finally:
        collector.stop()
    return True


def test_what_is_wrong_in_a_batch_costs_that_alone(tmp_path: Path) -> None:
    """Partial success: spans with ids that cannot be are counted, the rest is stored."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

    traces, spans = programs(3)
    request = ExportTraceServiceRequest.FromString(encoded(spans))
    held = request.resource_spans[0].scope_spans[0].spans
    for wrong in (b"", b"short", bytes(8)):
        held.add().CopyFrom(held[0])
        held[-1].span_id = wrong
    with (
        collecting(tmp_path, "--grace", "0.3") as collector,
        forwarding(collector.url) as ways_in,
    ):
        told = httpx.post(
            f"{collector.url}/v1/traces", content=request.SerializeToString(), headers=PROTOBUF
        )
        partial = ExportTraceServiceResponse.FromString(told.content).partial_success
        assert (told.status_code, partial.rejected_spans) == (200, 3)
        send(http(ways_in), [request.SerializeToString()])
        assert_stored(collector, as_stored(traces))


def test_a_disk_that_is_full_costs_time(tmp_path: Path) -> None:
    """While files may not grow senders are told to wait; then everything arrives."""
    dice = random.Random(4)
    traces, spans = programs(RUNS // 3)
    sent = batches(spans, dice, BATCH)
    with (
        collecting(tmp_path, "--grace", "0.5") as collector,
        forwarding(collector.url) as ways_in,
    ):
        _, most = resource.prlimit(collector.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (256, most))
        answer = httpx.post(f"{collector.url}/v1/traces", content=sent[0], headers=PROTOBUF)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        send(http(ways_in), sent)  # Rotel takes them, and has to try again
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (most, most))
        assert_stored(collector, as_stored(traces), 60)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk))
    if made != 0:
        pytest.skip("mounting a small file system needs a right that this user has not")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def mount(*arguments: str) -> int:
    if shutil.which("mount") is None:
        return 1
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode


def test_a_file_system_without_room_costs_time(small_disk: Path) -> None:
    """ENOSPC itself: nothing that was acknowledged is lost, and room brings the rest."""
    traces, spans = programs(RUNS)
    sent = batches(spans, random.Random(6), BATCH)
    store = small_disk / "store"
    with (
        collecting(store, "--grace", "0.5") as collector,
        forwarding(collector.url) as ways_in,
    ):
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        answer = httpx.post(f"{collector.url}/v1/traces", content=sent[0], headers=PROTOBUF)
        assert answer.status_code == 503
        send(http(ways_in), sent)
        filler.unlink()
        assert mount("-o", "remount,size=256m", str(small_disk)) == 0
        assert_stored(collector, as_stored(traces), 120)
        assert len(stored(store)) == len(traces)


def test_a_disk_that_is_slow_costs_time(tmp_path: Path) -> None:
    """Each fsync takes 50 ms more, and each answer waits for one; nothing is lost for it."""
    traces, spans = programs(RUNS // 3)
    sent = batches(spans, random.Random(5), BATCH)
    slow = Collecting(tmp_path, "--grace", "1", "--fsync", "always")
    slow.program = [sys.executable, "-c", SLOW_DISK]
    slow.start()
    try:
        with forwarding(slow.url) as ways_in:
            send(http(ways_in), sent)
            assert_stored(slow, as_stored(traces), 60)
    finally:
        slow.stop()


SLOW_DISK = textwrap.dedent("""
    import os, time
    fast = os.fsync
    def fsync(descriptor):
        time.sleep(0.05)
        fast(descriptor)
    os.fsync = os.fdatasync = fsync
    from orchtrace_otel.cli import main
    raise SystemExit(main())
""")


PROCESS = textwrap.dedent("""
    import json, sys, threading, time, urllib.request
    from http.server import BaseHTTPRequestHandler, HTTPServer
    exporter, file, role, argument, skew_s = sys.argv[1:]
    now = time.time_ns
    time.time_ns = lambda: now() + int(float(skew_s) * 1e9)  # a clock that is wrong
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    import orchtrace_otel as orchtrace
    from orchtrace_otel.exporter import open_exporter

    class Keep(SpanExporter):
        def export(self, spans):
            with open(file, "ab") as kept:
                kept.write(encode_spans(spans).SerializeToString())

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(open_exporter(exporter)))
    provider.add_span_processor(SimpleSpanProcessor(Keep()))
    trace.set_tracer_provider(provider)
    orchtrace.configure(exporters=[])

    @orchtrace.tool
    def look_up(question): return "9:40"

    @orchtrace.agent("clerk", role="executor")
    def clerk(question): return look_up(question)

    @orchtrace.agent("traveller")
    def traveller(url):
        request = urllib.request.Request(url, headers=dict(orchtrace.inject()))
        return urllib.request.urlopen(request).read().decode()

    class Desk(BaseHTTPRequestHandler):
        def do_GET(self):
            with orchtrace.extract(dict(self.headers)):
                said = clerk(self.path).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said)
        def log_message(self, *_): ...

    if role == "desk":
        desk = HTTPServer(("127.0.0.1", 0), Desk)
        print(desk.server_address[1], flush=True)
        for _ in range(int(argument)):
            desk.handle_request()
    else:
        @orchtrace.team("journey")
        def journey():
            return [traveller(argument), traveller(argument)]
        print(json.dumps(journey()))
    provider.shutdown()
""")


def process(*arguments: str) -> subprocess.Popen[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "ORCHTRACE_"))}
    return subprocess.Popen(
        [sys.executable, "-c", PROCESS, *arguments], stdout=subprocess.PIPE, text=True, env=kept
    )


@pytest.mark.parametrize("skew_s", [0, 3.5, -3.5])
def test_an_agent_that_calls_another_over_http_is_one_run(skew_s: float, tmp_path: Path) -> None:
    """Two processes with W3C context between them, each sending its own spans, clocks apart."""
    store, file = tmp_path / "store", tmp_path / "spans.pb"
    with (
        collecting(store, "--grace", "1") as collector,
        forwarding(collector.url) as ways_in,
    ):
        desk = process(ways_in["grpc"], str(file), "desk", "2", str(skew_s))
        assert desk.stdout is not None
        url = f"http://127.0.0.1:{int(desk.stdout.readline())}/when"
        caller = process(ways_in["http"], str(file), "caller", url, "0")
        said, _ = caller.communicate(timeout=60)
        assert desk.wait(60) == caller.returncode == 0
        desk.stdout.close()
        assert json.loads(said) == ["9:40", "9:40"]
        (expected,) = otlp.traces(otlp.read_protobuf(file.read_bytes()))
        assert_stored(collector, as_stored([expected]))
    assert_is_whole(stored(store)[expected.trace_id], skewed=skew_s != 0)
    assert len(stored(store)) == 1


def assert_is_whole(document: dict[str, Any], *, skewed: bool) -> None:
    """Both processes' work is in it, in the places where it was asked for."""
    events = {event["id"]: event for event in document["events"]}
    agents = [e["to"] for e in events.values() if e["verb"] in {"spawn", "delegate"}]
    assert sorted(agents) == ["clerk", "clerk", "traveller", "traveller"]
    assert [e["verb"] for e in events.values()].count("tool_result") == 2
    for event in events.values():
        if event.get("to") == "clerk":
            assert events[f"{event['parent']}.open"]["to"] == "traveller"
    assert all(event["t"] >= 0 for event in events.values())
    assert document["events"][-1]["verb"] == "stop"
    assert set(document["events"][-1]["flags"]) <= ({"skewed", "late_spans"} if skewed else set())


def test_two_collectors_by_trace_id_hold_each_run_whole_in_one_of_them(tmp_path: Path) -> None:
    """What a load balancer keyed by trace id does: the parts are disjoint, together all."""
    traces, spans = programs(RUNS // 3)
    parts: tuple[list[ReadableSpan], list[ReadableSpan]] = [], []
    for span in spans:
        parts[span.context.trace_id % 2].append(span)
    halves = [
        {run_id: one for run_id, one in as_stored(traces).items() if int(run_id[:32], 16) % 2 == n}
        for n in (0, 1)
    ]
    for number, (part, expected) in enumerate(zip(parts, halves, strict=True)):
        store = tmp_path / str(number)
        with (
            collecting(store, "--grace", "0.3") as collector,
            forwarding(collector.url) as ways_in,
        ):
            send(http(ways_in), batches(part, random.Random(number), BATCH))
            assert_stored(collector, expected)
            assert stored(store).keys() == expected.keys()
