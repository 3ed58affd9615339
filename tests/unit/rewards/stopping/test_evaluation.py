"""Off-policy values: the sheet's numbers, and nothing where nothing is known."""

from __future__ import annotations

import pytest

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.rewards.stopping._learn import np
from orchtrace_otel.rewards.stopping.baselines import by_steps
from orchtrace_otel.rewards.stopping.evaluation import Evaluation, Row, evaluate, interval
from orchtrace_otel.rewards.stopping.heads import Curve, Linear
from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.rewards.stopping.overlap import (
    Draw,
    doubly_robust,
    effective_size,
    lacks_overlap,
    weight,
)
from orchtrace_otel.rewards.stopping.points import Course
from tests.unit.rewards.stopping.courses import course

HAZARD = (0.3, 0.5, 1.0)
"""The sheet's chances of stopping at 1, 2 and 3: .3, .35 and .35."""

LOGS = ((2, 0.5), (1, 0.1), (2, 0.6), (3, 0.4))


def draws(target: int) -> list[Draw]:
    said = (0.5, 0.5, 0.5)
    return [Draw(HAZARD, stop - 1, target - 1, worth, said, said) for stop, worth in LOGS]


def test_weights_and_estimates_are_the_sheets() -> None:
    """Target 2: weights 2.857, 0, 2.857, 0; IPS .7857, WIS .55, DR .5714."""
    logs = draws(2)
    weights = [weight(draw) for draw in logs]
    assert weights == pytest.approx([2.857, 0, 2.857, 0], abs=5e-4)
    weighted = [one * draw.worth for one, draw in zip(weights, logs, strict=True)]
    assert sum(weighted) / 4 == pytest.approx(0.7857, abs=5e-5)
    assert sum(weighted) / sum(weights) == pytest.approx(0.55)
    assert sum(map(doubly_robust, logs)) / 4 == pytest.approx(0.5714, abs=5e-5)
    assert effective_size(weights) == pytest.approx(2)


def test_stops_that_hardly_ever_happen_are_counted_without_overflow() -> None:
    """Squares of their weights are more than a float holds; so may the weights be."""
    rare = weight(Draw((1e-300,), 0, 0, 0.5))
    assert rare == pytest.approx(1e300)
    assert effective_size([rare, rare, 0.0]) == pytest.approx(2)
    assert weight(Draw((1 - 2**-53,) * 30 + (1e-300,), 30, 30, 0.5)) == float("inf")


def test_doubly_robust_is_right_when_either_part_is() -> None:
    """With the right hazards a wrong model still gives the truth on average."""
    said = (0.9, 0.1, 0.3)
    truth = (0.2, 0.7, 0.4)
    chances = (0.3, 0.35, 0.35)
    mean = sum(
        chance * doubly_robust(Draw(HAZARD, stop, 1, truth[stop], said, said))
        for stop, chance in enumerate(chances)
    )
    assert mean == pytest.approx(truth[1])


def test_overlap_is_missing_where_the_log_never_or_always_stops() -> None:
    """Nobody was seen to stop where the log never does, nor to go on where it always stops."""
    assert lacks_overlap(Draw((0.0, 1.0), 1, 0, 0.5))
    assert lacks_overlap(Draw((1.0,), 0, None, 0.5))
    assert not lacks_overlap(Draw((0.5, 1.0), 1, 1, 0.5))


def model(threshold: float) -> StopValue:
    """Stop from step `threshold` on; success is said to be one half."""
    width = 1
    gain = Linear(threshold - 0.5, (-1.0, 0.0), (0.0, 0.0), (99.0, 1.0))
    flat = Linear(0.5, (0.0,) * width, (0.0,) * width, (99.0,) * width)
    spread = Linear(0.1, (0.0, 0.0), (0.0, 0.0), (99.0, 1.0))
    tuned = {"step": 2, "tokens": 200.0, "elapsed_s": 2.0, "q": 0.9, "unchanged": None}
    return StopValue(("step",), 0.1, flat, Curve((0.5,), (0.5,)), gain, spread, baselines=tuned)


def row(found: Evaluation, name: str) -> Row:
    return next(one for one in found.rows if one.name == name)


def logs() -> list[Course]:
    return [
        course([0.2, 0.6, 0.9], run="a", task="a"),
        course([0.1, 0.1, 0.2], run="b", task="b"),
    ]


def test_stopping_earlier_than_the_log_needs_no_weights() -> None:
    """The mean of what was graded there, less its price, with all runs counting."""
    found = row(evaluate(model(2), logs()), "fitted").alone
    assert found is not None
    assert found.value == pytest.approx((0.6 - 0.2 + 0.1 - 0.2) / 2)
    assert (found.estimator, found.ess, found.censored, found.why) == ("truncation", 2, 0, None)
    # Two tasks say as much as two observations: Student's 12.706, not the normal 1.96.
    assert found.low == pytest.approx(0.15 - 12.706 / 1.96 * 2**0.5 * 0.25, abs=1e-3)
    assert found.high == pytest.approx(0.15 + 12.706 / 1.96 * 2**0.5 * 0.25, abs=1e-3)


def test_going_on_past_the_log_gets_no_number_and_says_why() -> None:
    """Alone it is unknown; beside the log's own stop it is what the log got."""
    found = row(evaluate(model(9), logs()), "fitted")
    assert found.alone is not None
    assert found.beside_log is not None
    assert (found.alone.value, found.alone.censored) == (None, 1.0)
    assert found.alone.why == "in 2 of 2 runs it goes on past the log's stop"
    assert found.beside_log.value == pytest.approx((0.9 - 0.3 + 0.2 - 0.3) / 2)


def test_where_a_limit_ended_the_log_no_policy_goes_on() -> None:
    """Its end is everybody's end."""
    runs = [one._replace(is_limited=True) for one in logs()]
    found = row(evaluate(model(9), runs), "fitted").alone
    assert found is not None
    assert found.value == pytest.approx(0.25)


def test_a_stop_that_nobody_graded_is_censored_and_not_zero() -> None:
    """The share is told, and the mean of the others under a name of its own."""
    runs = [*logs(), course([0.5, None, 0.5], run="c", task="c")]
    found = row(evaluate(model(2), runs), "fitted").alone
    assert found is not None
    assert (found.value, found.low, found.high) == (None, None, None)
    assert found.censored == pytest.approx(1 / 3)
    assert found.why == "in 1 of 3 runs its stop is not graded"
    assert found.seen == pytest.approx(0.15)


def test_a_log_that_stops_by_chance_gives_weighted_estimates() -> None:
    """Where some runs stopped too early, those that happened to go on stand for them."""
    runs = [
        course([None] * (stop - 1) + [worth + 0.1 * stop], run=f"r{n}", task=f"t{n}",
               hazard=HAZARD[:stop])
        for n, (stop, worth) in enumerate(LOGS)
    ]  # fmt: skip
    found = row(evaluate(model(2), runs), "fitted").alone
    assert found is not None
    assert found.estimator == "doubly_robust"
    assert found.ips == pytest.approx(0.7857, abs=5e-5)
    assert found.wis == pytest.approx(0.55)
    assert found.value == found.dr
    assert found.ess == pytest.approx(2)
    assert found.why is None


@pytest.mark.parametrize("chance", [None, 0.5])
def test_a_stop_right_behind_a_point_is_no_second_chance(chance: float | None) -> None:
    """It is that point again, whatever a callback said there: the sheet's numbers."""
    runs: list[Course] = []
    for n, (stop, worth) in enumerate(LOGS):
        grades = [*[None] * (stop - 1), worth + 0.1 * stop]
        run = course(grades, run=f"r{n}", task=f"t{n}", hazard=HAZARD[:stop])
        behind = run.points[-1]._replace(event="stop", stop_probability=chance)
        runs.append(run._replace(points=(*run.points, behind)))
    found = row(evaluate(model(2), runs), "fitted").alone
    assert found is not None
    assert found.ips == pytest.approx(0.7857, abs=5e-5)
    assert found.wis == pytest.approx(0.55)
    assert found.ess == pytest.approx(2)


def test_a_plan_without_items_is_none_that_is_done() -> None:
    """The orchestrator's own report stops where all items are, and not before there are any."""
    plan = [(0, 0), (1, 2), (2, 2)]
    seen = [{"step": 1.0, "plan_done": float(a), "plan_total": float(b)} for a, b in plan]
    runs = [course([0.1, 0.2, 0.9], seen, run=f"r{n}", task=f"t{n}") for n in range(2)]
    found = row(evaluate(model(2), runs), "self-report").alone
    assert found is not None
    assert found.value == pytest.approx(0.9 - 0.3)


def test_a_log_that_never_happened_to_do_the_same_gives_no_number() -> None:
    """It could have, but without a run that did all that is left is the model's own word."""
    runs = [course([0.5], run=f"r{n}", task=f"t{n}", hazard=[0.3]) for n in range(3)]
    found = row(evaluate(model(2), runs), "fitted").alone
    assert found is not None
    assert (found.value, found.dr, found.ips, found.estimator) == (None, None, None, None)
    assert found.why == (
        "in 3 of 3 runs it goes on past the log's stop; no run of the log happened to stop there"
    )


def test_a_log_that_always_stops_there_has_no_overlap() -> None:
    """No weight makes up for what never happens."""
    runs = [course([0.5], run=f"r{n}", task=f"t{n}", hazard=[1.0]) for n in range(2)]
    found = row(evaluate(model(2), runs), "fitted").alone
    assert found is not None
    assert found.value is None
    assert found.why == (
        "in 2 of 2 runs it goes on past the log's stop; the log could not have done the same "
        "there: no overlap"
    )


def test_a_log_that_stops_there_in_no_number_of_runs_has_no_overlap() -> None:
    """A weight that no float holds is no number, and no estimate is made of it."""
    runs = [
        course([0.5, 0.6], run=f"r{n}", task=f"t{n}", hazard=[1e-320, 1e-320]) for n in range(2)
    ]
    runs.append(course([0.5], run="r2", task="t2", hazard=[0.5]))
    found = row(evaluate(model(2), runs), "fitted").alone
    assert found is not None
    assert (found.value, found.ips) == (None, None)
    assert found.why is not None
    assert found.why.endswith("no overlap")


def test_all_baselines_stand_beside_it() -> None:
    """Those that cannot be tried say what is missing, and gains are paired by run."""
    found = evaluate(model(2), logs())
    assert [one.name for one in found.rows] == [
        "fitted",
        "fixed step limit",
        "token budget",
        "time budget",
        "answer unchanged",
        "confidence threshold",
        "self-report",
        "loop rule",
        "logged policy",
        "oracle",
    ]
    assert row(found, "self-report").says == (
        "the log has none of the features self_report, plan_share, plan_done"
    )
    assert row(found, "self-report").alone is None
    gain = row(found, "fixed step limit").gain
    assert gain is not None
    assert (gain.value, gain.runs) == (0, 2)
    oracle = row(found, "oracle").alone
    assert oracle is not None
    assert oracle.value == pytest.approx((0.6 + 0.0) / 2)


@pytest.mark.parametrize("count", [2, 3, 5, 10])
def test_intervals_of_few_tasks_hold_the_truth_as_often_as_they_say(count: int) -> None:
    """Four runs of each: of 300 experiments at least 90 of 100 hold it."""
    dice = np.random.default_rng(1)
    held = 0
    for _ in range(300):
        of_task = np.repeat(dice.normal(0, 0.3, count), 4)
        found = interval(
            of_task + dice.normal(0, 0.3, 4 * count),
            np.ones(4 * count),
            [f"t{n // 4}" for n in range(4 * count)],
            draws=300,
        )
        assert found is not None
        held += found[0] <= 0 <= found[1]
    assert held >= 270


def test_what_no_task_has_shown_yet_is_left_room() -> None:
    """Of 20 tasks one in twenty fails: often none did, and drawn anew none does."""
    dice = np.random.default_rng(5)
    held = 0
    for _ in range(60):
        grades = (dice.random(20) < 0.95).astype(float).tolist()
        runs = [course([grade], task=f"t{n}", is_limited=True) for n, grade in enumerate(grades)]
        found = row(evaluate(model(1), runs), "fitted").alone
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.95 - 0.1 <= found.high
    assert held >= 56


def test_policies_that_stopped_alike_may_differ_in_other_tasks() -> None:
    """The difference is 0 in all ten, and its interval leaves as much room on both sides."""
    runs = [course([0.2, 0.6], task=f"t{n}") for n in range(10)]
    gain = row(evaluate(model(2), runs), "fixed step limit").gain
    assert gain is not None
    assert gain.low is not None
    assert (gain.value, gain.low) == (0, pytest.approx(-(gain.high or 0)))
    assert 0.2 < -gain.low < 0.3


def test_one_task_has_no_interval() -> None:
    """Its runs come and go together, so nothing says how other tasks would differ."""
    runs = [one._replace(task="same") for one in logs()]
    found = row(evaluate(model(2), runs), "fitted").alone
    assert found is not None
    assert (found.low, found.high) == (None, None)


def test_an_interval_draws_tasks_not_runs() -> None:
    """Copies of a run under its own task make nothing surer; the same call gives the same ends."""
    values = np.array([0.0, 1.0, 0.0, 1.0])
    once = interval(values, np.ones(4), ["a", "b", "c", "d"])
    copied = interval(np.repeat(values, 5), np.ones(20), [*"aaaaabbbbbcccccddddd"])
    assert once == copied == interval(values, np.ones(4), ["a", "b", "c", "d"])


def test_a_stop_right_behind_a_point_is_counted_as_that_point() -> None:
    """As in learning from the same runs."""
    run = course((0.2, 0.5, 0.5))
    stopped = run._replace(points=(*run.points[:2], run.points[2]._replace(step=2)))
    found = evaluate(model(2), [stopped])
    assert (found.points, found.graded) == (2, 2)


def test_no_runs_are_refused() -> None:
    """There is nothing to say."""
    with pytest.raises(StoppingError, match="evaluating needs runs with decision points, got none"):
        evaluate(model(2), [])


def test_a_policy_looks_at_nothing_behind_its_stop() -> None:
    """A run that is cut after the stop has the same stop."""
    whole = course([0.2, 0.6, 0.9])
    cut = whole._replace(points=whole.points[:2])
    assert by_steps(2)(whole) == by_steps(2)(cut) == 1
