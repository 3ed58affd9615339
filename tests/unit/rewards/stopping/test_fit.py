"""Fitting: what is learned from graded and ungraded points, and what cannot be."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from orchtrace_otel.errors import ConfigError, StoppingError
from orchtrace_otel.rewards.stopping._learn import np
from orchtrace_otel.rewards.stopping.baselines import tune
from orchtrace_otel.rewards.stopping.calibrate import apply_curve, calibrate
from orchtrace_otel.rewards.stopping.evaluation import evaluate
from orchtrace_otel.rewards.stopping.fit import fit_stop_value
from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.rewards.stopping.points import Course
from orchtrace_otel.rewards.stopping.regress import LEARNERS
from tests.unit.rewards.stopping.courses import SHEET_COST, course, sheet

LIMIT = 5
QUICK = {"folds": 2, "sweeps": 3}
"""Half the work of the defaults, for what does not depend on them."""


@cache
def runs(count: int = 40, graded: float = 1.0) -> tuple[Course, ...]:
    """Half of the tasks are hopeless, and show it; in the others success comes at step 3."""
    dice = random.Random(5)  # noqa: S311 - a simulation
    found: list[Course] = []
    for number in range(count):
        is_hopeless = number % 2
        worth: list[float | None] = []
        seen: list[dict[str, float]] = []
        for step in range(1, LIMIT + 1):
            success = float(not is_hopeless and step >= 3)
            worth.append(success if dice.random() < graded else None)
            seen.append(
                {
                    "step": float(step),
                    "verdict": success + dice.gauss(0, 0.1),
                    "failures": is_hopeless + dice.gauss(0, 0.1),
                }
            )
        found.append(
            course(worth, seen, run=f"run{number}", task=f"task{number // 2}", is_limited=True)
        )
    return tuple(found)


@cache
def fitted(graded: float = 1.0) -> StopValue:
    return fit_stop_value(runs(graded=graded), cost=0.05, **QUICK)


@pytest.mark.parametrize("graded", [1.0, 0.5])
def test_it_stops_what_is_done_and_what_is_hopeless_and_nothing_else(graded: float) -> None:
    """An ungraded point is censored: were it 0, what is done would seem worth going on with."""
    model = fitted(graded)
    done = model.advise({"step": 3, "verdict": 1, "failures": 0})
    hopeless = model.advise({"step": 1, "verdict": 0, "failures": 1})
    young = model.advise({"step": 1, "verdict": 0, "failures": 0})
    assert done.should_stop
    assert hopeless.should_stop
    assert not young.should_stop
    assert done.q == pytest.approx(1, abs=0.1)
    assert hopeless.q == pytest.approx(0, abs=0.1)
    assert young.v_stop == pytest.approx(1 - 2 * 0.05, abs=0.15)
    assert model.facts["points"] == 200
    assert (model.facts["graded"] == 200) == (graded == 1.0)


def test_the_value_on_tasks_left_out_is_that_of_the_best_policy() -> None:
    """(1 - 3 x 0.05) of one half, and -0.05 of the other."""
    assert fitted().facts["value_left_out"] == pytest.approx((0.85 - 0.05) / 2, abs=0.01)


def test_the_same_runs_give_the_same_model() -> None:
    """Version and all, in whatever order they come."""
    mixed = list(runs())
    random.Random(7).shuffle(mixed)  # noqa: S311 - an order, no secret
    assert fit_stop_value(mixed, cost=0.05, **QUICK) == fitted()


def test_a_stop_right_behind_a_point_teaches_nothing_more() -> None:
    """It is that point again: nobody went on from the one to the other, and gained nothing."""
    echoed = []
    for one in runs():
        seen = {name: value + 1 for name, value in (one.points[-1].features or {}).items()}
        stop = one.points[-1]._replace(event="stop", features=seen)
        echoed.append(one._replace(points=(*one.points, stop)))
    assert fit_stop_value(echoed, cost=0.05, **QUICK) == fitted()


def test_the_price_decides() -> None:
    """Where a step costs more than it can bring, all is stopped at once."""
    model = fit_stop_value(runs(), cost=0.6, **QUICK)
    assert model.advise({"step": 1, "verdict": 0, "failures": 0}).should_stop


def test_baselines_are_tuned_on_the_training_tasks() -> None:
    """The fixed limit is 3: what succeeds has succeeded then."""
    assert fitted().baselines["step"] == 3
    assert fitted().baselines["unchanged"] is None


def test_a_log_without_tokens_has_no_token_budget() -> None:
    """A budget of 0 would stop at once, however good it is to go on: no baseline to beat."""
    bare = [
        one._replace(points=tuple(point._replace(tokens=0.0) for point in one.points))
        for one in sheet()
    ]
    model = fit_stop_value(bare, cost=SHEET_COST)
    assert model.baselines["tokens"] is None
    budget = next(row for row in evaluate(model, bare).rows if row.name == "token budget")
    assert (budget.alone, "not tuned" in budget.says) == (None, True)


def test_baselines_are_not_tuned_to_the_few_runs_that_are_graded() -> None:
    """One lucky grade at step 1 among ten runs does not outweigh what is likely there."""
    grades: list[list[float | None]] = [[1.0, None], *([None, 0.8] for _ in range(9))]
    courses = [course(worth, run=f"r{n}", task=f"t{n}") for n, worth in enumerate(grades)]
    likely = {f"r{n}/r{n}{step}": 0.1 if step == 1 else 0.8 for n in range(10) for step in (1, 2)}
    assert tune(courses, 0.05, likely)["step"] == 2


def test_a_cap_on_premature_stops_raises_the_margin() -> None:
    """No more than the cap of the runs that are known throughout stop before their best point."""
    noisy = [
        one._replace(
            points=tuple(
                point._replace(features={"step": float(point.step), "failures": 0.5})
                for point in one.points
            )
        )
        for one in runs()
    ]
    free = fit_stop_value(noisy, cost=0.3, **QUICK)
    capped = fit_stop_value(noisy, cost=0.3, most_premature=0.0, **QUICK)
    assert free.margin == 0
    assert capped.margin > 0
    blind = {"step": 1.0, "failures": 0.5}
    assert free.advise(blind).should_stop
    assert capped.advise(blind).v_stop == pytest.approx(free.advise(blind).v_stop + capped.margin)


def test_heads_say_what_the_regressions_say() -> None:
    """The standard library's sum is scikit-learn's, for both kinds."""
    x = np.random.default_rng(1).normal(size=(200, 3))
    y = x[:, 0] * (x[:, 1] > 0)
    for name, regress in LEARNERS.items():
        model = regress(x, y)
        head = model.head()
        said = [head(row) for row in x.tolist()]
        assert said == pytest.approx(model.predict(x).tolist(), abs=1e-9), name
        scaled = head.scaled(2.0, 1.0)
        assert scaled(x[0].tolist()) == pytest.approx(1 + 2 * said[0])


@pytest.mark.parametrize(("count", "way"), [(300, "platt"), (3_000, "isotonic")])
def test_calibration_makes_probabilities(count: int, way: str) -> None:
    """A regression that is off by a bent scale is put right, by either way."""
    dice = np.random.default_rng(2)
    truth = dice.uniform(size=count)
    worth = (dice.uniform(size=count) < truth).astype(float)
    called, curve = calibrate(truth * 10 - 3, worth)
    assert called == way
    said = apply_curve(curve, truth * 10 - 3)
    assert float(np.abs(said - truth).mean()) < 0.08
    assert [curve(at) for at in (-3.0, 2.0, 7.0)] == sorted(curve(at) for at in (-3.0, 2.0, 7.0))


def test_a_regression_that_says_nothing_is_calibrated_to_the_mean() -> None:
    """One value for all, or values that fall where success rises, tell nothing."""
    flat = calibrate(np.ones(4), np.array([0.0, 1.0, 1.0, 1.0]))
    assert flat[1](5.0) == 0.75
    worth = np.array([1.0, 1.0, 0.0, 0.0])
    assert calibrate(np.array([0.0, 1.0, 2.0, 3.0]), worth)[1](0.0) == 0.5


def ungraded(one: Course) -> Course:
    return one._replace(points=tuple(p._replace(answer_now=None) for p in one.points))


def unseen(one: Course) -> Course:
    return one._replace(points=tuple(p._replace(features=None) for p in one.points))


@pytest.mark.parametrize(
    ("courses", "message"),
    [
        ([], "fitting needs decision points with features, got none in any run"),
        (
            [unseen(one) for one in runs()],
            "fitting needs decision points with features, got none in any run",
        ),
        (
            [ungraded(one) for one in runs()],
            "fitting needs graded decision points (answer_now), got 200 points and none of them "
            "graded: all are censored",
        ),
        (
            [one._replace(task="only") for one in runs()],
            "fitting needs runs of at least two tasks, so that each is estimated by models that "
            "have not seen it, got one task, 'only'",
        ),
        (
            [one._replace(points=one.points[:1]) for one in runs()],
            "fitting needs runs with more than one decision point, got none that went on from one",
        ),
        (
            [one if one.task == "task1" else one._replace(points=one.points[:1]) for one in runs()],
            "runs must go on from a decision point in tasks enough that some are left when any "
            "part of the tasks is left out, got such runs in one part alone",
        ),
        (
            [one if one.task == "task1" else ungraded(one) for one in runs()],
            "decision points must be graded (answer_now) in tasks enough that some are left when "
            "any part of the tasks is left out, got grades in one part alone",
        ),
    ],
)
def test_runs_that_do_not_tell_are_refused(courses: list[Course], message: str) -> None:
    """With what is missing; nothing is made up in its place."""
    with pytest.raises(StoppingError) as caught:
        fit_stop_value(courses, cost=0.05)
    assert str(caught.value) == message


@pytest.mark.parametrize("number", [0, 11])
def test_two_tasks_that_go_on_are_enough_whatever_tasks_are_called(number: int) -> None:
    """Nor are these left out together."""
    named = [one._replace(task=f"{number} {one.task}") for one in runs()]
    longer = sorted({one.task for one in named})[:2]
    courses = [one if one.task in longer else one._replace(points=one.points[:1]) for one in named]
    assert fit_stop_value(courses, cost=0.05, sweeps=1).facts["folds"] == 5


@pytest.mark.parametrize("number", [0, 3])
def test_two_graded_tasks_are_enough_whatever_tasks_are_called(number: int) -> None:
    """They are not left out together; nor is a name refused that is half a surrogate pair."""
    named = [one._replace(task=f"\ud83d{number} {one.task}") for one in runs()]
    graded = sorted({one.task for one in named})[:2]
    courses = [one if one.task in graded else ungraded(one) for one in named]
    assert fit_stop_value(courses, cost=0.05, sweeps=1).facts["folds"] == 5


def test_a_cap_needs_runs_that_are_known_throughout() -> None:
    """Where a run was best to stop is not known otherwise."""
    partly = [
        one._replace(points=(one.points[0]._replace(answer_now=None), *one.points[1:]))
        for one in runs()
    ]
    with pytest.raises(StoppingError, match="needs runs that are graded at every point, got none"):
        fit_stop_value(partly, cost=0.05, most_premature=0.1, **QUICK)


@pytest.mark.parametrize(
    "options",
    [
        {"cost": math.nan},
        {"cost": -0.1},
        {"cost": math.inf},
        {"cost": 1e308},
        {"cost": 0.1, "sweeps": 0},
        {"cost": 0.1, "folds": 1},
        {"cost": 0.1, "most_premature": 1.5},
    ],
)
def test_options_that_hold_nothing_are_refused(options: dict[str, Any]) -> None:
    """Before anything is fitted."""
    with pytest.raises(ConfigError, match="must be"):
        fit_stop_value(runs(), **options)


def test_two_tasks_are_enough() -> None:
    """Each is estimated by the other's models; the spread says how little that is."""
    two = [*runs()[:2], *(one._replace(task="other", run=one.run + "b") for one in runs()[:2])]
    model = fit_stop_value(two, cost=0.05)
    assert model.facts["folds"] == 2


@pytest.mark.parametrize(
    "worth", [[(0.0, 1.0), (0.0, 1.0)], [(1.0, 1.0), (1.0, 1.0)], [(0.0, 0.0), (0.0, 1.0)]]
)
def test_a_handful_of_points_gives_their_means(worth: list[tuple[float, ...]]) -> None:
    """Nothing warns, nothing fails, and no feature is made to tell more than it can."""
    few = [course(one, run=f"r{n}", task=f"t{n}", is_limited=True) for n, one in enumerate(worth)]
    model = fit_stop_value(few, cost=0.1)
    first, second = (model.advise({"step": step}) for step in (1.0, 2.0))
    assert first == second
    gain = sum(later - now for now, later in worth) / 2 - 0.1
    mean = sum(now + later for now, later in worth) / 4
    assert first.q == pytest.approx(mean)
    # Nothing is worth more than success a step from here.
    assert first.g == pytest.approx(min(mean + gain, 0.9))
    assert first.v_stop == pytest.approx(first.g - first.q)


def test_without_numpy_it_says_what_to_install() -> None:
    """The model itself needs the standard library alone."""
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "import orchtrace_otel.rewards.stopping.model, orchtrace_otel.advice.advisor\n"
        "from orchtrace_otel.errors import MissingDependencyError\n"
        "try:\n"
        "    import orchtrace_otel.rewards.stopping.fit\n"
        "except MissingDependencyError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == (
        "fitting and evaluating a stopping value needs numpy and scikit-learn; "
        "run: pip install 'orchtrace-otel[learn]'\n"
    )
