"""Whatever a sender sends is read to sound traces or refused with our own error.

The corpus in `corpus/` is what found something once, or covers what a mutation seldom
hits; every file runs in every test run, and is what mutations start from.
`make fuzz` tries many more.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchtrace_otel import otlp, schema
from orchtrace_otel.clickhouse import read_rows
from orchtrace_otel.errors import TraceFormatError
from tests.fuzz.strategies import requests

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
EXAMPLES = int(os.environ.get("ORCHTRACE_FUZZ_EXAMPLES", "60"))
READERS = {
    ".pb": otlp.read_protobuf,
    ".json": otlp.read_json,
    ".jsonl": lambda data: list(otlp.read_lines(data)),
    ".rows": lambda data: list(read_rows(data)),
}

fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def is_read_or_refused(reader: str, data: bytes) -> bool:
    """Read, build, score and check what came; only our own error may come out."""
    try:
        received = READERS[reader](data)
    except TraceFormatError:
        return False
    found = otlp.traces(received)
    for trace in found:
        faults = list(schema.check(trace.to_dict()))
        if "skewed" in trace.flags:  # says itself that some effect was before its cause
            faults = [fault for fault in faults if "cause after its effect" not in fault.must]
        assert faults == []
    again = otlp.traces(received[::-1])
    assert [schema.dump(trace) for trace in again] == [schema.dump(trace) for trace in found]
    return True


def test_there_is_a_corpus_for_every_reader() -> None:
    """A reader without one would start its mutations from nothing."""
    assert {file.suffix for file in CORPUS} == READERS.keys()


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.name)
def test_the_corpus_is_read_or_refused(file: Path) -> None:
    """Files named `ok-` are read, those named `bad-` are refused."""
    assert is_read_or_refused(file.suffix, file.read_bytes()) is file.name.startswith("ok-")


@fuzzed
@given(requests)
def test_any_tangle_of_spans_is_a_set_of_sound_traces(data: bytes) -> None:
    """Cycles, doubles, wrong times, garbled words, ours and others' mixed; in any order."""
    is_read_or_refused(".json", data)


@fuzzed
@given(st.lists(requests, max_size=3), st.data())
def test_mutated_requests_are_read_or_refused(held: list[bytes], data: st.DataObject) -> None:
    """Bytes cut, doubled, flipped and joined, from requests and from the corpus."""
    file = data.draw(st.sampled_from(CORPUS))
    made = bytearray(data.draw(st.sampled_from([file.read_bytes(), *held])))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(made) - 1, 0)))
        match data.draw(st.sampled_from(("cut", "flip", "repeat", "insert"))):
            case "cut":
                del made[at : at + data.draw(st.integers(1, 64))]
            case "flip" if made:
                made[at] ^= 1 << data.draw(st.integers(0, 7))
            case "repeat":
                made[at:at] = made[at : at + data.draw(st.integers(1, 64))]
            case _:
                made[at:at] = data.draw(st.binary(max_size=8))
    is_read_or_refused(file.suffix, bytes(made))


def test_thousands_of_spans_in_each_other_are_one_run() -> None:
    """Depth costs no recursion, and no more than the number of spans."""
    nested = [
        (
            "5b8efff798038103d269b633813fc60c",
            otlp.SpanRecord(
                f"{number:016x}",
                f"{number - 1:016x}" if number > 1 else None,
                number,
                30_000 - number,
                {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"a{number}"},
            ),
        )
        for number in range(1, 4_001)
    ]
    for _, record in nested:
        otlp.keep_foreign(record, "invoke_agent")
    (trace,) = otlp.traces(nested)
    assert len(trace.events) == 8_000
    assert trace.flags == ()


def test_thousands_of_spans_beside_each_other_cost_no_square_of_that() -> None:
    """Parallel agents of one name, stray calls, hand-offs to nobody: all in one workflow."""
    kinds = (
        {"traceloop.span.kind": "agent", "gen_ai.agent.name": "a"},
        {"traceloop.span.kind": "tool", "gen_ai.tool.name": "t"},
        {"traceloop.span.kind": "handoff", "gen_ai.handoff.from_agent": "a"},
        {"openinference.span.kind": "LLM"},
        {"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "a"},
    )
    root = otlp.SpanRecord("f" * 16, None, 0, 10**6, {"traceloop.span.kind": "workflow"})
    beside = [
        otlp.SpanRecord(f"{n:016x}", "f" * 16, n, n + 20_000, dict(kinds[n % len(kinds)]))
        for n in range(1, 4_001)
    ]
    received = [("5b8efff798038103d269b633813fc60c", one) for one in (root, *beside)]
    for _, record in received:
        otlp.keep_foreign(record, "x")
    (trace,) = otlp.traces(received)
    assert len(trace.edges) < 40 * len(beside)
    assert trace.metrics["spans_passed_through"] == 0
