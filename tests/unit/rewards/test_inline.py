"""Rewards inside the host: what a run's end computes, carries to collectors, and counts."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import otlp
from orchtrace_otel.model import Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.credit import METHODS
from tests.keeping import Kept


@orchtrace.agent(role="coder")
def code(task: str) -> str:
    return task


@orchtrace.team("research")
def team(tasks: tuple[str, ...]) -> int:
    found = [code(task) for task in tasks]
    with orchtrace.aggregate(found):
        return len(found)


@orchtrace.reward(range=(0, 1))
def task(trace: Trace) -> float:
    return 0.5


@orchtrace.reward(range=(0, 1))
def odd(trace: Trace) -> float:
    return 7.0


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(spans))
    yield made
    made.shutdown()


@pytest.fixture
def trace(provider: TracerProvider) -> Trace:
    """A run, graded by a user's function, beside one that keeps no promise."""
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards=[task, odd])
    team(("parse", "print"))
    orchtrace.flush()
    (made,) = kept.traces
    return made


def test_a_graded_run_has_credit_on_every_event(trace: Trace) -> None:
    """Each method, each event; the agents' parts sum to the outcome."""
    assert all(set(event["credit"]) == set(METHODS) for event in trace.events)
    flow = {
        record.target: record.value
        for record in trace.reward_records
        if record.component == "credit_flow" and record.unit == "agent"
    }
    assert set(flow) == {"code", "research"}
    assert sum(flow.values()) == pytest.approx(0.5, rel=1e-12)


def test_a_number_out_of_its_range_is_counted_where_losses_are(trace: Trace) -> None:
    """It is absent, flagged and counted, and costs the run nothing else."""
    assert "odd" not in trace.rewards
    assert trace.flags == ("reward_failed:odd",)
    assert orchtrace.losses() == {"rewards_failed": 1}


def test_a_root_carries_what_nobody_can_compute_again(
    trace: Trace, spans: InMemorySpanExporter
) -> None:
    """The user's reward travels, with its record; credit and built-in records do not."""
    (root,) = [span for span in spans.get_finished_spans() if span.parent is None]
    carried = orjson.loads(str((root.attributes or {})[a.REWARD_RECORDS]))
    assert [record["component"] for record in carried] == ["task"]


def test_a_collector_computes_the_same_trace(trace: Trace, spans: InMemorySpanExporter) -> None:
    """From the spans alone: rewards, records and credit, to the bit and in the same order."""
    data = encode_spans(spans.get_finished_spans()).SerializeToString()
    (built,) = otlp.traces(otlp.read_protobuf(data))
    assert built.to_json() == trace.to_json()
    assert score(built) == trace
