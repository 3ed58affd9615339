"""What stopping policies are worth in the world, where every point's truth is known.

A model and its baselines are fitted on the runs of one seed and tried on tasks of
another. Two ways to collect: runs are *forced on* to the limit, so that every policy is
seen; or they are *logged*, and then each policy stands beside the log's own stop. In
both, one of five points is not graded in training; the trial itself knows them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Final

from orchtrace_otel.rewards.stopping.baselines import all_policies, worth_of
from orchtrace_otel.rewards.stopping.fit import fit_stop_value
from orchtrace_otel.rewards.stopping.points import Course, read_course
from orchtrace_otel.testing.world._stopping import StoppingRun, make_stopping_runs

COST: Final = 0.05
"""Price of a step: a round of twelve is worth 0.6 successes."""

FORCED_ON: Final = "forced on"
LOGGED: Final = "logged"

_OTHER_TASKS: Final = 10_000


def rows(seed: int) -> Mapping[str, float]:
    """Return the mean utility of each policy on tasks that were not trained on, by name."""
    return {name: fmean(values) for name, (values, _) in compare(seed).items()}


def compare(
    seed: int, cost: float = COST, collected: str = FORCED_ON, tasks: int = 40
) -> dict[str, tuple[list[float], list[str]]]:
    """Return the true utility of each policy in each run, and the runs' tasks.

    Args:
        seed: The training runs are of this seed, the trial's of another.
        cost: Price of a step.
        collected: `FORCED_ON` or `LOGGED`.
        tasks: How many tasks, of four runs each, on either side.
    """
    training = make_stopping_runs(seed, tasks=tasks)
    model = fit_stop_value([_seen(run, collected) for run in training], cost=cost)
    trial = [_true(run, collected) for run in make_stopping_runs(seed + _OTHER_TASKS, tasks=tasks)]
    found: dict[str, tuple[list[float], list[str]]] = {}
    for named in all_policies(model, trial):
        policy = named.policy
        if policy is not None:
            worth = [(worth_of(one, policy(one), cost), one.task) for one in trial]
            known = [(value, task) for value, task in worth if value is not None]
            found[named.name] = [value for value, _ in known], [task for _, task in known]
    return found


def _seen(run: StoppingRun, collected: str) -> Course:
    """Return a run as a trainer has it."""
    return read_course(run.full_trace if collected == FORCED_ON else run.trace)


def _true(run: StoppingRun, collected: str) -> Course:
    """Return a run with the truth at each of its points."""
    course = _seen(run, collected)
    points = zip(course.points, run.points, strict=False)
    graded = tuple(point._replace(answer_now=true.quality) for point, true in points)
    return course._replace(points=graded)
