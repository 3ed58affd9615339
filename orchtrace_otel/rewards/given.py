"""Rewards that users give: a number for a run, or numbers by component."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchtrace_otel.model import Reward
from orchtrace_otel.rewards.functions import number, tell_failure, tell_fault

TASK: str = "task"
"""Component of a team's own reward that is a bare number."""


def given_rewards(
    function: Callable[[Any], float | Mapping[str, float]],
    result: object,
    flag: Callable[[str], None],
) -> Iterator[Reward]:
    """Ask the user's function about a result; a failure is flagged and told, never raised.

    Example:
        >>> [(r.component, r.value) for r in given_rewards(len, "four", print)]
        [('task', 4.0)]
        >>> list(given_rewards(lambda result: 1 / 0, None, print))
        reward_failed:task
        []
    """
    try:
        answer = function(result)
        numbers = answer if isinstance(answer, Mapping) else {TASK: answer}
        values = {str(name): number(str(name), value) for name, value in numbers.items()}
    except Exception as error:  # noqa: BLE001 - the user's own code; its failure costs the reward alone
        _fail(function, error, flag)
        return
    for component, value in values.items():
        reward = Reward(id=uuid.uuid4().hex, component=component, value=value)
        if reward.fault is None:
            yield reward
        else:
            # A component that is none cannot stand in a flag either.
            name = f"reward_failed:{TASK if math.isfinite(value) else component}"
            flag(name)
            tell_fault(function, reward.fault, name)


def _fail(function: object, error: Exception, flag: Callable[[str], None]) -> None:
    name = f"reward_failed:{TASK}"
    flag(name)
    tell_failure(function, error, name)
