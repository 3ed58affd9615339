"""Spans of other instrumentations are followed inside a run, and nowhere else."""

from __future__ import annotations

from typing import Any

from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.settings import Settings
from orchtrace_otel.testing import capture
from tests.keeping import Kept
from tests.unit.pipeline.following import foreign, observed


def test_models_that_others_record_are_turns_of_the_agent_that_called() -> None:
    """Through the user's own spans, and with the usage that the other one knows."""

    @orchtrace.agent("writer")
    def writer() -> None:
        with foreign("host").start_as_current_span("mine"):
            facts = {a.OPERATION: "chat", a.INPUT_TOKENS: 3, a.OUTPUT_TOKENS: 4}
            with foreign().start_as_current_span("chat", attributes=facts):
                pass

    with capture() as captured:
        writer()
    (turn,) = captured.trace.turns
    assert (turn.agent, turn.tokens) == ("writer", 7)


def test_a_span_of_others_that_stays_open_is_flagged() -> None:
    """Its model call may never be told; the run says so, and forgets it."""

    @orchtrace.team
    def host() -> None:
        left.append(foreign().start_span("left open"))

    left: list[Any] = []
    with capture() as captured:
        host()
        assert captured.pipeline._owners == {}
        left[0].end()
    assert captured.trace.flags == ("open_spans",)


def test_spans_from_outside_a_run_stay_outside() -> None:
    """A span that hangs below the host's request is not the team's, inline and offline."""

    @orchtrace.team
    def host(request: Any) -> None:
        with (
            otel.use_span(request),
            foreign().start_as_current_span(
                "chat", attributes={a.OPERATION: "chat", a.INPUT_TOKENS: 3}
            ),
        ):
            pass

    with capture() as captured, foreign("http").start_as_current_span("request") as request:
        host(request)
    assert captured.trace.turns == ()
    assert captured.trace.flags == ()


CALL = {a.OPERATION: "chat", a.INPUT_TOKENS: 3, a.OUTPUT_TOKENS: 4}


def test_a_span_that_is_handed_on_without_its_context_is_in_the_run() -> None:
    """As a collector sees it, whom nothing but the ids of spans tells."""

    @orchtrace.agent
    def writer() -> None:
        alone = otel.set_span_in_context(otel.get_current_span(), Context())
        foreign().start_span("chat", context=alone, attributes=CALL).end()

    with capture() as captured:
        writer()
    (turn,) = captured.trace.turns
    assert (turn.agent, turn.tokens) == ("writer", 7)


def test_models_are_turns_where_processors_are_asked_on_other_threads() -> None:
    """`ConcurrentMultiSpanProcessor` brings no context along."""

    @orchtrace.agent
    def writer() -> None:
        with provider.get_tracer("other").start_as_current_span("chat", attributes=CALL):
            pass

    kept = Kept()
    pipeline = Pipeline(Settings(), [kept], synchronous=True)
    with observed(pipeline, ConcurrentMultiSpanProcessor(2)) as provider:
        writer()
    (turn,) = kept.traces[0].turns
    assert (turn.agent, turn.tokens) == ("writer", 7)


def test_a_pipeline_keeps_to_the_runs_that_it_follows() -> None:
    """One that was shut down stays on the provider, and takes nothing of its successor's."""

    @orchtrace.team
    def host() -> None:
        with foreign().start_as_current_span("chat", attributes={a.OPERATION: "chat"}):
            sizes.extend(len(one._owners) for one in pipelines)

    sizes: list[int] = []
    with capture() as captured:
        other = Pipeline(Settings())
        captured.provider.add_span_processor(other)
        pipelines = [captured.pipeline, other]
        host()
    assert sizes == [1, 0]
    assert len(captured.trace.turns) == 1
