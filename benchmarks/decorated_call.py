"""What a decorated call costs inside a run, and what it costs while tracing is off.

A raw span is `start_as_current_span` with 8 attributes and 1 link under a
BatchSpanProcessor whose exporter does nothing. A decorated call has one more link than
that: what the call before gave back is a cause of the next one. `begins a run` counts
everything a run needs: root, stop, building, scoring.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import orchtrace_otel as orchtrace
from benchmarks.measure import alternate, provider, ratio, raw_spans, report
from orchtrace_otel import spans

CALLS, RUNS = 100, 20
ROUNDS = 15


@orchtrace.agent("searcher", role="executor")
def searcher(question: str) -> str:
    return question


@orchtrace.agent("searcher", role="executor")
async def async_searcher(question: str) -> str:
    return question


@orchtrace.tool("look")
def look(question: str) -> str:
    return question


def plain(question: str) -> str:
    return question


def inside_a_run(call: Callable[[str], object]) -> float:
    """CPU seconds of the calls alone, inside runs of 100 calls; opening and closing a run apart."""
    spent: list[float] = []

    @orchtrace.team("bench")
    def run() -> None:
        before = time.process_time()
        for _ in range(CALLS):
            call("who?")
        spent.append(time.process_time() - before)

    for _ in range(RUNS):
        run()
    return sum(spent)


def inside_an_async_run() -> float:
    spent: list[float] = []

    @orchtrace.team("bench")
    async def run() -> None:
        before = time.process_time()
        for _ in range(CALLS):
            await async_searcher("who?")
        spent.append(time.process_time() - before)

    async def runs() -> None:
        for _ in range(RUNS):
            await run()

    asyncio.run(runs())
    return sum(spent)


def whole_runs() -> float:
    @orchtrace.team("bench")
    def run() -> None:
        for _ in range(CALLS):
            searcher("who?")

    before = time.process_time()
    for _ in range(RUNS):
        run()
    return time.process_time() - before


def timed(call: Callable[[str], object]) -> float:
    before = time.process_time()
    for _ in range(CALLS * RUNS):
        call("who?")
    return time.process_time() - before


def main() -> None:
    tracer = provider().get_tracer("raw")

    def raw() -> float:
        before = time.process_time()
        for _ in range(RUNS):
            raw_spans(tracer, CALLS)
        return time.process_time() - before

    def off(call: Callable[[str], object]) -> float:
        before = spans.use(None)
        try:
            return timed(call) - timed(plain)
        finally:
            spans.use(before)

    orchtrace.configure(tracer_provider=provider(), exporters=[])
    samples = alternate(
        {
            "raw": raw,
            "agent": lambda: inside_a_run(searcher),
            "async agent": inside_an_async_run,
            "tool": lambda: inside_a_run(look),
            "whole run": whole_runs,
            "off": lambda: off(searcher),
        },
        ROUNDS,
    )
    limits = {
        "agent": "<= 1.25, aim 1.0",
        "async agent": "<= 1.25, aim 1.0",
        "off": "<= 0.05",
    }
    names = {
        "agent": "a decorated agent's call in a run, one after another",
        "async agent": "the same, a coroutine",
        "tool": "a decorated tool's call in a run",
        "whole run": "a call with its share of a run of 100, built and scored",
        "off": "a decorated call while tracing is off",
    }
    rows = [(names[key], ratio(samples, key, "raw"), limits.get(key, "")) for key in names]
    report("Decorated calls, CPU time as a ratio to a raw span", rows)


if __name__ == "__main__":
    main()
