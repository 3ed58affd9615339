"""The ways to stop wrongly, on the sheet's example, and the reward of a stop."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.model import Event, Trace
from orchtrace_otel.rewards.stopping.failure import judge_course, judge_stop, stopping_rewards
from orchtrace_otel.rewards.stopping.points import read_course
from tests.unit.rewards.stopping.courses import course

WORTH = (0.2, 0.6, 0.9, 0.9, 0.9)
COST = 0.05


@pytest.mark.parametrize(
    ("stopped", "options", "mode", "reward"),
    [
        (5, {}, "delayed", -0.10),
        (2, {}, "premature", -0.25),
        (3, {}, "right", 0.0),
        (5, {"is_circling": True}, "loop", -0.10),
        (5, {"is_limited": True}, "budget", -0.10),
        (5, {"is_circling": True, "is_limited": True}, "loop", -0.10),
        (3, {"is_unfinished": True}, "premature", 0.0),
        (2, {"is_circling": True}, "premature", -0.25),
    ],
)
def test_a_stop_is_judged_beside_the_best_one(
    stopped: int, options: dict[str, bool], mode: str, reward: float
) -> None:
    """U = .15, .5, .75, .70, .65: the best step is 3, and R_stop is minus the regret."""
    judged = judge_stop(WORTH, COST, stopped, **options)
    assert (judged.mode, judged.best) == (mode, 3)
    assert judged.reward == pytest.approx(reward)


@given(
    worth=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    cost=st.floats(0, 1),
    data=st.data(),
)
def test_regret_is_never_negative(worth: list[float], cost: float, data: st.DataObject) -> None:
    """And 0 at the best step, which is the earliest of equal ones."""
    stopped = data.draw(st.integers(1, len(worth)))
    judged = judge_stop(worth, cost, stopped)
    assert judged.regret >= 0
    assert judge_stop(worth, cost, judged.best).mode == "right"
    assert (judged.mode == "premature") == (stopped < judged.best)


def test_a_logged_stop_is_judged_by_what_its_points_show() -> None:
    """A cycle before it makes it a loop, an open delegation at it premature."""
    seen = [{"loop": 0.0}, {"loop": 1.0}, {"loop": 0.0}]
    looped = judge_course(course([0.9, 0.9, 0.9], seen), COST)
    assert looped is not None
    assert looped.mode == "loop"
    open_work = [{"open_delegations": 0.0}, {"open_delegations": 1.0}]
    early = judge_course(course([0.1, 0.9], open_work), COST)
    assert early is not None
    assert early.mode == "premature"


def test_a_course_that_is_not_graded_throughout_is_not_judged() -> None:
    """Its best step is unknown."""
    assert judge_course(course([0.1, None]), COST) is None


def test_a_stop_right_behind_the_best_point_is_right() -> None:
    """It is that point's step again and costs none more, whichever of the two was graded."""
    keys = {"features": {"step": 1}, "decision_point": "route"}
    for graded, stop_graded in ((0.9, 0.9), (0.9, None), (None, 0.9)):
        grades = [{} if one is None else {"answer_now": one} for one in (graded, stop_graded)]
        events = (
            Event("1", 1, "orchestrator_decision", "lead", {**keys, "answer_now": 0.2}),
            Event("2", 2, "orchestrator_decision", "lead", {**keys, **grades[0]}),
            Event("3", 2, "orchestrator_decision", "lead", {**keys, **grades[1], "verb": "stop"}),
        )
        judged = judge_course(read_course(Trace("run", "task", events)), COST)
        assert judged is not None
        assert (judged.mode, judged.best, judged.regret) == ("right", 2, 0.0)


@pytest.mark.parametrize(
    ("worth", "cost", "stopped", "message"),
    [
        ((), COST, 1, "stopped must be a step from 1 to 0, got 1"),
        (WORTH, COST, 0, "stopped must be a step from 1 to 5, got 0"),
        (WORTH, COST, 6, "stopped must be a step from 1 to 5, got 6"),
        (WORTH, -0.1, 1, "cost at least 0"),
        (WORTH, math.nan, 1, "must be finite"),
        ((0.5, math.inf), COST, 1, "must be finite"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(
    worth: tuple[float, ...], cost: float, stopped: int, message: str
) -> None:
    """Step 0 is no step, and no price is none."""
    with pytest.raises(StoppingError, match=message):
        judge_stop(worth, cost, stopped)


def trace(*worth: float | None) -> Trace:
    events = [
        Event(
            f"e{at}",
            at,
            "orchestrator_decision",
            "lead",
            {"verb": "decide", "features": {"step": at}}
            | ({} if one is None else {"answer_now": one}),
        )
        for at, one in enumerate(worth)
    ]
    stop = Event("stop", 9, "orchestrator_decision", "lead", {"verb": "stop"})
    return Trace("run", "task", (*events, stop))


def test_a_stop_has_a_reward_and_its_mistake_a_name() -> None:
    """Family R7 of the orchestrator; ids that a second scoring would replace."""
    found = stopping_rewards(trace(*WORTH), COST)
    assert [(one.component, one.family, one.unit, one.id) for one in found] == [
        ("stop", "R7", "orchestrator", "run:stopping:stop"),
        ("stop_delayed", "R7", "orchestrator", "run:stopping:stop_delayed"),
    ]
    assert [one.value for one in found] == pytest.approx([-0.1, 0.1])
    assert all(one.is_sound for one in found)


def test_a_stop_that_cannot_be_judged_has_no_reward() -> None:
    """Absent, and not 0."""
    assert stopping_rewards(trace(0.2, None, 0.9), COST) == []
    assert stopping_rewards(trace(), COST) == []
