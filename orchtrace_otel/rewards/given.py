"""Rewards that users give: a number for a run, or numbers by component."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchtrace_otel.model import Reward

TASK: str = "task"
"""Component of a team's own reward that is a bare number."""


def given_rewards(
    function: Callable[[Any], float | Mapping[str, float]],
    result: object,
    flag: Callable[[str], None],
) -> Iterator[Reward]:
    """Ask the user's function about a result; a failure is flagged, never raised.

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
        values = {str(name): float(value) for name, value in numbers.items()}
    except Exception:  # noqa: BLE001 - the user's own code; its failure costs the reward alone
        flag(f"reward_failed:{TASK}")
        return
    for component, value in values.items():
        if math.isfinite(value):
            yield Reward(id=uuid.uuid4().hex, component=component, value=value)
        else:
            flag(f"reward_failed:{component}")
