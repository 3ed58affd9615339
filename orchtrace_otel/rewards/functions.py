"""Reward functions of users: called so that a broken one loses its own number only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, SupportsFloat, TypeAlias, cast

from orchtrace_otel._guard import guarded
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards.contract import Contract, contract_of

RewardResult: TypeAlias = (
    Reward | Iterable[Reward] | SupportsFloat | Mapping[str, SupportsFloat | None]
)

RewardFunction: TypeAlias = tuple[str, Callable[[Trace], RewardResult | None]]
"""A name, and a function from a trace to rewards; None says that there is none.

A number is a reward under the function's name, of the team unless the function declares
another unit (`contract.reward`). A mapping has one reward for each component, or for each
target where the declared unit is not the team (None: no such reward), and `Reward` says
all the rest.
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
    make = _Maker(trace, name, contract_of(function))
    if isinstance(result, Mapping):
        numbers = cast("Mapping[str, SupportsFloat | None]", result).items()
        return [make.one(key, value) for key, value in numbers if value is not None]
    if isinstance(result, SupportsFloat):
        return [make.reward(name, None, result)]
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
        admits = contract_of(function).admits
        sound = [reward for reward in rewards or () if reward.is_sound and admits(reward.value)]
        found += sound
        if rewards is None or len(sound) < len(rewards):
            failed.add(f"reward_failed:{name}")
    return found, failed


class _Maker(NamedTuple):
    """Makes rewards of bare numbers."""

    trace: Trace
    name: str
    contract: Contract

    def one(self, key: str, value: SupportsFloat) -> Reward:
        """A number of a mapping, whose key is a target, or of the team a component."""
        if self.contract.unit == "team":
            return self.reward(key, None, value)
        return self.reward(self.name, key, value)

    def reward(self, component: str, target: str | None, value: SupportsFloat) -> Reward:
        contract = self.contract
        # The id follows from the names, so that scoring a trace again replaces its rewards.
        identity = f"{self.trace.trace_id}:{self.name}:{component if target is None else target}"
        return Reward(
            id=identity,
            component=component,
            value=float(value),
            family=contract.family,
            unit=contract.unit,
            target=target,
            estimator=contract.estimator,
            version=contract.version,
        )


@guarded
def _guarded_call(
    name: str, function: Callable[[Trace], RewardResult | None], trace: Trace
) -> list[Reward]:
    # Values become floats here, where a value that is no number may still fail.
    return [replace(reward, value=float(reward.value)) for reward in call(name, function, trace)]
