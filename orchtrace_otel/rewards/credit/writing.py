"""Credit on the events of a trace, and as records for agents, roles and the orchestrator."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.rewards.contract import Contract
from orchtrace_otel.rewards.credit.assigning import METHODS
from orchtrace_otel.rewards.credit.division import tally
from orchtrace_otel.rewards.credit.shares import amounts
from orchtrace_otel.rewards.credit.targets import UNASSIGNED
from orchtrace_otel.rewards.records import CREDIT, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orchtrace_otel.rewards.credit.assigning import Credit
    from orchtrace_otel.rewards.facts import Facts


def _forms(family: str, unit: str, target: str | None = "") -> Mapping[str, dict[str, Any]]:
    """A record for each method, which lacks its run, its target, and the number."""
    contract = Contract(family=family, unit=unit, estimator="structural", version="1")
    return {method: record("", CREDIT + method, contract, 0.0, target) for method in METHODS}


_FORMS: Final = {
    "agent": _forms("R2", "agent"),
    "role": _forms("R3", "role"),
    "orchestrator": _forms("R7", "orchestrator"),
}
_LEAD: Final = _forms("R7", "orchestrator", None)


def on_events(facts: Facts, credit: Credit) -> list[dict[str, float]]:
    """The `credit` of each event, in the order of the events; those that get none share one."""
    hops, value, stop = credit.upstream.hops, credit.outcome.value, facts.graph.stop
    nothing = dict.fromkeys(credit.shares, 0.0)
    starts = _by_distance(credit, nothing)
    found = [nothing if steps < 0 else starts[steps].copy() for steps in hops]
    if stop is not None and hops[stop] < 0:
        found[stop] = nothing.copy()  # it comes after the answer, and may be critical
    for name in credit.shares.keys() - _BY_DISTANCE:
        parts, whole = credit.shares[name]
        given = amounts(filter(None, parts), whole, value)
        for numbers, number in zip(compress(found, parts), given, strict=True):
            numbers[name] = number
    return found


_BY_DISTANCE: Final = frozenset({"reachability", "decay"})
"""Methods that give the same to all events that are as far from the answer, in powers of two."""


def _by_distance(credit: Credit, nothing: dict[str, float]) -> Mapping[int, dict[str, float]]:
    """What these methods give an event, by its distance; all others give nothing there."""
    hops, value = credit.upstream.hops, credit.outcome.value
    examples = dict(zip(hops, range(len(hops)), strict=True))
    starts = {steps: nothing.copy() for steps in examples}
    for name in _BY_DISTANCE:
        parts, whole = credit.shares[name]
        scale = value / whole
        for steps, place in examples.items():
            if parts[place]:
                starts[steps][name] = parts[place] * scale
    return starts


def records(facts: Facts, credit: Credit) -> list[dict[str, Any]]:
    """One record for each method and agent, method and role, and method for the orchestrator.

    What a division leaves over has one for the target `unassigned`, where there is any.
    """
    run_id, late = facts.trace.trace_id, credit.outcome.provisional
    found: list[dict[str, Any]] = []

    def add(form: dict[str, Any], number: float, target: str | None = None) -> None:
        one = form.copy()  # faster than to write it anew
        one["value"] = number
        one["provisional"] = late
        if target is None:
            one["id"] = run_id + form["id"]
        else:
            one["id"] = f"{run_id}{form['id']}{target}"
            one["target"] = target
        found.append(one)

    for unit, (targets, rest) in tally(facts, credit, credit.shares).items():
        for at, method in enumerate(credit.shares):
            form = _FORMS[unit][method]
            if unit == "orchestrator":
                add(_LEAD[method], targets[unit][at])
            else:
                for target, numbers in targets.items():
                    add(form, numbers[at], target)
            if targets and rest[at]:
                add(form, rest[at], UNASSIGNED)
    return found
