"""What stop policies are worth that learned from runs as the log stopped and graded them."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from orchtrace_otel.rewards.stopping.baselines import LOGGED, Named, all_policies
from orchtrace_otel.rewards.stopping.fit import fit_stop_value
from orchtrace_otel.rewards.stopping.points import Course, read_course, read_courses
from orchtrace_otel.testing.world._stopping import StoppingRun, make_stopping_runs

_OTHER_TASKS: Final = 1_000_000
"""Seeds of the tasks that policies are tried on are those of training, and this."""


def stop_by_logs(seed: int, *, cost: float, tasks: int = 40) -> dict[str, float]:
    """Mean worth of each stop policy that learned from runs as the log stopped and graded them.

    Tried on as many runs of other tasks, whose truth is known at every point up to the
    limit, also behind the log's stop. Worth is the answer's quality where the policy stops,
    minus the price of the steps until there; one that never stops does so at the limit.

    Raises:
        MissingDependencyError: If numpy or scikit-learn is not installed.
    """
    logged = make_stopping_runs(seed, tasks=tasks)
    model = fit_stop_value(read_courses(run.trace for run in logged), cost=cost)
    tried = make_stopping_runs(seed + _OTHER_TASKS, tasks=tasks)
    courses = [_whole_course(run) for run in tried]
    return {
        named.name: fmean(
            run.utility(_stop(named, run, course), cost)
            for run, course in zip(tried, courses, strict=True)
        )
        for named in all_policies(model, courses)
        if named.policy is not None
    }


def _whole_course(run: StoppingRun) -> Course:
    """The run up to the limit, with the truth for a grade at every point, for the oracle."""
    course = read_course(run.full_trace)
    points = (
        point._replace(answer_now=truth.quality)
        for point, truth in zip(course.points, run.points, strict=True)
    )
    return course._replace(points=tuple(points))


def _stop(named: Named, run: StoppingRun, course: Course) -> int:
    """At which step a policy stops."""
    if named.name == LOGGED:
        return run.stopped
    place = None if named.policy is None else named.policy(course)
    return len(run.points) if place is None else course.points[place].step
