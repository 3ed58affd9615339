"""Credit on the events of a trace, and as records for agents, roles and the orchestrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.rewards.contract import Contract
from orchtrace_otel.rewards.credit.division import Tally
from orchtrace_otel.rewards.records import CREDIT, record

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.assigning import Credit
    from orchtrace_otel.rewards.facts import Facts

_AGENT: Final = Contract(family="R2", unit="agent", estimator="structural", version="1")
_ROLE: Final = Contract(family="R3", unit="role", estimator="structural", version="1")
_LEAD: Final = Contract(family="R7", unit="orchestrator", estimator="structural", version="1")
_REST: Final = "unassigned"


def on_events(credit: Credit) -> list[dict[str, float]]:
    """The `credit` of each event, in the order of the events; those that get none share one."""
    value = credit.outcome.value
    nothing = dict.fromkeys(credit.shares, 0.0)
    found = [nothing] * len(credit.events)
    for place in credit.touched():
        found[place] = nothing.copy()
    for name, (parts, whole) in credit.shares.items():
        if whole & (whole - 1):
            for place, part in parts.items():
                found[place][name] = part / whole * value
        else:
            scale = value / whole  # exact for a power of two, and faster
            for place, part in parts.items():
                found[place][name] = part * scale
    return found


def records(facts: Facts, credit: Credit) -> list[dict[str, Any]]:
    """One record for each method and agent, method and role, and method for the orchestrator.

    What a division leaves over has one for the target `unassigned`, where there is any.
    """
    tally = Tally(facts, credit)
    run_id, late = facts.trace.trace_id, credit.outcome.provisional
    found: list[dict[str, Any]] = []
    divisions = ((_AGENT, tally.by_agent), (_ROLE, tally.by_role), (_LEAD, tally.of_orchestrator))
    for contract, divide in divisions:
        for method in credit.shares:
            targets, unassigned = divide(method)
            for target, number in targets.items():
                name = None if contract is _LEAD else target
                found.append(record(run_id, CREDIT + method, contract, number, name, late))
            if targets and unassigned:
                found.append(record(run_id, CREDIT + method, contract, unassigned, _REST, late))
    return found
