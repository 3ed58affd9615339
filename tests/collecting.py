"""A collector in a process of its own, loads to send it, and what its store then says."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import orjson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from orchtrace_otel.collect.admission import RefusedError
from orchtrace_otel.model import Trace
from orchtrace_otel.testing import capture

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

PROTOBUF = {"content-type": "application/x-protobuf"}
AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
GRPC_TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def eventually(condition: Callable[[], Any], within_s: float = 30.0) -> Any:
    """Return what a condition gives once it is true; fail where it does not become so."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(condition.__doc__ or "what was waited for did not come")


def refusal(work: Callable[[], Any]) -> str | None:
    """Return why work was refused, None where it was done; nothing else may be raised."""
    try:
        work()
    except RefusedError as error:
        return error.why
    return None


def _ports() -> Iterator[int]:
    """Ports below those that systems hand out, other ones for each worker of pytest-xdist.

    Nobody else is given one while a collector is down: what is meant for it would be taken,
    and acknowledged, by another test.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 20_000 + worker % 12 * 1_000
    for number in count(os.getpid()):
        yield first + number % 1_000


_PORTS = _ports()


def free_port() -> int:
    """Return a port of loopback that nothing listens on, each time another one."""
    for port in _PORTS:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError  # they never end


class Collecting:
    """A collector's process; it can be killed and started again with the same addresses."""

    def __init__(self, store: Path, *options: str) -> None:
        self.store = store
        self.http_port, self.grpc_port = free_port(), free_port()
        self.program = [sys.executable, "-m", "orchtrace_otel.cli"]
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return once it takes requests."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "ORCHTRACE_"))}
        self._process = subprocess.Popen(
            [
                *(*self.program, "collect", "--store", self.store),
                *("--http", f"127.0.0.1:{self.http_port}"),
                *("--grpc", f"127.0.0.1:{self.grpc_port}"),
                *self._options,
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=kept | {"PYTHONUNBUFFERED": "1"},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("collecting on ")

    def kill(self) -> None:
        """Kill it as the kernel does, without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it as an orchestrator does; return its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(number)
        code = process.wait(30)
        assert process.stdout is not None
        process.stdout.close()
        return code

    def metric(self, name: str, what: str = "") -> float:
        """Return one of its own numbers; 0 where it has not counted it yet."""
        label = re.escape(f'{{what="{what}"}}') if what else ""
        text = httpx.get(f"{self.url}/metrics").text
        found = re.search(rf"^orchtrace_collect_{name}{label} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0


@contextmanager
def collecting(store: Path, *options: str) -> Iterator[Collecting]:
    """Run a collector for the block."""
    made = Collecting(store, *options)
    made.start()
    try:
        yield made
    finally:
        made.stop()


# --- what is sent -----------------------------------------------------------------------


@orchtrace.tool
def look(question: str) -> str:
    return question


@orchtrace.agent(role="executor")
def researcher(question: str) -> str:
    return look(question)


@orchtrace.team("research", reward=lambda _: 1.0)
def research(researchers: int) -> str:
    answers = [researcher(f"question {number}") for number in range(researchers)]
    with orchtrace.aggregate(answers):
        pass
    orchtrace.stop("information_complete")
    return answers[0]


def recorded(count: int, dice: random.Random) -> tuple[list[Trace], list[ReadableSpan]]:
    """Record runs of different sizes."""
    with capture(deterministic=False) as captured:
        for _ in range(count):
            research(dice.randrange(1, 12))
    return captured.traces, captured.spans


def encoded(spans: Sequence[ReadableSpan]) -> bytes:
    """Encode spans as the official exporters do."""
    data: bytes = encode_spans(spans).SerializeToString()
    return data


def batches(spans: Sequence[ReadableSpan], dice: random.Random, size: int) -> list[bytes]:
    """Encode spans in batches that mix runs, none in order."""
    mixed = dice.sample(spans, len(spans))
    return [encoded(mixed[at : at + size]) for at in range(0, len(mixed), size)]


class Sender(threading.Thread):
    """Sends batches as an exporter does: again until it is told that they were taken.

    Some are sent once more after that, as they are by whoever did not hear the answer.

    Args:
        collector: Where to.
        way: `http` or `grpc`.
        sent: The batches.
        dice: Which ones are sent twice.
    """

    def __init__(
        self, collector: Collecting, way: str, sent: Sequence[bytes], dice: random.Random
    ) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self._batches = [batch for batch in sent for _ in range(1 + (dice.random() < 0.2))]
        self._taking = self._over_grpc if way == "grpc" else self._over_http
        self._collector = collector

    @property
    def is_done(self) -> bool:
        """Whether all were acknowledged."""
        return self.acknowledged == len(self._batches)

    def run(self) -> None:
        with self._taking() as is_taken:
            for batch in self._batches:
                while not is_taken(batch):
                    time.sleep(0.02)
                self.acknowledged += 1

    @contextmanager
    def _over_http(self) -> Iterator[Callable[[bytes], bool]]:
        with httpx.Client(timeout=10) as client:

            def is_taken(batch: bytes) -> bool:
                url = f"{self._collector.url}/v1/traces"
                try:
                    answer = client.post(url, content=batch, headers=PROTOBUF)
                except httpx.TransportError:
                    return False
                assert answer.status_code in {200, 429, 503}, answer.text
                return answer.status_code == 200 and _is_whole(answer.content)

            yield is_taken

    @contextmanager
    def _over_grpc(self) -> Iterator[Callable[[bytes], bool]]:
        address = f"127.0.0.1:{self._collector.grpc_port}"
        channel = grpc.insecure_channel(address)

        def is_taken(batch: bytes) -> bool:
            nonlocal channel
            try:
                answer = channel.unary_unary(GRPC_TRACES)(batch, timeout=10)
            except grpc.RpcError as error:
                if error.code() not in AGAIN:
                    raise
                # As the official exporter does: in gRPC up to 1.73 a channel that was refused
                # may never connect again, and later ones take their time.
                channel.close()
                channel = grpc.insecure_channel(address)
                return False
            return _is_whole(answer)

        try:
            yield is_taken
        finally:
            channel.close()


def _is_whole(answer: bytes) -> bool:
    assert answer == b"", f"nothing may be rejected, was {answer!r}"
    return True


# --- what the store says ------------------------------------------------------------------


def lines(store: Path) -> list[dict[str, Any]]:
    """Return the documents in a store, all revisions; a line being written is not there yet."""
    whole = (
        line
        for path in sorted(store.glob("traces*.jsonl"))
        for line in path.read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    )
    return [orjson.loads(line) for line in whole]


def stored(store: Path) -> dict[str, dict[str, Any]]:
    """Return the newest revision of each run; no revision of one may be there twice."""
    newest: dict[str, dict[str, Any]] = {}
    seen: set[tuple[str, int]] = set()
    for document in lines(store):
        run_id, revision = document["trace_id"], document["events"][-1]["revision"]
        assert (run_id, revision) not in seen, "a revision is in the store twice"
        seen.add((run_id, revision))
        if run_id not in newest or revision > newest[run_id]["events"][-1]["revision"]:
            newest[run_id] = document
    return newest


def at_first(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document as if it had never been amended."""
    *before, stop = document["events"]
    return {**document, "events": [*before, {**stop, "revision": 0}]}


def as_stored(traces: Sequence[Trace]) -> dict[str, dict[str, Any]]:
    """Return inline traces as a store's documents."""
    return {trace.trace_id: orjson.loads(trace.to_json()) for trace in traces}
