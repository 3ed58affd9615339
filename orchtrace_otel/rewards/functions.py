"""Reward functions of users: called so that a broken one loses its own number only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, SupportsFloat, TypeAlias, cast

from orchtrace_otel._guard import note, site_of, warn_once
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

WHOSE: Final = "a reward function"

_ONE: Final = ("orchestrator", "team")
"""Units of which a run has one."""


class WrongAnswerError(TypeError):
    """A reward function returned what is no reward; its text holds names and classes only."""


def call(
    name: str,
    function: Callable[[Trace], RewardResult | None],
    trace: Trace,
    contract: Contract | None = None,
) -> list[Reward]:
    """Return the rewards that `function` gives `trace`.

    What is not sound stays in the list, for the caller to tell and leave out. Bare numbers
    are what `contract` says, or what the function declares.

    Raises:
        TypeError: If the result is none of what a reward function may return.
    """
    result = function(trace)
    if result is None:
        return []
    if isinstance(result, Reward):
        return [result]
    make = _Maker(trace, name, contract or contract_of(function))
    if isinstance(result, Mapping):
        numbers = cast("Mapping[str, SupportsFloat | None]", result).items()
        return [make.one(key, value) for key, value in numbers if value is not None]
    if isinstance(result, SupportsFloat):
        return [make.reward(name, None, result)]
    if isinstance(result, (str, bytes)) or not isinstance(cast("object", result), Iterable):
        raise _wrong(name, type(result).__name__)
    rewards: list[Reward] = []
    for reward in cast("Iterable[object]", result):
        if not isinstance(reward, Reward):
            raise _wrong(name, f"{type(reward).__name__} inside {type(result).__name__}")
        rewards.append(reward)
    return rewards


def _wrong(name: str, came: str) -> WrongAnswerError:
    return WrongAnswerError(
        f"reward function {name!r} must return a number, a Reward, several of them "
        f"or a mapping of numbers, got {came}; return one of those"
    )


def number(name: str, value: SupportsFloat) -> float:
    """Return the number that a function gave for the reward `name`.

    Raises:
        WrongAnswerError: If it is none.
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    msg = f"reward {name!r} must be a number that a float can hold, got {type(value).__name__}"
    raise WrongAnswerError(msg)


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
        flag = f"reward_failed:{name}"
        rewards = _asked(name, function, trace, flag)
        if rewards is None:
            failed.add(flag)
            continue
        contract = contract_of(function)
        for reward in rewards:
            fault = reward.fault or contract.fault(reward.value) or unaddressed(reward)
            if fault is None:
                found.append(reward)
            else:
                failed.add(flag)
                tell_fault(function, fault, flag)
    return found, failed


def _asked(
    name: str, function: Callable[[Trace], RewardResult | None], trace: Trace, flag: str
) -> list[Reward] | None:
    """Return what a function gives; None where it failed, which is told as its fault."""
    try:
        given = call(name, function, trace)
        # Values become floats here, where a value that is no number may still fail.
        return [replace(one, value=number(name, one.value)) for one in given]
    except Exception as error:  # noqa: BLE001 - the user's own code; its failure costs its reward alone
        tell_failure(function, error, flag)
    return None


def unaddressed(reward: Reward) -> str | None:
    """Say what must hold of a reward for one of several that does not name it; None where it does.

    Example:
        >>> unaddressed(Reward(id="r", component="tone", value=1.0, unit="agent"))
        'target must say which agent it is for, as the key of a mapping does'
    """
    if reward.target is not None or reward.unit in _ONE:
        return None
    return f"target must say which {reward.unit} it is for, as the key of a mapping does"


def tell_failure(function: object, error: Exception, flag: str) -> None:
    """Say once which reward function failed: what it gave, or the class of what it raised."""
    site = site_of(function)
    if isinstance(error, WrongAnswerError):
        warn_once(
            f"{site}:answer", "%s, from %s; it is left out, with the flag %s", error, site, flag
        )
    else:
        note(site, error, WHOSE, f"costs its reward, with the flag {flag}")


def tell_fault(function: object, fault: str, flag: str) -> None:
    """Say once what is wrong with a reward that a function gave."""
    site = site_of(function)
    warn_once(
        f"{site}:{fault}",
        "%s, %s, gave a reward whose %s; it is left out, with the flag %s",
        WHOSE,
        site,
        fault,
        flag,
    )


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
            value=number(self.name, value),
            family=contract.family,
            unit=contract.unit,
            target=target,
            estimator=contract.estimator,
            version=contract.version,
        )
