"""What a policy would have been worth, from runs that another one stopped.

To stop earlier than the log did is to cut its run short, so where that point is graded
the value is known: truncation, and no weights. To go on past the log's stop is to guess,
unless the log stopped by chance with known probability (see `overlap`). What is not
identified gets no number, and says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.rewards.stopping._learn import Floats, np
from orchtrace_otel.rewards.stopping.baselines import (
    FITTED,
    ORACLE,
    Named,
    Policy,
    all_policies,
    worth_of,
)
from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.rewards.stopping.overlap import (
    Draw,
    doubly_robust,
    effective_size,
    lacks_overlap,
    weight,
)
from orchtrace_otel.rewards.stopping.points import Course, once
from orchtrace_otel.rewards.student import NORMAL, student

DRAWS: Final = 2_000
"""Times that tasks are drawn anew for an interval."""

_TAILS: Final = (2.5, 97.5)

_SAME: Final = 1e-9
"""How far apart numbers are at most that are the same but for the last digits of their sums."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval, or the reason why there is none.

    Attributes:
        value: Mean worth of a run, success less the price of its steps; None: not identified.
        low: Lower end of the 95 % interval, over tasks drawn anew; None with one task.
        high: Upper end.
        estimator: `truncation`, `doubly_robust`, or None.
        ess: How many runs of equal weight would be as sure.
        runs: How many runs there are.
        censored: Share of them whose stop under this policy is unknown.
        why: Why there is no value.
        seen: Mean over the other runs alone, which says nothing of those that are censored.
        ips: By importance weights, where the log stopped by chance.
        wis: The same, weights divided by their sum.
        dr: Doubly robust.
    """

    value: float | None
    low: float | None
    high: float | None
    estimator: str | None
    ess: float
    runs: int
    censored: float
    why: str | None = None
    seen: float | None = None
    ips: float | None = None
    wis: float | None = None
    dr: float | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """What the fitted policy gains on another one, both beside the log's own stop.

    Attributes:
        value: Mean of the paired differences; None where no run has both.
        low: Lower end of the 95 % interval, over tasks drawn anew.
        high: Upper end.
        runs: Runs in which both are known.
    """

    value: float | None
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Row:
    """One policy.

    Attributes:
        name: What it is called.
        says: Its parameter, or why it cannot be tried.
        alone: What it is worth where it alone decides; None where it cannot be tried.
        beside_log: What it is worth where the log's own stop still counts as well.
        gain: What the fitted policy gains on it.
    """

    name: str
    says: str
    alone: Estimate | None = None
    beside_log: Estimate | None = None
    gain: Gain | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The fitted policy and all baselines on the same runs.

    Attributes:
        model: Version of the model.
        cost: Price of a step.
        runs: How many runs.
        tasks: Of how many tasks.
        points: How many decision points.
        graded: How many of them are graded.
        rows: The policies.
    """

    model: str
    cost: float
    runs: int
    tasks: int
    points: int
    graded: int
    rows: list[Row] = field(default_factory=list[Row])

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it; what is unknown is null, and `why` says why."""
        return asdict(self)


def evaluate(model: StopValue, courses: Sequence[Course]) -> Evaluation:
    """Estimate what the model's policy and each baseline would have been worth.

    Args:
        model: A fitted stopping value; its baselines are tuned on its training tasks.
        courses: Runs that it was not fitted on.

    Raises:
        StoppingError: If there are no decision points, or the model lacks a feature there.
        MissingDependencyError: If numpy is not installed.
    """
    if not courses:
        msg = "evaluating needs runs with decision points, got none"
        raise StoppingError(msg)
    points = [point for course in courses for point in once(course).points]
    rows: list[Row] = []
    ours: list[_Stop | None] = []
    for named in all_policies(model, courses):
        if named.policy is None:
            rows.append(Row(named.name, named.says))
            continue
        row, capped = _row(model, courses, named, named.policy)
        ours = capped if named.name == FITTED else ours
        rows.append(row if named.name == FITTED else _beaten(row, ours, capped))
    return Evaluation(
        model.version,
        model.cost,
        len(courses),
        len({course.task for course in courses}),
        len(points),
        sum(point.answer_now is not None for point in points),
        rows,
    )


def interval(
    above: Floats, below: Floats, tasks: Sequence[str], draws: int = DRAWS
) -> tuple[float, float] | None:
    """Return a 95 % interval of sum(above) / sum(below), drawing whole tasks anew.

    Drawn anew few tasks are too much alike: with 5 the interval would hold the truth in 85
    of 100. Both sides are widened as Student's interval is wider than the normal one.

    Args:
        above: What is summed above, one a run.
        below: What is summed below, one a run.
        tasks: The run's task; runs of one task come and go together.
        draws: How often; the same draws for the same runs.

    Returns:
        The ends; None where there is one task alone.
    """
    _, number = np.unique(np.array(tasks, dtype=object).astype(str), return_inverse=True)
    count = int(number.max()) + 1
    if count == 1:
        return None
    sums = (np.bincount(number, one, minlength=count) for one in (above, below))
    top, bottom = sums
    # The same seed each time: a figure that is printed twice is printed alike.
    times = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=draws)
    whole = times @ bottom
    drawn: Floats = (times @ top)[whole > 0] / whole[whole > 0]
    value = float(top.sum() / bottom.sum())
    wider = student(count - 1) / NORMAL * math.sqrt(count / (count - 1))
    low, high = value + wider * (np.percentile(drawn, _TAILS) - value)
    return float(low), float(high)


class _Stop(NamedTuple):
    """Where a policy stops in a run: what that was worth, the success in it, and the task."""

    worth: float
    grade: float
    task: str


def _ends(stops: Sequence[_Stop], least: float) -> tuple[float | None, float | None]:
    """Return the interval of the mean worth, with room for grades that nobody has seen yet.

    Where all grades are alike, tasks drawn anew show none that differs. As many may as Wilson
    leaves of none in so many tasks, each by as much as a grade can.

    Args:
        stops: One a run; or of each run the difference of two.
        least: The least that a grade may be, 0, or -1 for a difference; the most is 1.
    """
    tasks = [one.task for one in stops]
    found = interval(np.array([one.worth for one in stops]), np.ones(len(stops)), tasks)
    grade, *others = (one.grade for one in stops)
    if found is None or any(abs(one - grade) > _SAME for one in others):
        return found or (None, None)
    room = NORMAL**2 / (len(set(tasks)) + NORMAL**2)
    return found[0] - room * (grade - least), found[1] + room * (1.0 - grade)


def _row(
    model: StopValue, courses: Sequence[Course], named: Named, policy: Policy
) -> tuple[Row, list[_Stop | None]]:
    places = [policy(course) for course in courses]
    is_free = [
        place is None and not one.is_limited for place, one in zip(places, courses, strict=True)
    ]
    capped = [_stop(one, at, model.cost) for one, at in zip(courses, places, strict=True)]
    alone = [None if free else one for free, one in zip(is_free, capped, strict=True)]
    estimate = _truncated(alone, sum(is_free))
    if estimate.value is None and named.name != ORACLE:
        estimate = _by_chance(model, courses, places, estimate)
    return Row(named.name, named.says, estimate, _truncated(capped, 0)), capped


def _stop(course: Course, place: int | None, cost: float) -> _Stop | None:
    worth, grade = (worth_of(course, place, price) for price in (cost, 0.0))
    return None if worth is None or grade is None else _Stop(worth, grade, course.task)


def _truncated(stops: Sequence[_Stop | None], past: int) -> Estimate:
    """Estimate by cutting runs short; `past` of them go on past the log's stop."""
    known = [one for one in stops if one is not None]
    runs, seen = len(stops), len(known)
    mean = float(np.mean([one.worth for one in known])) if seen else None
    censored = 1 - seen / runs
    if seen < runs:
        why = _why(past, runs - seen - past, runs)
        return Estimate(None, None, None, None, float(seen), runs, censored, why, mean)
    low, high = _ends(known, 0.0)
    return Estimate(mean, low, high, "truncation", float(seen), runs, censored, None, mean)


def _why(past: int, ungraded: int, runs: int) -> str:
    reasons: list[str] = []
    if past:
        reasons.append(f"in {past} of {runs} runs it goes on past the log's stop")
    if ungraded:
        reasons.append(f"in {ungraded} of {runs} runs its stop is not graded")
    return "; ".join(reasons)


def _by_chance(
    model: StopValue, courses: Sequence[Course], places: Sequence[int | None], found: Estimate
) -> Estimate:
    """Estimate by weights, where the log's hazards are known at every point."""
    draws = [_draw(model, one, at) for one, at in zip(courses, places, strict=True)]
    kept = [draw for draw in draws if draw is not None]
    if len(kept) < len(draws):
        return found
    why = f"{found.why}; the log could not have done the same there: no overlap"
    if any(lacks_overlap(draw) for draw in kept):
        return replace(found, why=why)
    weights = np.array([weight(draw) for draw in kept])
    worth = np.array([draw.worth for draw in kept])
    robust = np.array([doubly_robust(draw) for draw in kept])
    if not np.isfinite([weights, robust]).all():  # it could, but in no number of runs
        return replace(found, why=why)
    total = float(weights.sum())
    if not total:  # the rest would be the model's own word
        return replace(found, why=f"{found.why}; no run of the log happened to stop there")
    tasks = [course.task for course in courses]
    low, high = interval(robust, np.ones(len(kept)), tasks) or (None, None)
    return replace(
        found,
        value=float(robust.mean()),
        low=low,
        high=high,
        estimator="doubly_robust",
        ess=effective_size(weights.tolist()),
        why=None,
        ips=float((weights * worth).mean()),
        wis=float((weights * worth).sum() / total),
        dr=float(robust.mean()),
    )


def _draw(model: StopValue, course: Course, place: int | None) -> Draw | None:
    """Return a run as chance made it; None where something of it is unknown."""
    points = once(course).points
    place = None if place is None else min(place, len(points) - 1)
    hazard = [point.stop_probability for point in points]
    if course.is_limited:
        hazard[-1] = 1.0
    worth = worth_of(course, None, model.cost)
    known = [one for one in hazard if one is not None]
    if worth is None or len(known) < len(hazard):
        return None
    stop_value: list[float] = []
    go_value: list[float] = []
    for point in points:
        if point.features is None:
            return None
        said = model.advise(point.features)
        paid = model.cost * point.step
        stop_value.append(said.q - paid)
        go_value.append(said.g - paid)
    last = len(points) - 1
    target = last if place is None and course.is_limited else place
    return Draw(known, last, target, worth, stop_value, go_value)


def _beaten(row: Row, ours: Sequence[_Stop | None], theirs: Sequence[_Stop | None]) -> Row:
    paired = [
        _Stop(one.worth - other.worth, one.grade - other.grade, one.task)
        for one, other in zip(ours, theirs, strict=True)
        if one is not None and other is not None
    ]
    if not paired:
        return replace(row, gain=Gain(None, None, None, 0))
    mean = float(np.mean([one.worth for one in paired]))
    return replace(row, gain=Gain(mean, *_ends(paired, -1.0), len(paired)))
