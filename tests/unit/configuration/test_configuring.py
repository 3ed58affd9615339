"""`configure`, `flush` and `shutdown` with a given provider: what is followed, and until when."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as otel_trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel.model import Trace
from tests.keeping import Kept
from tests.unit.configuration.teams import team


def test_a_given_provider_is_used_and_no_global_one_is_set(provider: TracerProvider) -> None:
    """Traces go to the exporters, spans through the provider."""
    kept = Kept()
    before = otel_trace.get_tracer_provider()
    orchtrace.configure(tracer_provider=provider, exporters=[kept])
    assert team() == 3
    assert orchtrace.flush()
    assert [trace.events[-1].verb for trace in kept.traces] == ["stop"]
    assert otel_trace.get_tracer_provider() is before


def test_a_provider_around_one_of_the_sdks_is_seen_through(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logfire's, which it makes the global one, has it as its `provider`."""

    class Around(otel_trace.TracerProvider):
        def __init__(self) -> None:
            self.provider = provider

        def get_tracer(self, *args: Any, **kwargs: Any) -> otel_trace.Tracer:
            return self.provider.get_tracer(*args, **kwargs)

    around, kept = Around(), Kept()
    monkeypatch.setattr(otel_trace, "get_tracer_provider", lambda: around)
    orchtrace.configure(exporters=[kept])
    team()
    orchtrace.configure(tracer_provider=around)
    team()
    assert orchtrace.flush()
    assert [trace.flags for trace in kept.traces] == [(), ()]


def test_configuring_again_is_configuring_once(provider: TracerProvider) -> None:
    """The last call counts: one pipeline, one trace a run, and what was replaced is shut down."""
    first, second = Kept(), Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[first])
    orchtrace.configure(tracer_provider=provider, exporters=[first])
    team()
    orchtrace.configure(tracer_provider=provider, exporters=[second])
    team()
    orchtrace.flush()
    assert (len(first.traces), len(second.traces)) == (1, 1)
    assert (first.shutdowns, second.shutdowns) == (1, 0)


def test_configuring_another_provider_lets_go_of_the_first(provider: TracerProvider) -> None:
    """What was finished is delivered, and the first one's exporters are shut down."""
    other = TracerProvider(shutdown_on_exit=False)
    first, second = Kept(), Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[first])
    team()
    orchtrace.configure(tracer_provider=other, exporters=[second])
    team()
    orchtrace.flush()
    assert (len(first.traces), first.shutdowns) == (1, 1)
    assert (len(second.traces), second.shutdowns) == (1, 0)
    other.shutdown()


def test_shutdown_delivers_and_stops_following(provider: TracerProvider) -> None:
    """Twice is once; afterwards functions are called as they are; it can be configured anew."""
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept])
    team()
    orchtrace.shutdown()
    orchtrace.shutdown()
    assert (len(kept.traces), kept.shutdowns) == (1, 1)
    assert team() == 3
    assert len(kept.traces) == 1
    again = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[again])
    team()
    orchtrace.flush()
    assert (len(kept.traces), len(again.traces)) == (1, 1)


@pytest.mark.swallows_errors
def test_a_processor_of_the_hosts_that_fails_in_a_flush_is_told_by_its_result(
    provider: TracerProvider,
) -> None:
    """Its error is not the caller's, who asked for the traces, and these are there."""

    class Fails(SpanProcessor):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            raise ValueError("the canary")

    kept = Kept()
    provider.add_span_processor(Fails())
    orchtrace.configure(tracer_provider=provider, exporters=[kept])
    team()
    assert not orchtrace.flush(1e10)
    assert len(kept.traces) == 1


def test_flush_waits_no_longer_than_it_was_told_to(provider: TracerProvider) -> None:
    """Once in all, though the provider has our processor too; False says that time ran out."""
    gate = threading.Event()

    class Slow(Kept):
        def export(self, trace: Trace) -> None:
            gate.wait()

    orchtrace.configure(tracer_provider=provider, exporters=[Slow()])
    team()
    before = time.monotonic()
    assert not orchtrace.flush(0.5)
    assert 0.5 <= time.monotonic() - before < 1
    gate.set()


def test_a_disabled_sdk_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder, no key: a machine on which tracing is off may have neither."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("ORCHTRACE_STORE", str(tmp_path / "store"))
    orchtrace.configure(exporters=[f"jsonl:{tmp_path}/traces"])
    assert list(tmp_path.iterdir()) == []


def test_a_later_call_keeps_what_it_does_not_name(provider: TracerProvider) -> None:
    """A bare `configure()`, say by a library, takes nothing from what the host set up."""
    kept = Kept()
    orchtrace.configure(tracer_provider=provider, exporters=[kept], rewards={"calm": lambda _: 1})
    orchtrace.configure(tracer_provider=provider)
    team()
    assert orchtrace.flush()
    assert [trace.rewards["calm"] for trace in kept.traces] == [1.0]
    orchtrace.configure(tracer_provider=provider, exporters=[])
    team()
    assert orchtrace.flush()
    assert len(kept.traces) == 1
