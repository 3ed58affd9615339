"""What it costs to build, score, dump and validate a trace, per event, and its size on the wire."""

from __future__ import annotations

import time
from collections.abc import Callable

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from benchmarks.measure import alternate, provider, ratio, raw_spans, report
from orchtrace_otel import otlp, schema
from orchtrace_otel.builder import build
from orchtrace_otel.rewards import measure, score
from orchtrace_otel.testing import capture

RAW_SPANS = 100
REPEATS = 100
ROUNDS = 15


@orchtrace.tool
def look(question: str) -> str:
    return question


@orchtrace.agent(role="executor")
def researcher(question: str) -> str:
    return look(question)


@orchtrace.team("research")
def research(researchers: int) -> None:
    answers = [researcher(f"question {number}") for number in range(researchers)]
    with orchtrace.aggregate(answers):
        pass
    orchtrace.stop("information_complete")


def figures(researchers: int) -> tuple[int, list[tuple[str, float, str]], float]:
    with capture() as captured:
        research(researchers)
    data = encode_spans(captured.spans).SerializeToString()
    records = [record for _, record in otlp.read_protobuf(data)]
    run_id = captured.trace.trace_id
    bare = build(run_id, records)
    scored = score(bare)
    document = scored.to_dict()
    events = len(bare.events)
    tracer = provider().get_tracer("raw")

    def per_event(block: Callable[[], object]) -> Callable[[], float]:
        def timed() -> float:
            before = time.process_time()
            for _ in range(REPEATS):
                block()
            return (time.process_time() - before) / REPEATS / events

        return timed

    def raw() -> float:
        before = time.process_time()
        for _ in range(REPEATS // 10):
            raw_spans(tracer, RAW_SPANS)
        return (time.process_time() - before) / (REPEATS // 10) / RAW_SPANS

    samples = alternate(
        {
            "raw": raw,
            "build and dump": per_event(lambda: schema.dump(build(run_id, records))),
            "measures": per_event(lambda: measure(bare)),
            "measures and families": per_event(lambda: score(bare)),
            "validate": per_event(lambda: schema.check(document)),
        },
        ROUNDS,
    )
    limits = {
        "build and dump": "<= 0.20, aim 0.10",
        "measures": "<= 0.05",
        "measures and families": "<= 0.15",
        "validate": "<= 0.03",
    }
    rows = [(name, ratio(samples, name, "raw"), limit) for name, limit in limits.items()]
    return events, rows, len(data) / events


def main() -> None:
    for researchers in (6, 250):
        events, rows, size = figures(researchers)
        title = f"A trace of {events} events, CPU time per event as a ratio to a raw span"
        report(title, rows)
        report("Its spans on the wire", [("OTLP bytes per event, content off", size, "<= 500")])


if __name__ == "__main__":
    main()
