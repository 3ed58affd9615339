"""Scoring a trace: measures, built-in rewards, users' rewards, and credit, in that order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from orchtrace_otel._guard import guarded
from orchtrace_otel.model import Event, Reward, Trace, records_of
from orchtrace_otel.rewards.builtin import COMPONENTS, TOPOLOGY
from orchtrace_otel.rewards.component import Findings
from orchtrace_otel.rewards.credit.assigning import assign
from orchtrace_otel.rewards.credit.writing import on_events
from orchtrace_otel.rewards.credit.writing import records as credit_records
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.functions import RewardFunction, apply
from orchtrace_otel.rewards.marking import Marks
from orchtrace_otel.rewards.measures import measure_facts
from orchtrace_otel.rewards.outcome import find_outcome
from orchtrace_otel.rewards.records import is_builtin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def score(trace: Trace, functions: Sequence[RewardFunction] = (), *, fresh: bool = False) -> Trace:
    """Return `trace` with its measures, the built-in rewards and those of `functions` added.

    Numbers that are there already stay, unless a measure or a built-in reward has the same
    name. Rewards for the team go into `rewards` by component, all but those of events into
    the stop's `reward_records`; one with an id that is there already replaces it. A function
    sees the trace with its measures and with the rewards that need no outcome. One that
    fails is absent, flagged `reward_failed:<name>` on the stop; `cyclic`, `skewed`,
    `tokens_unknown` and `duplicate_ids` say why a measure is absent, `missing_causes` that an
    edge leads from or to an event that is not there. Scoring a scored trace changes nothing.

    Args:
        trace: A trace, of this project or of others.
        functions: Names and functions, called in this order.
        fresh: Whether the trace was made for this and is dropped: the keys of its events
            are then written in place.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> merge = Event("e1", 0, "aggregate", "lead", {"duration_s": 3})
        >>> stop = Event("e2", 4, "orchestrator_decision", "lead", {"verb": "stop"})
        >>> scored = score(Trace("run", "task", (merge, stop)), [("calm", lambda t: 1)])
        >>> scored.metrics["speed_up"], scored.rewards["calm"]
        (0.75, 1.0)
    """
    return score_facts(Facts(trace), functions, fresh=fresh)


def score_facts(
    facts: Facts, functions: Sequence[RewardFunction] = (), *, fresh: bool = False
) -> Trace:
    """The same from facts, of which some may have been read already."""
    trace = facts.trace
    findings = Findings()
    findings.metrics, flags = measure_facts(facts)
    findings.take(COMPONENTS, facts)
    topology = _topology(facts) or trace.topology
    given, failed = _ask(trace, functions, findings, topology)
    facts.settle(find_outcome(trace, given))
    kept = _kept(trace)  # before anything is written
    marks = Marks(trace, fresh=fresh)
    if facts.outcome is not None and not _credited(facts, findings, marks):
        findings.failed.add("reward_failed:credit")
    marks.rewards(findings.events)
    if not fresh:  # who built it said so already
        flags = flags | _missing(trace)
    marks.stop(given, findings, flags | failed | findings.failed)
    return Trace(
        trace.trace_id,
        trace.task_id,
        marks.events(),
        trace.edges,
        {**kept, **_of_team(given), **findings.team},
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
    # Copies: what a function writes there, though it must not, is not written into the trace.
    seen = replace(
        trace,
        events=tuple([Event(e.id, e.t, e.type, e.agent, {**e.keys}) for e in trace.events]),
        costs={**trace.costs},
        rewards={**trace.rewards, **findings.team},
        metrics={**(trace.metrics or {}), **findings.metrics},
        topology=topology,
    )
    return apply(seen, functions)


def _missing(trace: Trace) -> set[str]:
    known = {event.id for event in trace.events}
    is_whole = all(edge.src in known and edge.dst in known for edge in trace.edges)
    return set() if is_whole else {"missing_causes"}


@guarded
def _topology(facts: Facts) -> str | None:
    return None if TOPOLOGY is None else TOPOLOGY(facts)


@guarded
def _credited(facts: Facts, findings: Findings, marks: Marks) -> bool:
    """Write credit, where there is any; None if that failed."""
    credit = assign(facts)
    if credit is not None:
        records = credit_records(facts, credit)
        marks.credit(on_events(facts, credit))
        findings.records += records
    return True


def _of_team(given: Iterable[Reward]) -> dict[str, float]:
    return {reward.component: reward.value for reward in given if reward.unit == "team"}


def _kept(trace: Trace) -> dict[str, float]:
    """The rewards of the run but for those that an earlier scoring computed: these come anew."""
    stale = [
        record.get("component")
        for record in records_of(trace.stop, "reward_records")
        if "target" not in record and is_builtin(record, trace.trace_id)
    ]
    return {name: value for name, value in trace.rewards.items() if name not in stale}
