"""A run that finished is with the exporters, and its results are on its root."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import schema, spans
from orchtrace_otel.finished import Finished
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.rewards import MEASURES
from orchtrace_otel.settings import Settings
from orchtrace_otel.testing import capture
from tests.given import given_rewards
from tests.unit.pipeline.following import configured, critic, lead, observed


def test_a_finished_run_is_with_the_exporters() -> None:
    """What decorated functions do ends as one sound trace, results on the root."""
    memory = InMemorySpanExporter()
    with configured() as (provider, exporter):
        provider.add_span_processor(BatchSpanProcessor(memory))
        lead()
        assert orchtrace.flush()
        assert orchtrace.losses() == {}
    (trace,) = exporter.traces
    assert [event.verb for event in trace.events] == [
        "begin",
        "spawn",
        "tool_call",
        "tool_result",
        "return",
        "stop",
    ]
    assert list(schema.check(trace.to_dict())) == []
    root = next(span for span in memory.get_finished_spans() if span.parent is None)
    assert root.attributes is not None
    told = {
        key.removeprefix(a.METRIC_PREFIX): value
        for key, value in root.attributes.items()
        if key.startswith(a.METRIC_PREFIX)
    }
    # The families, topology and credit follow from the trace; the host does not wait for them.
    assert told == {
        name: value
        for name, value in (trace.metrics or {}).items()
        if name in {*MEASURES, "turns_without_usage"}
    }
    assert told.keys() < (trace.metrics or {}).keys()
    assert not [key for key in root.attributes if key.startswith(a.REWARD_PREFIX)]
    assert trace.rewards


def test_what_users_reward_is_on_the_root_beside_the_measures() -> None:
    """Whoever has the spans cannot compute it again: given rewards ride on the root."""

    def steps(trace: Trace) -> float:
        assert "balance" in (trace.metrics or {}), "a function sees what is built in"
        return len(trace.events)

    memory = InMemorySpanExporter()
    with configured(rewards=[steps]) as (provider, exporter):
        provider.add_span_processor(BatchSpanProcessor(memory))
        orchtrace.team(critic, name="scored", reward=lambda found: 0.5)()
        assert orchtrace.flush()
    (trace,) = exporter.traces
    root = next(span for span in memory.get_finished_spans() if span.parent is None)
    told = {
        key.removeprefix(a.REWARD_PREFIX): value
        for key, value in (root.attributes or {}).items()
        if key.startswith(a.REWARD_PREFIX) and key != a.REWARD_RECORDS
    }
    assert told == {"task": 0.5, "steps": len(trace.events)}
    assert trace.rewards.items() > told.items()


def test_a_run_that_nobody_takes_is_measured_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root has its measures; the rest of the score is not computed, on no thread."""
    monkeypatch.setattr(Finished, "take", lambda _: pytest.fail("nobody takes this trace"))
    memory = InMemorySpanExporter()
    observer = Pipeline(Settings())
    with observed(observer) as provider:
        provider.add_span_processor(SimpleSpanProcessor(memory))
        lead()
    root = next(span for span in memory.get_finished_spans() if span.parent is None)
    assert a.METRIC_PREFIX + "makespan" in (root.attributes or {})
    assert observer.losses == {}


def test_the_end_of_a_run_is_its_stop() -> None:
    """Scoring takes time that is not the run's: the root ends when the team returned."""
    with capture() as captured:
        lead()
    root = next(span for span in captured.spans if span.parent is None)
    stop = captured.trace.stop
    assert stop is not None
    assert root.start_time is not None
    assert root.end_time is not None
    assert stop.t == (root.end_time - root.start_time) / 1e9


def test_a_late_reward_reaches_amend() -> None:
    """A verdict for a run that is closed goes to the exporters, with the run's id."""
    with configured() as (_, exporter):
        lead()
        orchtrace.record_reward("correctness", 0.5, run_id="ab-cd")
        assert orchtrace.flush()
    ((run_id, reward),) = exporter.rewards
    assert (run_id, reward.component, reward.value) == ("ab-cd", "correctness", 0.5)


def test_a_reward_that_a_run_is_handed_after_its_end_is_a_late_one() -> None:
    """Whoever keeps the run may judge it when the answer is in the user's hands."""

    @orchtrace.team
    def kept() -> spans.Run | None:
        return orchtrace.current_run()

    late = Reward(id="mine", component="style", value=0.5)
    with configured() as (_, exporter):
        run = kept()
        assert run is not None
        run.record(late)
        assert orchtrace.flush()
    assert exporter.rewards == [(run.id, late)]
    assert [given_rewards(trace) for trace in exporter.traces] == [{}]


def test_unknown_runs_are_not_found() -> None:
    """Only runs that are open here are."""
    with capture() as captured:
        run = spans.start_run("here")
        assert run is not None
        assert captured.pipeline.find(run.id) is run
        run.close()
        assert captured.pipeline.find(run.id) is None
