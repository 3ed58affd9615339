"""A callback is told of each point while the event is open, and is never in the way of the host."""

from __future__ import annotations

import functools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import _guard
from orchtrace_otel.advice.advisor import DecisionPoint
from orchtrace_otel.rewards.stopping.points import read_course
from tests.trees import recording
from tests.unit.advice.teams import model, points, run, team, writer


def test_a_callback_is_told_of_each_point_before_the_event_is_over() -> None:
    """With ids that a grade can be given to, which the trace then reads as `answer_now`."""
    told: list[DecisionPoint] = []

    def grade(point: DecisionPoint) -> None:
        told.append(point)
        grade = point.features["step"] / 8
        orchtrace.record_reward("answer_now", grade, event_id=point.event_id)

    with orchtrace.advise(model(), grade):
        trace = run(team)
    assert [point.event_id for point in told] == [event.id for event in points(trace)]
    assert {point.run_id for point in told} == {trace.trace_id}
    assert [(point.name, point.agent) for point in told[:2]] == [
        ("delegate", "team"),
        ("return", "writer"),
    ]
    assert told[0].advice is not None
    assert told[0].advice.model == model().version
    grades = [point.answer_now for point in read_course(trace).points]
    assert grades == [1 / 8, 2 / 8, 3 / 8, 4 / 8, 5 / 8, 6 / 8]


@pytest.mark.swallows_errors
def test_a_callback_that_fails_costs_the_host_nothing() -> None:
    """Its error is counted and logged; the advice is written all the same."""

    def fail(point: DecisionPoint) -> None:
        raise RuntimeError

    with orchtrace.advise(model(), fail):
        trace = run(team)
    assert len([event for event in points(trace) if "advice" in event.keys]) == 6
    site = next(site for site in _guard.swallowed if site.endswith("fail"))
    assert _guard.swallowed[site] == 6


@pytest.mark.swallows_errors
def test_a_callback_that_fails_is_named_with_the_class_of_its_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whose it is, where it stands and what it raised; what the error says may be content."""
    site = f"{__name__}.refuse"
    _guard.swallowed.pop(site, None)
    with orchtrace.advise(None, functools.partial(refuse, "the canary")):
        run(team)
    assert caplog.messages == [
        f"a callback of advise() failed in {site} with LookupError and costs what it would have "
        "said; further failures there are only counted; the traceback is logged at DEBUG"
    ]


def refuse(text: str, point: DecisionPoint) -> None:
    raise LookupError(text, point)


def test_what_a_callback_does_in_the_run_is_no_point_of_its_own() -> None:
    """It would be told of that too, for ever."""
    count: list[str] = []

    def decide(point: DecisionPoint) -> None:
        count.append(point.name)
        orchtrace.decide("meta", chosen="on")

    @orchtrace.team
    def small() -> None:
        orchtrace.decide("route", chosen="x")

    with orchtrace.advise(None, decide):
        trace = run(small)
    assert count == ["route", "stop"]
    assert [event["decision_point"] for event in points(trace)] == ["route", "stop"]


def test_a_callback_may_ask_a_team() -> None:
    """A judge that grades: a run of its own has points, and nobody is told of them, for ever."""
    told: list[str] = []

    @orchtrace.agent
    def judge() -> None:
        orchtrace.decide("verdict", chosen="good")

    def grade(point: DecisionPoint) -> None:
        told.append(point.name)
        judge()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(judge).result()

    @orchtrace.team(task_id="small")
    def small() -> None:
        orchtrace.decide("route", chosen="x")

    with orchtrace.instrument(), recording() as captured, orchtrace.advise(None, grade):
        small()
    assert told == ["route", "stop"]
    assert [trace.task_id == "small" for trace in captured.traces].count(True) == 1
    for trace in captured.traces:
        names = [event["decision_point"] for event in points(trace)]
        is_own = trace.task_id != "small"
        assert names == (["verdict", "return", "stop"] if is_own else ["route", "stop"])


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_callback_that_is_interrupted_costs_no_trace(at: int) -> None:
    """The interrupt is the host's; the event that it came in, the stop too, ends all the same."""
    told: list[str] = []

    def interrupted(point: DecisionPoint) -> None:
        told.append(point.name)
        if len(told) == at:
            raise KeyboardInterrupt

    @orchtrace.team
    def small() -> None:
        orchtrace.decide("route", chosen="x")
        writer("a")

    with (
        recording() as captured,
        orchtrace.advise(None, interrupted),
        pytest.raises(KeyboardInterrupt),
    ):
        small()
    assert captured.started == captured.ended
    trace = captured.trace
    assert trace.flags == ()
    assert trace.stop is not None
    assert trace.stop["stop_reason"] == ("information_complete" if at == 3 else "cancelled")


@pytest.mark.parametrize("answer", [None, True, "0.5", 1.5, -0.1, math.nan])
def test_only_a_probability_is_one(answer: Any) -> None:
    """Whatever else a callback returns is its own affair."""
    with orchtrace.advise(None, lambda point: answer):
        trace = run(team)
    assert not any("stop_probability" in event.keys for event in trace.events)


def test_a_callback_may_wait_for_other_agents() -> None:
    """It holds nothing that they need: two that wait for each other both go on."""
    meet = threading.Barrier(2)

    @orchtrace.team
    def pair() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(writer, "ab"))

    def together(point: DecisionPoint) -> None:
        if point.agent == "writer":
            meet.wait(30)

    with orchtrace.instrument(), orchtrace.advise(callback=together):
        trace = run(pair)
    assert [event.verb for event in points(trace)] == ["return", "return", "stop"]
    assert not meet.broken
