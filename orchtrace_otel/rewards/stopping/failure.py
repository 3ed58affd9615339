"""The three ways to stop wrongly, and what each costs: a reward of the stop itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards.stopping.points import Course, read_course

FLAGS: Final = ("loop", "deadlock")
"""Features that say of a point that the team went round in circles."""


class Judged(NamedTuple):
    """What a stop was.

    Attributes:
        mode: `right`, `premature`, `delayed`, `loop` or `budget`.
        best: The step at which stopping would have been worth most, from 1 on; the first such.
        regret: What that would have been worth beyond what was got; at least 0.
    """

    mode: str
    best: int
    regret: float

    @property
    def reward(self) -> float:
        """R_stop, the regret with its sign turned; at most 0."""
        return -self.regret


def judge_stop(  # noqa: PLR0913 - what a stop is judged by
    worth: Sequence[float],
    cost: float,
    stopped: int,
    *,
    is_circling: bool = False,
    is_limited: bool = False,
    is_unfinished: bool = False,
) -> Judged:
    """Say which mistake, if any, stopping at step `stopped` was.

    U of step n is its success less n times the price. A stop that left required work open,
    a requirement unmet or nothing verified is premature whatever it was worth. One that
    came too late is a loop where the team went round in circles before it, and else the
    budget's where a limit made it.

    Args:
        worth: Graded success of stopping at each step, from the first on.
        cost: Price of a step.
        stopped: Step at which it stopped, from 1 on.
        is_circling: Whether a cycle was seen before the stop.
        is_limited: Whether a limit stopped it.
        is_unfinished: Whether required work was open at the stop.

    Raises:
        StoppingError: If a number is not finite, the price is below 0, or there is no such step.

    Example:
        >>> judge_stop([0.2, 0.6, 0.9, 0.9, 0.9], 0.05, 5).mode
        'delayed'
        >>> round(judge_stop([0.2, 0.6, 0.9, 0.9, 0.9], 0.05, 2).reward, 2)
        -0.25
    """
    if not (all(map(math.isfinite, (cost, *worth))) and cost >= 0):
        msg = f"worth and cost must be finite and cost at least 0, got {worth!r} and {cost!r}"
        raise StoppingError(msg)
    if not 1 <= stopped <= len(worth):
        msg = f"stopped must be a step from 1 to {len(worth)}, got {stopped!r}"
        raise StoppingError(msg)
    values = [one - cost * step for step, one in enumerate(worth, 1)]
    best = max(range(len(values)), key=values.__getitem__) + 1
    regret = values[best - 1] - values[stopped - 1]
    if is_unfinished or stopped < best:
        mode = "premature"
    elif stopped == best:
        mode = "right"
    elif is_circling:
        mode = "loop"
    else:
        mode = "budget" if is_limited else "delayed"
    return Judged(mode, best, regret)


def judge_course(course: Course, cost: float) -> Judged | None:
    """Say which mistake, if any, a logged stop was; None where not all of its points are graded."""
    # A stop right behind a point is that point's step again.
    worth = {point.step: point.answer_now for point in course.points}
    known = [one for one in worth.values() if one is not None]
    if not known or len(known) < len(worth):
        return None
    before = [point.features or {} for point in course.points]
    last = before[-1]
    return judge_stop(
        known,
        cost,
        len(known),
        is_circling=any(seen.get(flag, 0) > 0 for seen in before for flag in FLAGS),
        is_limited=course.is_limited,
        is_unfinished=last.get("open_delegations", 0) > 0,
    )


def stopping_rewards(trace: Trace, cost: float, outcome: str | None = None) -> list[Reward]:
    """Return the reward of a run's stop; none where not all of its points are graded.

    `stop` is minus the regret, family R7, unit orchestrator; `stop_premature` and its like
    is the regret under the name of the mistake.

    Args:
        trace: The run.
        cost: Price of a step, in successes.
        outcome: Component of the team's reward that grades the answer the run gave.
    """
    course = read_course(trace, outcome)
    judged = judge_course(course, cost)
    if judged is None:
        return []
    named = {"stop": judged.reward}
    if judged.mode != "right":
        named[f"stop_{judged.mode}"] = judged.regret
    return [
        Reward(
            id=f"{trace.trace_id}:stopping:{component}",
            component=component,
            value=value,
            family="R7",
            unit="orchestrator",
            estimator="outcome",
            version="1",
        )
        for component, value in named.items()
    ]
