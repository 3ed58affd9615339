"""Reward functions of users: called so that a broken one loses its own number only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import SupportsFloat, TypeAlias, cast

from orchtrace_otel._guard import guarded
from orchtrace_otel.model import Reward, Trace

RewardResult: TypeAlias = (
    Reward | Iterable[Reward] | SupportsFloat | Mapping[str, SupportsFloat | None]
)

RewardFunction: TypeAlias = tuple[str, Callable[[Trace], RewardResult | None]]
"""A name, and a function from a trace to rewards; None says that there is none.

A number is a reward of the team under the function's name, a mapping has one such
reward for each component (None: no such reward), and `Reward` says all the rest.
"""


def call(name: str, function: Callable[[Trace], RewardResult | None], trace: Trace) -> list[Reward]:
    """Return the rewards that `function` gives `trace`.

    What is not sound stays in the list, for the caller to tell and leave out.

    Raises:
        TypeError: If the result is none of what a reward function may return.
    """
    result = function(trace)
    if result is None:
        return []
    if isinstance(result, Reward):
        return [result]
    if isinstance(result, Mapping):
        components = cast("Mapping[str, SupportsFloat | None]", result).items()
        return [_reward(trace, name, key, value) for key, value in components if value is not None]
    if isinstance(result, SupportsFloat):
        return [_reward(trace, name, name, result)]
    rewards: list[Reward] = []
    for reward in cast("Iterable[object]", result):
        if not isinstance(reward, Reward):
            msg = (
                f"reward function {name!r} must return a number, a Reward, several of them "
                f"or a mapping of numbers, got {type(reward).__name__} inside "
                f"{type(result).__name__}; return one of those"
            )
            raise TypeError(msg)
        rewards.append(reward)
    return rewards


def apply(trace: Trace, functions: Iterable[RewardFunction]) -> tuple[list[Reward], set[str]]:
    """Return the rewards that `functions` give `trace`, and a flag for each that failed.

    Example:
        >>> trace = Trace("run", "task", ())
        >>> rewards, flags = apply(trace, [("half", lambda t: 0.5), ("odd", lambda t: 1 / 0)])
        >>> [(reward.component, reward.value) for reward in rewards], flags
        ([('half', 0.5)], {'reward_failed:odd'})
    """
    found: list[Reward] = []
    failed: set[str] = set()
    for name, function in functions:
        rewards = _guarded_call(name, function, trace)
        sound = [reward for reward in rewards or () if reward.is_sound]
        found += sound
        if rewards is None or len(sound) < len(rewards):
            failed.add(f"reward_failed:{name}")
    return found, failed


def _reward(trace: Trace, name: str, component: str, value: SupportsFloat) -> Reward:
    # The id follows from the names, so that scoring a trace again replaces its rewards.
    identity = f"{trace.trace_id}:{name}:{component}"
    return Reward(id=identity, component=component, value=float(value))


@guarded
def _guarded_call(
    name: str, function: Callable[[Trace], RewardResult | None], trace: Trace
) -> list[Reward]:
    # Values become floats here, where a value that is no number may still fail.
    return [replace(reward, value=float(reward.value)) for reward in call(name, function, trace)]
