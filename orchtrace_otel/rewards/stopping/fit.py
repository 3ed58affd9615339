"""Fitting a stopping value from logged runs: two regressions, backwards, cross-fitted by task."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orchtrace_otel.errors import ConfigError, StoppingError
from orchtrace_otel.rewards.stopping._learn import Flags, Floats, Places, np, one_thread
from orchtrace_otel.rewards.stopping.baselines import tune
from orchtrace_otel.rewards.stopping.calibrate import apply_curve, calibrate
from orchtrace_otel.rewards.stopping.heads import Curve
from orchtrace_otel.rewards.stopping.induction import (
    Induced,
    Table,
    induce,
    tabulate,
    value_of_policy,
)
from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.rewards.stopping.points import (
    Course,
    feature_names,
    once,
    partial_names,
    seen_points,
)
from orchtrace_otel.rewards.stopping.regress import LEARNERS, Fitted, Regression, fit_few_trees

SWEEPS: Final = 4
FOLDS: Final = 5
_MARGINS: Final = tuple(0.01 * n for n in range(101))
_GREATEST_COST: Final = 1_000
_LEAST_TASKS: Final = 2


def fit_stop_value(
    courses: Sequence[Course],
    *,
    cost: float,
    sweeps: int = SWEEPS,
    folds: int = FOLDS,
    most_premature: float | None = None,
) -> StopValue:
    """Learn from logged runs what stopping and going on are worth at each decision point.

    Success if the team answered now is regressed on the features, and calibrated; the gain
    of going on is learned backwards (see `induction`). Both are chosen, linear or trees,
    by how they do on tasks left out. A point that nobody graded teaches nothing of what
    stopping there is worth; where the policy stops at one, its estimate stands for it.

    Args:
        courses: The runs, of two tasks at least.
        cost: Price of a step, in successes: 0.05 says that twenty steps are worth a success.
        sweeps: How often the policy is followed anew; 1 follows the log to its end.
        folds: Into how many parts tasks are divided, each estimated by models of the others.
        most_premature: Share of runs that may stop before their best point; a margin on
            v_stop is raised until no more of the training tasks left out do.

    Raises:
        ConfigError: If an argument does not hold what it must.
        StoppingError: If the runs do not tell what is to be learned.
        MissingDependencyError: If numpy or scikit-learn is not installed.
    """
    _check(cost, sweeps, folds, most_premature)
    # Trees draw rows by their place: the order in which runs come must not decide.
    in_order = sorted(map(once, courses), key=lambda course: (course.task, course.run))
    with one_thread():
        return _fit(in_order, cost, sweeps, folds, most_premature)


def _fit(
    courses: Sequence[Course],
    cost: float,
    sweeps: int,
    folds: int,
    most_premature: float | None,
) -> StopValue:
    names = feature_names(courses)
    table = tabulate(courses, names, cost)
    tasks = _check_points(courses, table, names)
    fold = _folds(courses, min(folds, tasks))[table.course]
    success = _fit_success(table, fold)
    worth: Floats = np.where(table.is_graded, table.worth, success.estimate)
    seen = table.beside(success.estimate)
    most = 1.0 - cost - success.estimate
    going_on = _fit_gain(seen, worth, fold, sweeps, most)
    margin = 0.0
    if most_premature is not None:
        margin = _margin(table, going_on.induced.gain, most_premature)
    confidence = dict(zip(_ids(courses), map(float, success.estimate), strict=True))
    value = value_of_policy(table, worth, going_on.induced.gain + margin <= 0)
    return StopValue(
        features=names,
        cost=float(cost),
        q=LEARNERS[success.learner](table.x[table.is_graded], table.worth[table.is_graded]).head(),
        calibration=success.curve,
        gain=going_on.fit(seen).head(),
        spread=fit_few_trees(seen.x, going_on.spread(seen)).head(),
        margin=margin,
        baselines=tune(courses, cost, confidence),
        facts={
            "runs": len(courses),
            "tasks": tasks,
            "points": len(table.worth),
            "graded": int(table.is_graded.sum()),
            "left_out": ", ".join(partial_names(courses)) or None,
            "folds": int(fold.max()) + 1,
            "sweeps": sweeps,
            "q_learner": success.learner,
            "q_calibration": success.way,
            "q_brier": success.brier,
            "gain_learner": going_on.learner,
            "value_left_out": _mean_of_runs(table, value),
        },
    )


@dataclass(frozen=True, slots=True)
class _Success:
    """Success if the team answered now, at each row by models that have not seen its task."""

    learner: str
    way: str
    curve: Curve
    estimate: Floats
    brier: float


def _fit_success(table: Table, fold: Places) -> _Success:
    graded = table.is_graded
    found: list[_Success] = []
    for name, regress in LEARNERS.items():
        raw = _left_out(table, fold, regress)
        way, curve = calibrate(raw[graded], table.worth[graded])
        estimate = apply_curve(curve, raw)
        brier = float(((estimate - table.worth)[graded] ** 2).mean())
        found.append(_Success(name, way, curve, estimate, brier))
    return min(found, key=lambda one: one.brier)


def _left_out(table: Table, fold: Places, regress: Regression) -> Floats:
    raw: Floats = np.empty(len(table.worth))
    for one in range(int(fold.max()) + 1):
        inside = fold == one
        use = table.is_graded & ~inside
        if not use.any():
            msg = (
                "decision points must be graded (answer_now) in tasks enough that some are left "
                "when any part of the tasks is left out, got grades in one part alone"
            )
            raise StoppingError(msg)
        raw[inside] = regress(table.x[use], table.worth[use]).predict(table.x[inside])
    return raw


@dataclass(frozen=True, slots=True)
class _GoingOn:
    """The gain of going on, and how it was learned."""

    learner: str
    induced: Induced
    value: float

    def fit(self, table: Table) -> Fitted:
        """Fit the model that is kept, on the rows of all tasks."""
        known = ~table.is_last
        return LEARNERS[self.learner](table.x[known], self.induced.targets[known])

    def spread(self, table: Table) -> Floats:
        """Return the jackknife's standard error of the gain at each row, over folds of tasks."""
        said = np.array([model.predict(table.x) for model in self.induced.models])
        count = len(said)
        off: Floats = said - said.mean(axis=0)
        spread: Floats = np.sqrt((off**2).sum(axis=0) * (count - 1) / count)
        return spread


def _fit_gain(table: Table, worth: Floats, fold: Places, sweeps: int, most: Floats) -> _GoingOn:
    found: list[_GoingOn] = []
    for name, regress in LEARNERS.items():
        induced = induce(table, worth, fold, regress, sweeps, most)
        value = value_of_policy(table, worth, induced.gain <= 0)
        found.append(_GoingOn(name, induced, _mean_of_runs(table, value)))
    return max(found, key=lambda one: one.value)


def _mean_of_runs(table: Table, value: Floats) -> float:
    """Return the mean over runs of what their first row is worth, less the price until there."""
    is_first = np.append(True, table.is_last[:-1])
    return float((value - table.paid)[is_first].mean())


def _margin(table: Table, gain: Floats, most_premature: float) -> float:
    """Return the least margin with which no more runs than that stop before their best point."""
    best = _best_rows(table)
    if not best:
        msg = (
            "a cap on premature stops needs runs that are graded at every point, got none; "
            "leave the cap out"
        )
        raise StoppingError(msg)
    for margin in _MARGINS:
        stops: Flags = (gain + margin <= 0) | table.is_last
        early = sum(bool(stops[start:at].any()) for start, at in best)
        if early <= most_premature * len(best):
            return margin
    return _MARGINS[-1]


def _best_rows(table: Table) -> list[tuple[int, int]]:
    """Return the first and the best row of each run that is graded throughout."""
    ends = np.flatnonzero(table.is_last)
    starts = np.append(0, ends[:-1] + 1)
    value = table.worth - table.paid
    found: list[tuple[int, int]] = []
    for start, end in zip(map(int, starts), map(int, ends), strict=True):
        rows = value[start : end + 1]
        if not np.isnan(rows).any():
            found.append((start, start + int(rows.argmax())))
    return found


def _folds(courses: Sequence[Course], count: int) -> Places:
    """Return the fold of each run: whole tasks, dealt out in an order that only names decide.

    Those that teach something come first, so that no fold gets them all by chance: what
    stopping is worth, then what going on is.
    """
    graded = {course.task for course in courses if _is_graded(course)}
    going_on = {course.task for course in courses if _goes_on(course)}
    order = sorted({course.task for course in courses}, key=_mark)
    order.sort(key=lambda task: (task not in graded, task not in going_on))
    number = {task: place % count for place, task in enumerate(order)}
    return np.array([number[course.task] for course in courses], dtype=np.intp)


def _mark(task: str) -> bytes:
    return hashlib.blake2b(task.encode("utf-8", "surrogatepass")).digest()


def _goes_on(course: Course) -> bool:
    return sum(1 for _ in seen_points(course)) > 1


def _is_graded(course: Course) -> bool:
    return any(point.answer_now is not None for _, point, _ in seen_points(course))


def _ids(courses: Sequence[Course]) -> list[str]:
    return [
        f"{course.run}/{point.event}"
        for course in courses
        for point in course.points
        if point.features is not None
    ]


def _check(cost: float, sweeps: int, folds: int, most_premature: float | None) -> None:
    if not 0 <= cost <= _GREATEST_COST:  # NaN is neither
        msg = (
            f"cost must be a finite number of successes a step, from 0 to {_GREATEST_COST:,}; "
            f"from 1 on no step is worth its price; got {cost!r}"
        )
        raise ConfigError(msg)
    if sweeps < 1 or folds < _LEAST_TASKS:
        msg = f"sweeps must be at least 1 and folds at least 2, got {sweeps!r} and {folds!r}"
        raise ConfigError(msg)
    if most_premature is not None and not 0 <= most_premature <= 1:
        msg = f"most_premature must be a share from 0 to 1, got {most_premature!r}"
        raise ConfigError(msg)


def _check_points(courses: Sequence[Course], table: Table, names: Sequence[str]) -> int:
    """Refuse what nothing can be learned from; return how many tasks there are."""
    if not names:
        msg = "fitting needs decision points with features, got none in any run"
        raise StoppingError(msg)
    if not table.is_graded.any():
        msg = (
            f"fitting needs graded decision points (answer_now), got {len(table.worth)} points "
            "and none of them graded: all are censored"
        )
        raise StoppingError(msg)
    tasks = {courses[int(number)].task for number in set(table.course.tolist())}
    if len(tasks) < _LEAST_TASKS:
        msg = (
            "fitting needs runs of at least two tasks, so that each is estimated by models that "
            f"have not seen it, got one task, {tasks.pop()!r}"
        )
        raise StoppingError(msg)
    if table.is_last.all():
        msg = "fitting needs runs with more than one decision point, got none that went on from one"
        raise StoppingError(msg)
    return len(tasks)
