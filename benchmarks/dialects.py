"""What it costs to read and build runs that others traced, per span of OTLP JSON."""

from __future__ import annotations

import statistics

from benchmarks.measure import cpu, report
from orchtrace_otel import otlp
from tests.unit.dialects import stories

RUNS = 100
ROUNDS = 9
TELLERS = (stories.openinference, stories.openllmetry, stories.genai, stories.genai_old)


def build(runs: list[bytes]) -> None:
    """Read and build runs, one request each."""
    for body in runs:
        otlp.traces(otlp.read_json(body))


def main() -> None:
    rows: list[tuple[str, float, str]] = []
    for teller in TELLERS:
        spans = teller()
        told = stories.request(spans).decode()
        runs = [told.replace(stories.TRACE, f"{run:032x}").encode() for run in range(1, RUNS + 1)]
        spent = statistics.median(cpu(lambda runs=runs: build(runs)) for _ in range(ROUNDS))
        what = f"{teller.__name__}, runs of {len(spans)} spans"
        rows.append((what, spent / RUNS / len(spans) * 1e6, ""))
    report("Reading and building, us a span on this machine", rows)


if __name__ == "__main__":
    main()
