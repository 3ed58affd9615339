"""Backward induction over logged runs: what going on was worth, under a policy that gets better.

After Longstaff and Schwartz, with one change: what stopping is worth is not seen when
it is decided, so it is a regression of its own. Stopping and going on are compared
within a run: the target is what the policy's later stop was worth, less the price of the
steps until then, less what stopping here was worth. What a run's luck adds to both
falls out of that. Where a log ends though no limit ended it, a policy that would have
gone on is worth what the sweep before says of going on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.rewards.stopping._learn import Flags, Floats, Places, np
from orchtrace_otel.rewards.stopping.points import Course, seen_points
from orchtrace_otel.rewards.stopping.regress import Fitted, Regression


@dataclass(frozen=True, slots=True)
class Table:
    """The points of many courses whose features are known, one a row, in order.

    Attributes:
        x: Features.
        worth: Graded success of stopping there; NaN where nobody graded it.
        price: Price of going on from there to the row's next point.
        paid: Price of all steps until there.
        course: Place of the row's course.
        task: Number of its task.
        is_last: Whether the log ends there; what came after, nobody knows.
        is_free: Whether the log ends there and a policy could have gone on: no limit ended it.
    """

    x: Floats
    worth: Floats
    price: Floats
    paid: Floats
    course: Places
    task: Places
    is_last: Flags
    is_free: Flags

    @property
    def is_graded(self) -> Flags:
        """Whether stopping there was graded."""
        return ~np.isnan(self.worth)

    def beside(self, estimate: Floats) -> Table:
        """Return the table with one feature more."""
        return replace(self, x=np.column_stack([self.x, estimate]))


def tabulate(courses: Sequence[Course], names: Sequence[str], cost: float) -> Table:
    """Return the table of `courses`; steps cost `cost` each."""
    tasks = {task: number for number, task in enumerate(sorted({one.task for one in courses}))}
    rows: list[list[float]] = []
    worth: list[float] = []
    steps: list[int] = []
    course_of: list[int] = []
    for number, course in enumerate(courses):
        for _, point, seen in seen_points(course):
            rows.append([seen[name] for name in names])
            worth.append(np.nan if point.answer_now is None else point.answer_now)
            steps.append(point.step)
            course_of.append(number)
    which = np.array(course_of, dtype=np.intp)
    step = np.array(steps, dtype=np.float64)
    is_last = np.append(which[1:] != which[:-1], True)
    price = cost * np.append(step[1:] - step[:-1], 0.0)
    return Table(
        np.array(rows, dtype=np.float64).reshape(len(rows), len(names)),
        np.array(worth, dtype=np.float64),
        np.where(is_last, 0.0, price),
        cost * step,
        which,
        np.array([tasks[courses[number].task] for number in course_of], dtype=np.intp),
        is_last,
        is_last & ~np.array([courses[number].is_limited for number in course_of], dtype=np.bool_),
    )


def value_of_policy(table: Table, worth: Floats, stops: Flags) -> Floats:
    """Return what each row is worth to who gets there and stops where `stops` says so.

    The log's end ends it as well. Prices count from the row on.
    """
    value = worth.copy()
    for row in range(len(value) - 2, -1, -1):
        if not table.is_last[row] and not stops[row]:
            value[row] = value[row + 1] - table.price[row]
    return value


def gains_of_going_on(table: Table, worth: Floats, stops: Flags, ahead: Floats) -> Floats:
    """Return what going on from each row gained on stopping there; NaN at the log's end.

    Where the log ended and the policy would have gone on, `ahead` is what that gains.
    """
    value = value_of_policy(table, worth + np.where(table.is_free, ahead, 0.0), stops)
    gains = np.append(value[1:], np.nan) - table.price - worth
    gains[table.is_last] = np.nan
    return gains


@dataclass(frozen=True, slots=True)
class Induced:
    """What the sweeps ended with.

    Attributes:
        gain: Gain of going on at each row, from models that have not seen the row's task.
        targets: What they were fitted on; NaN at the log's end.
        models: One a fold, for the rows outside of it.
    """

    gain: Floats
    targets: Floats
    models: tuple[Fitted, ...]


def induce(  # noqa: PLR0913 - what the sweeps go over, and how
    table: Table,
    worth: Floats,
    fold: Places,
    regress: Regression,
    sweeps: int,
    most: Floats | float = np.inf,
) -> Induced:
    """Learn the gain of going on by sweeps that each follow the policy of the one before.

    Args:
        table: The rows.
        worth: What stopping at each row is worth: graded, else estimated.
        fold: Fold of each row; models of a fold never see it. With one fold they see all.
        regress: The regression.
        sweeps: How often; the first follows the log to its end.
        most: What going on from each row can gain at most.
    """
    stops: Flags = np.zeros(len(worth), dtype=np.bool_)
    known = ~table.is_last
    folds = int(fold.max()) + 1
    gain: Floats = np.zeros(len(worth))
    targets: Floats = np.zeros(len(worth))
    models: list[Fitted] = []
    for _ in range(sweeps):
        ahead = np.clip(gain, 0.0, 1.0 - worth)
        targets = gains_of_going_on(table, worth, stops, ahead)
        gain = np.empty(len(worth))
        models = []
        for one in range(folds):
            inside = fold == one
            use = known & ~inside if folds > 1 else known
            if not use.any():
                msg = (
                    "runs must go on from a decision point in tasks enough that some are left "
                    "when any part of the tasks is left out, got such runs in one part alone"
                )
                raise StoppingError(msg)
            model = regress(table.x[use], targets[use])
            gain[inside] = model.predict(table.x[inside])
            models.append(model)
        gain = np.minimum(gain, most)
        stops = gain <= 0
    return Induced(gain, targets, tuple(models))
