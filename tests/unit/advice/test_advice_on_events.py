"""Advice stands on the events of a trace, inline as from OTLP, and changes nothing else of it."""

from __future__ import annotations

import pytest
from opentelemetry.exporter.otlp.proto.common import trace_encoder

import orchtrace_otel as orchtrace
from orchtrace_otel import otlp, spans
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.stopping.features import FEATURES
from orchtrace_otel.rewards.stopping.points import feature_names, read_course
from tests.trees import recording, tree
from tests.unit.advice.teams import critic, model, points, run, team, writer


def test_each_decision_return_and_aggregate_is_a_point_and_so_is_the_stop() -> None:
    """Named, with every feature there is, in steps from 1 on; no other event has any."""
    with orchtrace.advise():
        trace = run(team)
    found = points(trace)
    assert [(event.verb, event["decision_point"]) for event in found] == [
        ("delegate", "delegate"),
        ("return", "return"),
        ("return", "return"),
        ("aggregate", "aggregate"),
        ("decide", "route"),
        ("stop", "stop"),
    ]
    assert [event["features"]["step"] for event in found] == [1, 2, 3, 4, 5, 6]
    assert all(tuple(event["features"]) == tuple(FEATURES) for event in found)
    assert not any("advice" in event.keys for event in trace.events)
    assert sum("features" in event.keys for event in trace.events) == len(found)


def test_advice_stands_on_the_event_and_is_provisional_until_the_stop() -> None:
    """Numbers as numbers, the words and the version as texts."""
    with orchtrace.advise(model()):
        found = points(run(team))
    first = found[0]["advice"]
    assert first == {
        "q": 0.5,
        "g": pytest.approx(0.65),
        "v_stop": pytest.approx(0.15),
        "sd": pytest.approx(0.1),
        "reason": "going on is worth more",
        "model": model().version,
        "provisional": True,
    }
    assert [event["advice"]["provisional"] for event in found] == [True] * 5 + [False]
    assert [event["advice"]["v_stop"] > 0 for event in found] == [True] * 2 + [False] * 4


def test_the_trace_is_the_same_inline_and_from_otlp() -> None:
    """Points, features, advice and chances, bit for bit; and a course reads them."""
    with orchtrace.advise(model(), lambda point: 0.125), recording() as captured:
        team()
    data = trace_encoder.encode_spans(captured.spans).SerializeToString()
    (rebuilt,) = otlp.traces(otlp.read_protobuf(data))
    assert score(rebuilt).to_dict() == captured.trace.to_dict()
    course = read_course(captured.trace)
    assert [point.stop_probability for point in course.points] == [0.125] * 6
    assert feature_names([course]) == tuple(FEATURES)


def test_without_an_advisor_nothing_is_written_or_watched() -> None:
    """It is off unless it is asked for, and off again once it is closed."""
    with orchtrace.advise():
        pass
    assert spans.watchers == []
    assert points(run(team)) == []


def test_advice_changes_nothing_else_of_a_trace() -> None:
    """The same tree of events and causes, but for the attributes."""
    bare = run(team)
    with orchtrace.advise(model()):
        advised = run(team)
    assert tree(advised) == tree(bare)
    assert list(advised.edges) == list(bare.edges)


def test_where_the_root_is_elsewhere_no_advice_is_given_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A process that sees a part of a run would take it for all of it."""

    @orchtrace.team
    def caller() -> None:
        headers.update(orchtrace.inject())

    headers: dict[str, str] = {}
    with recording():
        caller()
    with orchtrace.advise(), recording(), orchtrace.extract(headers):
        writer()
        critic()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "orchtrace gives no advice in runs whose root is in another process, since only a part of "
        "them is seen here; call advise() where the run begins"
    ]
