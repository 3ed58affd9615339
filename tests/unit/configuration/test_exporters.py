"""An exporter is put under the provider once; what it loses is counted and told."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel import configuration
from orchtrace_otel.model import Trace
from orchtrace_otel.tables.reading import read
from tests.keeping import Kept
from tests.unit.configuration.teams import team


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_place_stays_where_it_was_when_it_was_named(
    kind: str, provider: TracerProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever folder the application goes to afterwards."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    content = {"mode": "EVENT_ONLY", "store": "content"}
    orchtrace.configure(tracer_provider=provider, exporters=[f"{kind}:runs"], content=content)
    monkeypatch.chdir(there)
    team()
    assert orchtrace.flush()
    assert list(there.iterdir()) == []
    assert len([item for item in read(str(here / "runs")) if isinstance(item, Trace)]) == 1
    orchtrace.shutdown()
    assert list(there.iterdir()) == []


def test_an_exporter_of_spans_is_put_under_the_provider_once(provider: TracerProvider) -> None:
    """Configured twice, nothing is sent twice; another of its class is another destination."""
    first, second = InMemorySpanExporter(), InMemorySpanExporter()
    orchtrace.configure(tracer_provider=provider, exporters=[first])
    orchtrace.configure(tracer_provider=provider, exporters=[first, second])
    team()
    orchtrace.flush()
    assert [len(memory.get_finished_spans()) for memory in (first, second)] == [2, 2]


@pytest.mark.parametrize("processor", [BatchSpanProcessor, SimpleSpanProcessor])
@pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is None,
    reason="the official OTLP exporter is an extra",
)
def test_no_second_otlp_exporter_is_added(
    processor: Callable[[Any], Any], provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that ships spans by OTLP already goes on as it does."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    class Quiet(OTLPSpanExporter):
        def export(self, spans: Any) -> Any: ...

    provider.add_span_processor(processor(Quiet(endpoint="http://localhost:1")))
    before = len(configuration._span_exporters(provider))
    orchtrace.configure(tracer_provider=provider, exporters=["otlp:http://localhost:1"])
    assert len(configuration._span_exporters(provider)) == before == 1


def test_an_exporter_that_fails_is_counted_and_costs_nothing_else(
    provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """The other exporter gets the trace, and nobody is raised at."""

    class Broken(Kept):
        def export(self, trace: Trace) -> None:
            raise OSError("the canary")

    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[Broken(), kept])
    team()
    orchtrace.flush()
    assert len(kept.traces) == 1
    assert orchtrace.losses() == {"export_failed:Broken": 1}
    assert "canary" not in caplog.text
    orchtrace.shutdown()
    assert orchtrace.losses() == {"export_failed:Broken": 1}


def test_an_exporter_that_is_named_twice_gets_each_trace_once(
    provider: TracerProvider, tmp_path: Path
) -> None:
    """By its name and target, or as an object."""
    kept = Kept()
    target = f"jsonl:{tmp_path}"
    orchtrace.configure(tracer_provider=provider, exporters=[kept, target, kept, target])
    team()
    orchtrace.shutdown()
    assert len(kept.traces) == 1
    assert (tmp_path / "traces.jsonl").read_text().count("\n") == 1


def test_what_was_lost_beside_the_runs_is_told_at_shutdown(
    provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """What an exporter lost on a thread of its own, with its number, once."""

    class Lossy(Kept):
        dropped: ClassVar = {"unsent": 7}

    orchtrace.configure(tracer_provider=provider, exporters=[Lossy()])
    orchtrace.shutdown()
    orchtrace.shutdown()
    assert caplog.messages == ["orchtrace lost data in this process, beyond the runs: unsent: 7"]


def test_spans_that_no_collector_took_are_counted(provider: TracerProvider) -> None:
    """By the exporters that know how many."""

    class Down(InMemorySpanExporter):
        lost = 3

    orchtrace.configure(tracer_provider=provider, exporters=[Down()])
    assert orchtrace.losses() == {"spans_undelivered": 3}
