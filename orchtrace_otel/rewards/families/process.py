"""R4: rewards step by step: progress that a checker sees, and shaping by a potential."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Literal

from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards.contract import reward
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.groups import EPSILON, Group

LEAST_SAMPLES: Final = 3
"""Runs that must have reached a step before it is compared among them."""


def progress(
    before: Collection[str], now: Collection[str], required: Collection[str]
) -> float | None:
    """Return newly satisfied requirements - newly broken ones, by all, -1 to 1.

    None without requirements: where no checker looks, progress is unknown.

    Example:
        >>> progress({"a"}, {"b", "c"}, {"a", "b", "c", "d"})
        0.25
    """
    wanted = frozenset(required)
    if not wanted:
        return None
    had, has = wanted.intersection(before), wanted.intersection(now)
    return (len(has - had) - len(had - has)) / len(wanted)


def progress_rewards(
    checked: Callable[[Trace], Mapping[str, Collection[str]]],
    required: Callable[[Trace], Collection[str]],
) -> Callable[[Trace], Sequence[Reward]]:
    """Make a reward function of what a checker saw: for `configure(rewards=...)`.

    Args:
        checked: Gives, by id of the event, the requirements that held after it.
        required: Gives all requirements of the run's task.
    """

    @reward(family="R4", unit="turn", estimator="outcome", range=(-1, 1), version="1")
    def progress_made(trace: Trace) -> Sequence[Reward]:
        wanted, held = required(trace), checked(trace)
        before: Collection[str] = ()
        found: list[Reward] = []
        places = [at for at, event in enumerate(trace.events) if event.id in held]
        for event in [trace.events[at] for at in Facts(trace).in_order(places)]:
            value = progress(before, held[event.id], wanted)
            before = held[event.id]
            if value is not None:
                found.append(
                    Reward(
                        id=f"{trace.trace_id}:progress:{event.id}",
                        component="progress",
                        value=value,
                        family="R4",
                        unit="turn",
                        target=event.id,
                        version="1",
                    )
                )
        return found

    return progress_made


class ShapingCancelsWarning(UserWarning):
    """Shaping was added where it changes nothing that is learned from."""


def shaping(potentials: Sequence[float], gamma: float = 1.0) -> list[float]:
    """Return F_t = gamma * Phi(t+1) - Phi(t) for each step; the last potential counts as 0.

    Potential-based shaping, which leaves the best policy what it was: with gamma 1 the sum is
    -Phi(0), whatever happened in between.

    Args:
        potentials: Phi of each state, the terminal one included, whatever it holds.
        gamma: Discount, 0 to 1.

    Raises:
        ValueError: If gamma is outside 0 to 1.

    Example:
        >>> [round(step, 4) for step in shaping([0, 0.2, 0.5, 0.4, 0])]
        [0.2, 0.3, -0.1, -0.4]
    """
    if not 0 <= gamma <= 1:
        msg = f"gamma must be between 0 and 1, got {gamma!r}"
        raise ValueError(msg)
    held = [*potentials[:-1], 0.0]
    return [gamma * held[at + 1] - held[at] for at in range(len(held) - 1)]


def shaped(
    rewards: Sequence[float],
    potentials: Sequence[float],
    gamma: float = 1.0,
    *,
    compared: Literal["step", "trajectory"],
) -> list[float]:
    """Return the rewards of a run's steps with shaping added.

    Shaping telescopes: summed over a run it is the same for every run from one start. Where
    whole runs are compared with each other, as a group advantage does, it cancels and only
    costs digits; `ShapingCancelsWarning` says so. It helps where steps are compared: see
    `step_advantages`.

    Args:
        rewards: Of each step.
        potentials: Of each state, one more than steps.
        gamma: Discount, 0 to 1.
        compared: What the numbers will be compared by.

    Raises:
        ValueError: If there is not one potential more than rewards.
    """
    if len(potentials) != len(rewards) + 1:
        msg = (
            f"potentials must be one more than the {len(rewards)} steps: one of each state, the "
            f"terminal one included; got {len(potentials)}"
        )
        raise ValueError(msg)
    if compared == "trajectory":
        msg = "shaping cancels in an advantage over whole runs; compare steps, or leave it out"
        warnings.warn(msg, ShapingCancelsWarning, stacklevel=2)
    extra = shaping(potentials, gamma)
    return [reward + more for reward, more in zip(rewards, extra, strict=True)]


def step_advantages(
    returns: Sequence[Sequence[float]], least: int = LEAST_SAMPLES, epsilon: float = EPSILON
) -> list[list[float | None]]:
    """Compare runs of one task step by step: (G - mean) / (sample sigma + epsilon) at each index.

    Args:
        returns: Return-to-go of each step of each run; runs may differ in length.
        least: Runs that must have reached a step; where fewer did it is None.
        epsilon: Added to sigma.

    Returns:
        Advantages in the shape of `returns`; 0 where all runs are alike at a step.

    Example:
        >>> advantages = step_advantages([[1.0, 1.0], [0.0], [0.0]])
        >>> [round(a, 4) for a in (advantages[0][0], advantages[1][0])], advantages[0][1]
        ([1.1547, -0.5773], None)
    """
    found: list[list[float | None]] = [[None] * len(run) for run in returns]
    for step in range(max(map(len, returns), default=0)):
        reached = [at for at, run in enumerate(returns) if step < len(run)]
        if len(reached) < max(least, 2):
            continue
        group = Group()
        for at in reached:
            group.add(returns[at][step])
        for at in reached:
            found[at][step] = group.grpo(returns[at][step], epsilon)
    return found
