"""Scoring a trace: structural measures, and the rewards of users' functions.

Plain functions of a `Trace`, the same inline, from OTLP and from a file. What cannot
be known is absent and flagged on the stop, never 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchtrace_otel.model import Trace
from orchtrace_otel.rewards.functions import RewardFunction, RewardResult, apply
from orchtrace_otel.rewards.measures import MEASURES, measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchtrace_otel.model import Event, Reward

__all__ = ["MEASURES", "RewardFunction", "RewardResult", "measure", "score"]


def score(trace: Trace, functions: Sequence[RewardFunction] = ()) -> Trace:
    """Return `trace` with its measures in `metrics` and the rewards of `functions` added.

    Numbers that are there already stay, unless a measure has the same name. Rewards for
    the team go into `rewards` by component, all of them into the stop's
    `reward_records`; one with an id that is there already replaces it. A function sees
    the trace with its measures. One that fails is absent, flagged `reward_failed:<name>`
    on the stop; `cyclic`, `skewed`, `tokens_unknown` and `duplicate_ids` say why a
    measure is absent. Scoring a scored trace changes nothing.

    Args:
        trace: A trace, of this project or of others.
        functions: Names and functions, called in this order.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> merge = Event("e1", 0, "aggregate", "lead", {"duration_s": 3})
        >>> stop = Event("e2", 4, "orchestrator_decision", "lead", {"verb": "stop"})
        >>> scored = score(Trace("run", "task", (merge, stop)), [("calm", lambda t: 1)])
        >>> scored.metrics["speed_up"], dict(scored.rewards)
        (0.75, {'calm': 1.0})
    """
    measures, flags = measure(trace)
    metrics = {**(trace.metrics or {}), **measures}
    rewards, failed = apply(replace(trace, metrics=metrics), functions) if functions else ([], ())
    team = {reward.component: reward.value for reward in rewards if reward.unit == "team"}
    return Trace(
        trace.trace_id,
        trace.task_id,
        _mark_stop(trace, rewards, flags.union(failed)),
        trace.edges,
        {**trace.rewards, **team},
        trace.costs,
        trace.system,
        trace.topology,
        metrics,
    )


def _mark_stop(trace: Trace, rewards: Sequence[Reward], flags: Iterable[str]) -> tuple[Event, ...]:
    """The events, the stop among them with `rewards` and `flags` added."""
    stop = trace.stop
    if stop is None:
        return trace.events
    added: dict[str, Any] = {}
    all_flags = {*stop.keys.get("flags", ()), *flags}
    if all_flags:
        added["flags"] = sorted(all_flags)
    if rewards:
        given = {record["id"]: record for record in stop.keys.get("reward_records", ())}
        given |= {reward.id: reward.to_dict() for reward in rewards}
        added["reward_records"] = list(given.values())
    if not added:
        return trace.events
    return (*trace.events[:-1], replace(stop, keys={**stop.keys, **added}))
