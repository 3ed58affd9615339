"""What collecting costs: CPU per span from the socket to the store, memory, and acknowledgements.

A collector runs in a process of its own; this one sends it batches that were encoded
beforehand, over one HTTP connection a sender, each batch with parts of ten runs. Its CPU
time and memory are read from the kernel. The CPU figure is a ratio to decoding alone, the
same spans through `otlp.read_protobuf` in this process, in turns with the collector's work.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.measure import report
from orchtrace_otel import attributes as a
from orchtrace_otel import otlp
from orchtrace_otel.testing import capture
from tests.collecting import PROTOBUF, Collecting, collecting, encoded, eventually, research

RESEARCHERS = 98  # a run of 199 spans and a stop
CHUNKS = 4
RUNS_A_BATCH = 10
RUNS = 200
ROUNDS = 5
OPEN_RUNS = 2_000
SENDERS = 4
LATENCY_S = 20.0
SMALL = (4_000, 4_000, 4_000)
DENSE = (1_000, 4_000, 8_000)


class Template:
    """A run of 200 spans, encoded in chunks, of which any number of runs is made."""

    def __init__(self) -> None:
        with capture(deterministic=False) as captured:
            research(RESEARCHERS)
        spans = captured.spans
        self.spans = len(spans)
        self.events = len(captured.trace.events)
        size = -(-self.spans // CHUNKS)
        # The root, which is last, stays with the last chunk.
        self.chunks = [encoded(spans[at : at + size]) for at in range(0, self.spans, size)]
        self.rootless = [*self.chunks[:-1], encoded(spans[at_last(self.spans, size) : -1])]
        self._trace_id = bytes.fromhex(captured.trace.trace_id[:32])

    def run(self, dice: random.Random, chunks: Sequence[bytes]) -> list[bytes]:
        """Return the chunks of another run."""
        other = dice.randbytes(16)
        old, new = self._trace_id.hex().encode(), other.hex().encode()
        return [chunk.replace(self._trace_id, other).replace(old, new) for chunk in chunks]

    def batches(self, count: int, dice: random.Random, chunks: Sequence[bytes]) -> list[bytes]:
        """Return batches of `count` runs, each with a chunk of ten of them."""
        found: list[bytes] = []
        for _ in range(0, count, RUNS_A_BATCH):
            runs = [self.run(dice, chunks) for _ in range(RUNS_A_BATCH)]
            found += [b"".join(parts) for parts in zip(*runs, strict=True)]
        return found


def at_last(spans: int, size: int) -> int:
    return (spans - 1) // size * size


def cpu_of(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_of(pid: int, name: str = "VmRSS") -> float:
    """Return the resident memory of a process in MiB; with `VmHWM` the most there was."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0


async def send(url: str, batches: Sequence[bytes], senders: int) -> float:
    """Send batches as fast as they are taken; return the seconds it took."""
    queue = iter(batches)
    began = time.perf_counter()

    async def sender(client: httpx.AsyncClient) -> None:
        for batch in queue:
            answer = await client.post(url, content=batch, headers=PROTOBUF)
            while not answer.is_success:
                await asyncio.sleep(float(answer.headers["retry-after"]))
                answer = await client.post(url, content=batch, headers=PROTOBUF)

    async with httpx.AsyncClient(timeout=60) as client:
        await asyncio.gather(*(sender(client) for _ in range(senders)))
    return time.perf_counter() - began


async def latencies(url: str, batches: Iterator[bytes], every_s: float) -> list[float]:
    """Send a batch every so often, whatever the answers take; return how long each took."""
    found: list[float] = []
    refused = 0

    async def one(client: httpx.AsyncClient, batch: bytes) -> None:
        nonlocal refused
        began = time.perf_counter()
        answer = await client.post(url, content=batch, headers=PROTOBUF)
        found.append(time.perf_counter() - began)
        refused += not answer.is_success

    async with httpx.AsyncClient(timeout=60) as client, asyncio.TaskGroup() as group:
        due = began = time.perf_counter()
        while due - began < LATENCY_S:
            group.create_task(one(client, next(batches)))
            due += every_s
            await asyncio.sleep(max(due - time.perf_counter(), 0))
    assert refused == 0, f"{refused} batches were refused at half the load"
    return found


def stored_runs(collector: Collecting) -> float:
    return collector.metric("runs_total", "new")


def cost(template: Template, folder: Path) -> float:
    """Tell the CPU time of a span; return how many spans a second were sustained."""
    dice = random.Random(1)  # noqa: S311 - a load, not a secret
    ratios: list[float] = []
    micros: list[float] = []
    decoding: list[float] = []
    rates: list[float] = []
    with collecting(folder, "--grace", "0.2") as collector:
        for turn in range(ROUNDS + 1):
            batches = template.batches(RUNS, dice, template.chunks)
            spans = RUNS * template.spans
            before = time.process_time()
            for batch in batches[:: max(len(batches) // 20, 1)]:
                otlp.read_protobuf(batch)
            decoded = len(batches[:: max(len(batches) // 20, 1)]) * RUNS_A_BATCH * template.spans
            alone = (time.process_time() - before) / decoded * CHUNKS
            used = cpu_of(collector.pid)
            goal = stored_runs(collector) + RUNS
            began = time.perf_counter()
            asyncio.run(send(f"{collector.url}/v1/traces", batches, SENDERS))
            eventually(lambda goal=goal: stored_runs(collector) >= goal, 120)
            took = time.perf_counter() - began
            whole = (cpu_of(collector.pid) - used) / spans
            if turn:
                ratios.append(whole / alone)
                micros.append(whole * 1e6)
                decoding.append(alone * 1e6)
                rates.append(spans / took)
        amended = collector.metric("runs_total", "amended")
    report(
        f"CPU per span, runs of {template.spans} spans, {template.events} events",
        [
            (
                "socket to store, ratio to decoding alone",
                statistics.median(ratios),
                "<= 7.1, aim 3.6",
            ),
            ("socket to store, us on this machine", statistics.median(micros), ""),
            ("decoding alone, us on this machine", statistics.median(decoding), ""),
            ("spans a second sustained on this machine", statistics.median(rates), ""),
            ("runs written more than once", amended, "0"),
        ],
    )
    return statistics.median(rates)


def memory(template: Template, folder: Path) -> None:
    """Tell the memory that open runs take."""
    dice = random.Random(2)  # noqa: S311
    with collecting(folder, "--grace", "600") as collector:
        idle = rss_of(collector.pid)
        for _ in range(0, OPEN_RUNS, RUNS):
            batches = template.batches(RUNS, dice, template.rootless)
            asyncio.run(send(f"{collector.url}/v1/traces", batches, SENDERS))
        eventually(lambda: collector.metric("waiting_bytes") == 0, 120)
        rows = [
            ("resident, MiB", rss_of(collector.pid), "<= 500"),
            ("resident without a run, MiB", idle, ""),
            ("encoded spans of them, MiB", collector.metric("open_bytes") / 2**20, ""),
            ("runs open", collector.metric("open_traces"), f"{OPEN_RUNS}"),
        ]
    report(f"Memory with {OPEN_RUNS:,} runs of {template.spans} spans open", rows)


def acknowledgement(template: Template, folder: Path, rate: float) -> None:
    """Tell how long senders wait at half of what is sustained."""
    dice = random.Random(3)  # noqa: S311
    a_batch = RUNS_A_BATCH * template.spans / CHUNKS
    every_s = a_batch / (rate / 2)
    needed = int(LATENCY_S / every_s) + 2
    runs = -(-needed // CHUNKS) * RUNS_A_BATCH
    batches = iter(template.batches(runs, dice, template.chunks))
    with collecting(folder, "--grace", "1") as collector:
        took = sorted(asyncio.run(latencies(f"{collector.url}/v1/traces", batches, every_s)))
        stored = stored_runs(collector)
    rows = [
        ("p50, ms", took[len(took) // 2] * 1e3, ""),
        ("p99, ms", took[int(len(took) * 0.99)] * 1e3, "<= 200"),
        ("worst, ms", took[-1] * 1e3, ""),
        ("spans a second", len(took) * a_batch / LATENCY_S, f"{rate / 2:.0f}"),
        ("runs stored meanwhile", stored, ""),
    ]
    report(f"Acknowledgements over {LATENCY_S:.0f} s at half the sustained load", rows)


def one_span_runs(first: int, count: int) -> Iterator[bytes]:
    """Encode runs of one span each, 500 a batch."""
    for at in range(first, first + count, 500):
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add().scope_spans.add().spans
        for number in range(at + 1, at + 501):
            _add(spans, number.to_bytes(16), number)
        yield request.SerializeToString()


def dense_run(count: int, edges: int) -> bytes:
    """Encode one run in which each span names as many causes."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(1, count + 1):
        span = _add(spans, b"d" * 16, number, root=1)
        causes = span.attributes.add(key=a.EDGES).value.array_value
        for cause in range(max(1, number - edges), number):
            causes.values.add().string_value = f"causal:{cause:016x}.close"
    return request.SerializeToString()


def _add(spans: Any, trace_id: bytes, number: int, root: int | None = None) -> Any:
    root = root or number
    span = spans.add(
        trace_id=trace_id,
        span_id=number.to_bytes(8),
        parent_span_id=b"" if root == number else root.to_bytes(8),
        start_time_unix_nano=number,
        end_time_unix_nano=number + 1,
        trace_state=f"{a.TRACESTATE_KEY}={root:016x}",
    )
    said = {
        a.OPERATION: a.INVOKE_WORKFLOW if root == number else a.EXECUTE_TOOL,
        a.OPENS: "begin",
        a.AGENT_NAME: "lead",
        a.INSTANCE: "lead#1",
    }
    for key, value in said.items():
        span.attributes.add(key=key).value.string_value = value
    return span


def growth(folder: Path) -> None:
    """Tell what runs of other shapes cost: nothing may grow faster than what comes."""
    rows: list[tuple[str, float, str]] = []
    with collecting(folder / "small", "--grace", "0.2", "--keep-mib", "1") as collector:
        first = 0
        for count in SMALL:
            used = cpu_of(collector.pid)
            batches = list(one_span_runs(first, count))
            asyncio.run(send(f"{collector.url}/v1/traces", batches, SENDERS))
            first += count
            eventually(lambda first=first: stored_runs(collector) >= first, 600)
            micros = (cpu_of(collector.pid) - used) / count * 1e6
            rows.append((f"CPU a run of one span, of {first:,}, us", micros, "the same"))
            rows.append(("resident then, MiB", rss_of(collector.pid), ""))
    for count in DENSE:
        with collecting(folder / str(count), "--grace", "0.2") as collector:
            used = cpu_of(collector.pid)
            asyncio.run(send(f"{collector.url}/v1/traces", [dense_run(count, 50)], 1))
            eventually(lambda: stored_runs(collector) == 1, 600)
            seconds = cpu_of(collector.pid) - used
            rows.append((f"CPU a run of {count:,} spans with 50 edges each, s", seconds, ""))
            rows.append(("most resident, MiB", rss_of(collector.pid, "VmHWM"), ""))
    report("Runs of other shapes", rows)


def main() -> None:
    template = Template()
    chosen = sys.argv[1:] or ["cost", "memory", "acknowledgement", "growth"]
    rate = 0.0
    with tempfile.TemporaryDirectory() as folder:
        if "cost" in chosen or "acknowledgement" in chosen:
            rate = cost(template, Path(folder) / "cost")
        if "growth" in chosen:
            growth(Path(folder) / "growth")
        if "memory" in chosen:
            memory(template, Path(folder) / "memory")
        if "acknowledgement" in chosen:
            acknowledgement(template, Path(folder) / "acknowledgement", rate)


if __name__ == "__main__":
    main()
