"""Rewards and measures as log events of the GenAI conventions, beside the spans they rate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel.evaluation import Evaluations
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.sampling import RecordOurs
from orchtrace_otel.settings import Settings


class Kept:
    """Everything that leaves: spans, traces, log events."""

    def __init__(self, sampler: Sampler) -> None:
        self.traces: list[Trace] = []
        self.late: list[str] = []
        self.logs = InMemoryLogRecordExporter()
        self.spans = InMemorySpanExporter()
        self.logger_provider = LoggerProvider(shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        self.provider = TracerProvider(sampler=RecordOurs(sampler), shutdown_on_exit=False)
        self.pipeline = Pipeline(Settings(), [self], synchronous=True)
        self.pipeline._evaluations = Evaluations(self.logger_provider)
        self.provider.add_span_processor(self.pipeline)
        self.provider.add_span_processor(SimpleSpanProcessor(self.spans))

    def export(self, trace: Trace) -> None:
        self.traces.append(trace)

    def amend(self, run_id: str, reward: Reward) -> None:
        self.late.append(run_id)

    def flush(self, timeout_s: float) -> None: ...

    def shutdown(self) -> None: ...

    @property
    def events(self) -> list[ReadableLogRecord]:
        """The log events so far."""
        return list(self.logs.get_finished_logs())


@contextmanager
def kept(sampler: Sampler = ALWAYS_ON) -> Iterator[Kept]:
    """Keep what leaves the block."""
    one = Kept(sampler)
    before = spans.use(spans.Tracing(one.provider.get_tracer(a.SCOPE), one.pipeline))
    try:
        yield one
    finally:
        spans.use(before)
        one.provider.shutdown()
        one.logger_provider.shutdown()


@orchtrace.team(reward=lambda answer: 0.75)
def lead() -> str:
    """A team with two rewards."""
    orchtrace.record_reward("style", 0.5, family="R4", estimator="judge")
    return "done"


def test_rewards_and_measures_are_events_of_the_root() -> None:
    """One event each, named as the conventions say, in the context of the run's root."""
    with kept() as one:
        lead()
    (trace,) = one.traces
    root = next(span for span in one.spans.get_finished_spans() if span.parent is None)
    assert root.context is not None
    for event in one.events:
        record = event.log_record
        assert record.event_name == "gen_ai.evaluation.result"
        assert (record.trace_id, record.span_id) == (root.context.trace_id, root.context.span_id)
        assert event.instrumentation_scope is not None
        assert event.instrumentation_scope.name == a.SCOPE
    told = [dict(event.log_record.attributes or {}) for event in one.events]
    rewards = [facts for facts in told if a.REWARD_ID in facts]
    assert rewards == [
        {
            a.EVALUATION_NAME: reward.component,
            a.EVALUATION_VALUE: reward.value,
            a.RUN_ID: trace.trace_id,
            a.REWARD_ID: reward.id,
            a.REWARD_FAMILY: reward.family,
            a.REWARD_UNIT: reward.unit,
            a.REWARD_ESTIMATOR: reward.estimator,
        }
        | ({} if reward.target is None else {a.REWARD_TARGET: reward.target})
        | ({} if reward.version is None else {a.REWARD_VERSION: reward.version})
        for reward in trace.reward_records
    ]
    given = [facts for facts in rewards if facts[a.REWARD_ESTIMATOR] != "structural"]
    assert [facts[a.EVALUATION_NAME] for facts in given] == ["style", "task"]
    measures = {
        str(facts[a.EVALUATION_NAME]): facts[a.EVALUATION_VALUE]
        for facts in told
        if a.REWARD_ID not in facts
    }
    assert measures == trace.metrics


def test_a_run_that_is_not_sampled_tells_no_event() -> None:
    """It is built and scored here; neither its spans nor its events leave the process."""
    with kept(ALWAYS_OFF) as one:
        lead()
    assert len(one.traces) == 1
    assert one.traces[0].rewards.items() >= {"style": 0.5, "task": 0.75}.items()
    assert one.events == []
    assert one.spans.get_finished_spans() == ()


RUN = "0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("event_id", "span_id"),
    [
        (None, 0x00F067AA0BA902B7),
        ("00f067aa0ba902b8", 0x00F067AA0BA902B8),
        ("00f067aa0ba902b8.close", 0x00F067AA0BA902B8),
    ],
)
def test_a_late_reward_is_an_event_of_what_it_rates(event_id: str | None, span_id: int) -> None:
    """Of the event's span, else of the root; it also reaches the exporters of traces."""
    with kept() as one:
        orchtrace.record_reward("correctness", 1.0, run_id=RUN, event_id=event_id)
    (event,) = one.events
    record = event.log_record
    assert record.trace_id == 0x0AF7651916CD43DD8448EB211C80319C
    assert record.span_id == span_id
    facts = dict(record.attributes or {})
    assert facts.pop(a.REWARD_ID)
    assert facts == {
        a.EVALUATION_NAME: "correctness",
        a.EVALUATION_VALUE: 1.0,
        a.RUN_ID: RUN,
        a.REWARD_FAMILY: "R1",
        a.REWARD_UNIT: "team" if event_id is None else "turn",
        a.REWARD_ESTIMATOR: "outcome",
        **({} if event_id is None else {a.REWARD_TARGET: event_id}),
    }
    assert one.late == [RUN]


def test_a_late_reward_for_an_agent_is_an_event_of_the_root() -> None:
    """An agent's name is no span."""
    with kept() as one:
        orchtrace.record_reward("style", 1.0, run_id=RUN, target="critic")
    (event,) = one.events
    assert event.log_record.span_id == 0x00F067AA0BA902B7


@pytest.mark.parametrize("run_id", ["mine", "", "-", "xyz-abc", f"{RUN}{RUN}"])
def test_a_run_id_that_is_none_of_ours_gets_an_event_without_context(run_id: str) -> None:
    """Somebody's own id for a run is kept in the attribute; there is no span to point at."""
    with kept() as one:
        one.pipeline.late(run_id, Reward(id="r", component="style", value=1.0))
    (event,) = one.events
    assert event.log_record.span_id in {None, 0}
    assert dict(event.log_record.attributes or {})[a.RUN_ID] == run_id


def test_each_reward_has_an_id_of_its_own() -> None:
    """A reader that gets an event twice counts it once."""
    with kept() as one:
        for _ in range(3):
            orchtrace.record_reward("style", 1.0, run_id=RUN)
    assert len({(e.log_record.attributes or {})[a.REWARD_ID] for e in one.events}) == 3
