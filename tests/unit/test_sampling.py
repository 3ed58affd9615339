"""Sampling does not decide what is learned from, where the provider is made here."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    TraceIdRatioBased,
)

from orchtrace_otel import attributes as a
from orchtrace_otel.sampling import RecordOurs
from tests.processes import run

OURS = {a.RUN_ID: "r"}
ROOT = {a.OPENS: "begin"}


@pytest.mark.parametrize(
    ("inner", "attributes", "decision"),
    [
        pytest.param(ALWAYS_OFF, OURS, Decision.RECORD_ONLY, id="ours-dropped"),
        pytest.param(ALWAYS_OFF, ROOT, Decision.RECORD_ONLY, id="root-dropped"),
        pytest.param(ALWAYS_OFF, {"theirs": 1}, Decision.DROP, id="theirs-dropped"),
        pytest.param(ALWAYS_OFF, None, Decision.DROP, id="bare-dropped"),
        pytest.param(ALWAYS_ON, OURS, Decision.RECORD_AND_SAMPLE, id="ours-sampled"),
        pytest.param(ALWAYS_ON, {"theirs": 1}, Decision.RECORD_AND_SAMPLE, id="theirs-sampled"),
        pytest.param(TraceIdRatioBased(0), OURS, Decision.RECORD_ONLY, id="ours-by-ratio"),
        pytest.param(ParentBased(ALWAYS_OFF), OURS, Decision.RECORD_ONLY, id="ours-by-parent"),
    ],
)
def test_what_is_ours_is_recorded_even_where_it_is_dropped(
    inner: Sampler, attributes: dict[str, str] | None, decision: Decision
) -> None:
    """Others' spans are decided as they were."""
    result = RecordOurs(inner).should_sample(None, 1, "x", attributes=attributes)
    assert result.decision is decision
    if attributes is OURS:
        assert dict(result.attributes or {}) == OURS


def test_the_description_names_the_inner_sampler() -> None:
    """So that whoever prints the provider's sampler sees both."""
    assert RecordOurs(ALWAYS_OFF).get_description() == "RecordOurs(AlwaysOffSampler)"


def test_a_recorded_span_is_not_sampled() -> None:
    """Exporters of the SDK leave it, and its children and callees see it as not sampled."""
    provider = TracerProvider(sampler=RecordOurs(ALWAYS_OFF), shutdown_on_exit=False)
    span = provider.get_tracer("t").start_span("x", attributes=OURS)
    assert span.is_recording()
    assert not span.get_span_context().trace_flags.sampled
    span.end()


SAMPLED_OUT = """
    from opentelemetry import trace
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    try:
        from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter as InMemoryLogs
    except ImportError:
        from opentelemetry.sdk._logs.export import InMemoryLogExporter as InMemoryLogs
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    import orchtrace_otel as orchtrace

    class Traces:
        seen = []
        def export(self, trace): self.seen.append(trace)
        def amend(self, run_id, reward): pass
        def flush(self, timeout_s): pass
        def shutdown(self): pass

    logs, spans, traces = InMemoryLogs(), InMemorySpanExporter(), Traces()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
    orchtrace.configure(exporters=[traces, spans], logger_provider=provider)

    @orchtrace.agent
    def critic(): return 1

    @orchtrace.team(reward=float)
    def team(): return critic()

    team()
    orchtrace.flush()
    task = traces.seen[0].rewards.get("task")
    print(len(traces.seen), [e.verb for t in traces.seen for e in t.events], task)
    print(len(spans.get_finished_spans()), len(logs.get_finished_logs()) > 0)
    orchtrace.shutdown()
"""
WHOLE = "1 ['begin', 'spawn', 'return', 'stop'] 1.0\n"


def test_a_run_that_is_sampled_out_is_built_and_scored_and_goes_nowhere_else() -> None:
    """No span to an exporter of spans, no log event; the trace exporter gets it whole."""
    assert run(SAMPLED_OUT, OTEL_TRACES_SAMPLER="always_off") == WHOLE + "0 False\n"


def test_a_run_that_is_sampled_goes_everywhere() -> None:
    """The same, with the SDK's default sampler."""
    assert run(SAMPLED_OUT) == WHOLE + "3 True\n"
