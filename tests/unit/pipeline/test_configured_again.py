"""Configuring again takes over: what came before is delivered, and nothing is sent twice."""

from __future__ import annotations

from collections import Counter

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel.pipeline import Pipeline
from tests.keeping import Kept
from tests.unit.pipeline.following import configured, lead


def test_a_second_configuration_takes_over() -> None:
    """The last call counts; what the first was given is delivered, then let go of."""
    other = Kept()
    with configured() as (provider, exporter):
        lead()
        orchtrace.configure(tracer_provider=provider, exporters=[other])
        lead()
        assert orchtrace.flush()
        assert (len(exporter.traces), len(other.traces)) == (1, 1)
        assert (exporter.shutdowns, other.shutdowns) == (1, 0)
        mine = [p for p in provider._active_span_processor._span_processors if _is_ours(p)]
        assert len(mine) == 1


def test_the_same_exporter_twice_goes_on() -> None:
    """An exporter that both calls name is not shut down in between."""
    with configured() as (provider, exporter):
        lead()
        orchtrace.configure(tracer_provider=provider, exporters=[exporter])
        lead()
        assert orchtrace.flush()
        assert (len(exporter.traces), exporter.shutdowns) == (2, 0)


def test_configuring_again_after_a_shutdown_traces_again() -> None:
    """A provider that was followed once can be followed again."""
    with configured() as (provider, _):
        lead()
        orchtrace.shutdown()
        lead()
        again = Kept()
        orchtrace.configure(tracer_provider=provider, exporters=[again])
        lead()
        assert orchtrace.flush()
        assert len(again.traces) == 1


def test_an_exporter_of_spans_gets_one_batch_processor() -> None:
    """However often it is configured, spans are sent once."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    try:
        for _ in range(3):
            orchtrace.configure(tracer_provider=provider, exporters=[memory])
        processors = provider._active_span_processor._span_processors
        assert sum(isinstance(one, BatchSpanProcessor) for one in processors) == 1
        lead()
        assert orchtrace.flush()
        assert Counter(span.name for span in memory.get_finished_spans()) == Counter(
            ["invoke_workflow lead", "invoke_agent critic", "execute_tool search", "stop"]
        )
    finally:
        orchtrace.shutdown()
        provider.shutdown()


def _is_ours(processor: object) -> bool:
    return isinstance(processor, Pipeline)
