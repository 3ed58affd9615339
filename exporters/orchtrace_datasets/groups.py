"""Advantages within groups of one task: of all its calls, of each role's, or of each agent's.

A group of a role or an agent has a baseline of its own, so that a sub-agent is compared
with sub-agents and the main agent with main agents (M-GRPO, arXiv 2511.13288). There the
number of a sub-agent's calls is made equal in all runs by repeating and leaving out;
here each run counts once in the mean and the deviation, however many calls it has, which
asks for neither, and every record says how many there were (`calls_in_run`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Final, NamedTuple

from orchtrace_otel.datasets import Call, Dropped, Group

SETTINGS: Final[Mapping[str, str]] = {
    "groups": "`task`, `role` or `agent`: whose calls share a baseline; default `role`",
    "scale": "`std` divides by the deviation of the group's labels, each run counting once (the "
    "population's, not the sample's as in `rewards.groups`) + 1e-4, `none` does not; default "
    "`std`",
}
_EPSILON: Final = 1e-4
_GROUPS: Final = ("role", "task", "agent")
_SCALES: Final = ("std", "none")


class Advantage(NamedTuple):
    """One call beside its group.

    Attributes:
        call: The call.
        group: Name of its group, `task:role`.
        value: How much better than the group's mean; in deviations, if scaled.
        mean: The group's mean over runs.
        runs: How many runs the group has.
        calls_in_run: How many calls of the group this call's run has.
    """

    call: Call
    group: str
    value: float
    mean: float
    runs: int
    calls_in_run: int


def advantages(group: Group) -> Iterator[Advantage | Dropped]:
    """Return each labelled call's advantage; what has nothing to compare with is dropped."""
    by = group.job.choice("groups", _GROUPS)
    is_scaled = group.job.choice("scale", _SCALES) == "std"
    members: dict[str, dict[str, list[Call]]] = {}
    for call in group.calls:
        name = group.task_id if by == "task" else f"{group.task_id}:{_part(call, by)}"
        members.setdefault(name, {}).setdefault(call.run.id, []).append(call)
    for name, runs in sorted(members.items()):
        yield from _within(name, runs, is_scaled=is_scaled)


def _part(call: Call, by: str) -> str:
    return call.agent if by == "agent" else call.role or call.agent


def _within(
    name: str, runs: Mapping[str, list[Call]], *, is_scaled: bool
) -> Iterator[Advantage | Dropped]:
    means = [fmean(_value(call) for call in calls) for calls in runs.values()]
    mean = fmean(means)
    # Of labels: runs may well be equal on average whose calls are not. No square overflows.
    deviation = math.hypot(
        *(
            (_value(call) - mean) / math.sqrt(len(calls) * len(runs))
            for calls in runs.values()
            for call in calls
        )
    )
    for calls in runs.values():
        for call in calls:
            if len(runs) == 1:
                yield Dropped("one_sample", call.run.id, call.id)
                continue
            value = _value(call) - mean
            value = value / (deviation + _EPSILON) if is_scaled else value
            yield Advantage(call, name, value, mean, len(runs), len(calls))


def _value(call: Call) -> float:
    return call.label.value or 0.0
