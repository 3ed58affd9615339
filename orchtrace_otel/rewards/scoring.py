"""Scoring a trace: measures, built-in rewards, users' rewards, and credit, in that order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchtrace_otel.model import Event, Reward, Trace
from orchtrace_otel.rewards.builtin import COMPONENTS, TOPOLOGY
from orchtrace_otel.rewards.component import Findings
from orchtrace_otel.rewards.credit.assigning import Credit, assign
from orchtrace_otel.rewards.credit.writing import on_events
from orchtrace_otel.rewards.credit.writing import records as credit_records
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.functions import RewardFunction, apply
from orchtrace_otel.rewards.measures import measure_facts
from orchtrace_otel.rewards.outcome import find_outcome
from orchtrace_otel.rewards.records import is_builtin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def score(trace: Trace, functions: Sequence[RewardFunction] = ()) -> Trace:
    """Return `trace` with its measures, the built-in rewards and those of `functions` added.

    Numbers that are there already stay, unless a measure or a built-in reward has the same
    name. Rewards for the team go into `rewards` by component, all but those of events into
    the stop's `reward_records`; one with an id that is there already replaces it. A function
    sees the trace with its measures and with the rewards that need no outcome. One that
    fails is absent, flagged `reward_failed:<name>` on the stop; `cyclic`, `skewed`,
    `tokens_unknown` and `duplicate_ids` say why a measure is absent. Scoring a scored trace
    changes nothing.

    Args:
        trace: A trace, of this project or of others.
        functions: Names and functions, called in this order.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> merge = Event("e1", 0, "aggregate", "lead", {"duration_s": 3})
        >>> stop = Event("e2", 4, "orchestrator_decision", "lead", {"verb": "stop"})
        >>> scored = score(Trace("run", "task", (merge, stop)), [("calm", lambda t: 1)])
        >>> scored.metrics["speed_up"], scored.rewards["calm"]
        (0.75, 1.0)
    """
    facts = Facts(trace)
    findings = Findings()
    findings.metrics, flags = measure_facts(facts)
    for one in COMPONENTS:
        if not one.needs_outcome:
            findings.take(one, facts)
    topology = (TOPOLOGY(facts) if TOPOLOGY is not None else None) or trace.topology
    given, failed = _ask(trace, functions, findings, topology)
    facts.outcome = find_outcome(_with_rewards(trace, given) if given else trace)
    for one in COMPONENTS:
        if one.needs_outcome:
            findings.take(one, facts)
    credit = assign(facts)
    if credit is not None:
        findings.records += credit_records(facts, credit)
    return Trace(
        trace.trace_id,
        trace.task_id,
        _mark(trace, given, findings, flags | failed | findings.failed, credit),
        trace.edges,
        {**_kept(trace), **_of_team(given), **findings.team},
        trace.costs,
        trace.system,
        topology,
        {**(trace.metrics or {}), **findings.metrics},
    )


def _ask(
    trace: Trace, functions: Sequence[RewardFunction], findings: Findings, topology: str | None
) -> tuple[list[Reward], set[str]]:
    """The rewards of users' functions, and a flag for each that failed."""
    if not functions:
        return [], set()
    seen = replace(
        trace,
        rewards={**trace.rewards, **findings.team},
        metrics={**(trace.metrics or {}), **findings.metrics},
        topology=topology,
    )
    return apply(seen, functions)


def _with_rewards(trace: Trace, given: Sequence[Reward]) -> Trace:
    """The trace as it is with rewards of users, for whoever looks for the outcome."""
    rewards = {**_kept(trace), **_of_team(given)}
    return replace(trace, rewards=rewards, events=_mark(trace, given, Findings(), ()))


def _of_team(given: Iterable[Reward]) -> dict[str, float]:
    return {reward.component: reward.value for reward in given if reward.unit == "team"}


def _kept(trace: Trace) -> dict[str, float]:
    """The rewards of the run but for those that an earlier scoring computed: these come anew."""
    stop = trace.stop
    records = () if stop is None else stop.keys.get("reward_records", ())
    stale = {
        record["component"]
        for record in records
        if "target" not in record and is_builtin(record, trace.trace_id)
    }
    return {name: value for name, value in trace.rewards.items() if name not in stale}


def _mark(
    trace: Trace,
    given: Sequence[Reward],
    findings: Findings,
    flags: Iterable[str],
    credit: Credit | None = None,
) -> tuple[Event, ...]:
    """The events with what was found for them; the stop with records and flags besides."""
    events = trace.events if credit is None else on_events(trace.events, credit)
    if findings.events:
        events = _mark_events(events, findings.events)
    stop = trace.stop
    if stop is None:
        return events
    keys = events[-1].keys
    added = _stop_keys(keys, trace.trace_id, given, findings, flags)
    if not added:
        return events
    return (*events[:-1], Event(stop.id, stop.t, stop.type, stop.agent, {**keys, **added}))


def _mark_events(
    events: Sequence[Event], found: Mapping[int, Mapping[str, float]]
) -> tuple[Event, ...]:
    marked = list(events)
    for place, values in found.items():
        event = events[place]
        rewards = {**event.keys.get("rewards", {}), **values}
        keys = {**event.keys, "rewards": rewards}
        marked[place] = Event(event.id, event.t, event.type, event.agent, keys)
    return tuple(marked)


def _stop_keys(
    keys: Mapping[str, Any],
    run_id: str,
    given: Sequence[Reward],
    findings: Findings,
    flags: Iterable[str],
) -> dict[str, Any]:
    added: dict[str, Any] = {}
    all_flags = {*keys.get("flags", ()), *flags}
    if all_flags:
        added["flags"] = sorted(all_flags)
    written = keys.get("reward_records", ())
    records = {record["id"]: record for record in written if not is_builtin(record, run_id)}
    records |= {reward.id: reward.to_dict() for reward in given}
    # Ours stand last: whoever computes them again from the others writes the same list.
    listed = [*records.values(), *findings.records]
    if listed or written:
        added["reward_records"] = listed
    return added
