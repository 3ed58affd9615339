"""Sampling does not decide what is learned from, where the provider is made here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import INVALID_SPAN_CONTEXT as INVALID
from opentelemetry.trace import SpanContext, TraceState

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel.sampling import RecordOurs, weight_of
from orchtrace_otel.schema import read_lines
from orchtrace_otel.tables.rows import rows_of
from orchtrace_otel.testing import capture
from tests.processes import run

OURS = {a.VERB: "decide"}
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


def _context(*, is_remote: bool = False, state: str = "") -> SpanContext:
    states = TraceState([("ot", state)] if state else [])
    return SpanContext(1, 2, is_remote, trace_state=states)


@pytest.mark.parametrize(
    ("sampler", "parent", "state", "weight"),
    [
        pytest.param(TraceIdRatioBased(0.25), INVALID, "", 4, id="ratio"),
        pytest.param(TraceIdRatioBased(1), INVALID, "", None, id="all"),
        pytest.param(ALWAYS_ON, INVALID, "", None, id="on"),
        pytest.param(ParentBased(TraceIdRatioBased(0.1)), INVALID, "", 10, id="root"),
        pytest.param(ParentBased(TraceIdRatioBased(0.1)), _context(), "", 10, id="here"),
        pytest.param(
            ParentBased(TraceIdRatioBased(0.1)), _context(is_remote=True), "", None, id="elsewhere"
        ),
        pytest.param(
            ParentBased(ALWAYS_ON), _context(is_remote=True), "th:c", 4, id="elsewhere-told"
        ),
        pytest.param(ALWAYS_ON, INVALID, "rv:0a;th:8", 2, id="threshold"),
        pytest.param(ALWAYS_ON, INVALID, "th:0", 1, id="threshold-of-all"),
        pytest.param(ALWAYS_ON, INVALID, "th:nonsense", None, id="no-threshold"),
        pytest.param(RecordOurs(TraceIdRatioBased(0.25)), INVALID, "", None, id="ours"),
        pytest.param(None, INVALID, "", None, id="no-sampler"),
    ],
)
def test_a_run_says_how_many_it_stands_for(
    sampler: Sampler | None, parent: SpanContext, state: str, weight: float | None
) -> None:
    """Only where others were dropped, and where somebody knows with which chance."""
    assert weight_of(sampler, parent, _context(state=state)) == weight


def _raise() -> str:
    raise ValueError("the canary")


@pytest.mark.swallows_errors
@pytest.mark.parametrize(
    "described",
    [
        pytest.param(_raise, id="raises"),
        pytest.param(lambda: None, id="none"),
        pytest.param(lambda: "TraceIdRatioBased{e}", id="no-number"),
    ],
)
def test_a_sampler_that_describes_itself_oddly_costs_the_weight_alone(
    described: Callable[[], Any],
) -> None:
    """The run is recorded, and nobody knows how many it stands for."""

    class Hosts(Sampler):
        def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
            return ALWAYS_ON.should_sample(*args, **kwargs)

        def get_description(self) -> str:
            return cast("str", described())

    @orchtrace.team
    def team() -> int:
        return 1

    with capture() as captured:
        tracer: Any = captured.tracing.tracer
        tracer.sampler = Hosts()
        assert team() == 1
    assert "weight" not in captured.trace.events[0].keys
    assert (captured.trace.flags, captured.started) == ((), captured.ended)


@pytest.mark.parametrize("added", [None, {"kept.by": "rule-7"}])
def test_a_sampler_that_takes_the_attributes_away_costs_nothing(
    added: dict[str, str] | None,
) -> None:
    """It is to return those that it adds, says the specification; Python's SDK has no others."""

    class Adds(Sampler):
        def should_sample(self, *args: Any, **kwargs: Any) -> SamplingResult:
            return SamplingResult(Decision.RECORD_AND_SAMPLE, added)

        def get_description(self) -> str:
            return "Adds"

    @orchtrace.agent
    def critic() -> int:
        return 1

    @orchtrace.team(task_id="q-17")
    def team() -> int:
        return critic()

    with capture() as captured:
        tracer: Any = captured.tracing.tracer
        tracer.sampler = Adds()
        team()
    one = captured.trace
    assert [event.verb for event in one.events] == ["begin", "spawn", "return", "stop"]
    assert (one.task_id, one.flags) == ("q-17", ())
    root = captured.spans[-1].attributes or {}
    assert [root.get(key) for key in added or {}] == list((added or {}).values())


SAMPLED = """
    import os

    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

    import orchtrace_otel as orchtrace

    trace.set_tracer_provider(TracerProvider(sampler=TraceIdRatioBased(0.25)))
    orchtrace.configure(exporters=["jsonl:" + os.environ["OUT"]])

    @orchtrace.team
    def team():
        return None

    for _ in range(100):
        team()
    orchtrace.shutdown()
"""


def test_the_trace_of_a_run_that_a_host_samples_has_its_weight(tmp_path: Path) -> None:
    """Of a hundred runs the host's sampler keeps about a quarter: each stands for four."""
    run(SAMPLED, OUT=str(tmp_path))
    kept = [line.trace for line in read_lines(tmp_path / "traces.jsonl") if line.trace is not None]
    assert 0 < len(kept) < 100
    assert {trace.events[0]["weight"] for trace in kept} == {4.0}
    assert {rows_of(trace).run["weight"] for trace in kept} == {4.0}


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
