"""Which events of a trace are decision points, and what is read of them."""

from __future__ import annotations

from typing import Any

import pytest

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.model import Event, Reward, Trace
from orchtrace_otel.rewards.stopping.points import (
    Point,
    feature_names,
    partial_names,
    read_course,
    read_courses,
)


def decide(name: str, t: float, **keys: Any) -> Event:
    return Event(name, t, "orchestrator_decision", "lead", {"verb": "decide", **keys})


def stop(t: float, **keys: Any) -> Event:
    said = {"verb": "stop", "activation": "r", "stop_reason": "max_steps", **keys}
    return Event("stop", t, "orchestrator_decision", "lead", said)


def trace(*events: Event, **more: Any) -> Trace:
    return Trace("run", "task", events, **more)


def test_points_that_a_trace_names_are_its_points() -> None:
    """Other decisions with features are none; an event with a grade always is; tokens add up."""
    found = read_course(
        trace(
            decide("route", 1, features={"x": 1}, tokens=5),
            decide("a", 2, decision_point="go", features={"x": 1}, answer_now=0.5, tokens=7),
            decide("b", 3, answer_now=1),
            decide("c", 4, decision_point="go", features={"x": True}, stop_probability=0.25),
            stop(5),
        )
    )
    assert found.points == (
        Point("a", 1, 2, 12, {"x": 1.0}, 0.5, None),
        Point("b", 2, 3, 12, None, 1.0, None),
        Point("c", 3, 4, 12, {"x": 1.0}, None, 0.25),
    )
    assert (found.run, found.task, found.is_limited, found.reason) == (
        "run",
        "task",
        True,
        "max_steps",
    )


def test_a_trace_that_names_none_has_every_event_with_features() -> None:
    """As programs write logs that know of features and grades alone."""
    found = read_course(trace(decide("a", 1, features={"x": 1}), decide("b", 2), stop(3)))
    assert [point.event for point in found.points] == ["a"]


def test_a_stop_right_behind_a_point_costs_no_further_step() -> None:
    """Nothing was done in between; where something was, it is a step."""
    point = decide("a", 1, decision_point="go", features={"x": 1})
    end = stop(2, decision_point="stop", features={"x": 1})
    again = read_course(trace(point, end))
    later = read_course(trace(point, decide("b", 1.5), end))
    assert [[one.step for one in found.points] for found in (again, later)] == [[1, 1], [1, 2]]


def test_a_stop_right_behind_a_point_is_graded_as_that_is() -> None:
    """They are one point: whichever of them was graded, or both by the outcome."""
    seen = {"decision_point": "go", "features": {"x": 1}}
    for first, second in (({"answer_now": 0.5}, {}), ({}, {"answer_now": 0.5})):
        found = read_course(trace(decide("a", 1, **seen, **first), stop(2, **seen, **second)))
        assert [point.answer_now for point in found.points] == [0.5, 0.5]
    found = read_course(trace(decide("a", 1, **seen), stop(2, **seen), rewards={"r": 1.0}), "r")
    assert [point.answer_now for point in found.points] == [1.0, 1.0]
    both = (decide("a", 1, **seen, answer_now=0.25), stop(2, **seen, answer_now=0.5))
    assert [point.answer_now for point in read_course(trace(*both)).points] == [0.25, 0.5]
    later = (decide("a", 1, **seen, answer_now=0.25), decide("b", 1.5), stop(2, **seen))
    assert [point.answer_now for point in read_course(trace(*later)).points] == [0.25, None]


def test_the_stop_of_others_is_a_point_of_its_own() -> None:
    """Without activations nobody knows what was done before it; each point costs a step."""
    seen = {"features": {"x": 1}, "answer_now": 0.5}
    for words in ({"verb": "stop"}, {"decision": "stop"}):
        end = Event("z", 2, "orchestrator_decision", "lead", {**words, **seen})
        found = read_course(trace(decide("a", 1, **seen), end))
        assert [(point.event, point.step) for point in found.points] == [("a", 1), ("z", 2)]


def test_a_run_without_points_is_left_out() -> None:
    """Nothing could have been decided."""
    assert read_courses([trace(decide("a", 1), stop(2))]) == []


def test_a_reward_of_the_event_grades_it() -> None:
    """As `record_reward("answer_now", ..., event_id=...)` gives it, even hours later."""
    reward = Reward(id="1", component="answer_now", value=0.75, unit="turn", target="a")
    last = stop(2, reward_records=[reward.to_dict()])
    found = read_course(trace(decide("a", 1, decision_point="go", features={"x": 1}), last))
    assert [point.answer_now for point in found.points] == [0.75]


def test_the_outcome_grades_the_last_point_alone() -> None:
    """What the run answered is what stopping there was worth; a grade that is there stays."""
    events = (decide("a", 1, features={"x": 1}), decide("b", 2, features={"x": 2}), stop(3))
    found = read_course(trace(*events, rewards={"correct": 1.0}), "correct")
    assert [point.answer_now for point in found.points] == [None, 1.0]
    assert read_course(trace(*events), "correct").points[-1].answer_now is None


def test_tokens_that_no_float_holds_count_nothing() -> None:
    """Others write into a trace what they like."""
    keys = {"features": {"x": 1}, "tokens": 10**400}
    events = (Event("a", 1, "aggregate", "lead", keys), Event("b", 2, "aggregate", "lead", keys))
    assert [point.tokens for point in read_course(Trace("run", "task", events)).points] == [0, 0]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"features": {"x": "much"}},
            "feature 'x' of event 'a' of run 'run' must be a number from -1e+30 to 1e+30, "
            "got 'much'",
        ),
        (
            {"features": {"x": float("nan")}},
            "feature 'x' of event 'a' of run 'run' must be a number from -1e+30 to 1e+30, got nan",
        ),
        (
            {"features": {"x": 1e308}},
            "feature 'x' of event 'a' of run 'run' must be a number from -1e+30 to 1e+30, "
            "got 1e+308",
        ),
        (
            {"features": {"x": 10**5000}},
            "feature 'x' of event 'a' of run 'run' must be a number from -1e+30 to 1e+30, "
            "got an int of thousands of digits",
        ),
        (
            {"features": [1]},
            "features of event 'a' of run 'run' must be an object of numbers, got list",
        ),
        (
            {"answer_now": 1.5},
            "answer_now of event 'a' of run 'run' must be a number from 0 to 1, got 1.5; "
            "leave it out where it is not known",
        ),
        (
            {"answer_now": 0.5, "stop_probability": -1},
            "stop_probability of event 'a' of run 'run' must be a number from 0 to 1, got -1; "
            "leave it out where it is not known",
        ),
    ],
)
def test_what_is_no_number_is_refused(keys: dict[str, Any], message: str) -> None:
    """With the place and what came."""
    with pytest.raises(StoppingError) as caught:
        read_course(trace(decide("a", 1, **keys)))
    assert str(caught.value) == message


def test_features_that_some_points_lack_are_left_out_and_named() -> None:
    """A model can see at every point what it learned from; an adapter may say more at some."""
    courses = [
        read_course(trace(decide("a", 1, features={"x": 1, "y": 2}), stop(2))),
        read_course(trace(decide("b", 1, features={"y": 2, "z": 3}), stop(2))),
    ]
    assert feature_names(courses) == ("y",)
    assert partial_names(courses) == ("x", "z")


def test_points_without_a_common_feature_are_refused() -> None:
    """Nothing can be learned of both."""
    courses = [
        read_course(trace(decide("a", 1, features={"x": 1}), stop(2))),
        read_course(trace(decide("b", 1, features={"z": 3}), stop(2))),
    ]
    with pytest.raises(StoppingError) as caught:
        feature_names(courses)
    assert str(caught.value) == (
        "decision points must have a feature in common, but event 'b' of run 'run' has ['z'], "
        "and the first one has ['x']"
    )


def test_others_may_list_points_in_any_order() -> None:
    """Steps are counted in order of time, and the stop of others says what ended the run."""
    points = [decide(name, t, features={"t": t}, tokens=t) for name, t in (("a", 1), ("b", 2))]
    end = Event("z", 2, "orchestrator_decision", "lead", {"stop_reason": "budget_exhausted"})
    expected = read_course(trace(*points, end))
    assert [(point.event, point.step, point.tokens) for point in expected.points] == [
        ("a", 1, 1),
        ("b", 2, 3),
    ]
    assert expected.is_limited
    assert read_course(trace(end, *reversed(points))) == expected
