"""What the benchmarks share: the raw span, alternating blocks, medians of ratios.

Figures are CPU time of the process over all threads. Blocks alternate and their order
turns round every other round; a ratio is the median over rounds of ratios within a
round, so that a drift of the machine falls on both sides alike.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Tracer

ATTRIBUTES = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "searcher",
    "bench.text": "a text of some length",
    "bench.name": "name",
    "bench.count": 7,
    "bench.share": 1.5,
    "bench.flag": True,
    "bench.id": "0123456789abcdef",
}


class Nowhere(SpanExporter):
    """Takes spans and does nothing with them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


def provider() -> TracerProvider:
    """Return a provider that batches into nowhere, with a queue that never drops."""
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=1 << 20))
    return made


def raw_spans(tracer: Tracer, count: int) -> None:
    """Open `count` spans by hand: 8 attributes and 1 link each, below one parent."""
    with tracer.start_as_current_span("run") as run:
        cause = run.get_span_context()
        for _ in range(count):
            links = [Link(cause, {"bench.edge": "spawn"})]
            with tracer.start_as_current_span("call", attributes=ATTRIBUTES, links=links):
                pass


def cpu(block: Callable[[], object]) -> float:
    """Return the CPU seconds of one call, over all threads."""
    gc.collect()
    before = time.process_time()
    block()
    return time.process_time() - before


def alternate(blocks: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run each block once a round, after one round that does not count."""
    names = list(blocks)
    samples: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for name in names if turn % 2 else reversed(names):
            figure = blocks[name]()
            if turn:
                samples[name].append(figure)
    return samples


def ratio(samples: Mapping[str, Sequence[float]], name: str, to: str) -> float:
    """Return the median over rounds of `name` divided by `to`."""
    pairs = zip(samples[name], samples[to], strict=True)
    return statistics.median(one / other for one, other in pairs)


def least(samples: Mapping[str, Sequence[float]], name: str, to: str) -> float:
    """Return the least of `name` by the least of `to`: what a busy machine disturbs least."""
    return min(samples[name]) / min(samples[to])


def report(title: str, rows: Sequence[tuple[str, float, str]]) -> None:
    """Print a table: what, the figure, and what it must not exceed."""
    print(f"\n{title}")
    for what, figure, limit in rows:
        print(f"  {what:<58} {figure:8.3f}   {limit}")
