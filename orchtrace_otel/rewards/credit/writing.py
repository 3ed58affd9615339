"""Credit on the events of a trace, and as records for agents, roles and the orchestrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.model import Event
from orchtrace_otel.rewards.contract import Contract
from orchtrace_otel.rewards.credit.division import Tally
from orchtrace_otel.rewards.records import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchtrace_otel.rewards.credit.assigning import Credit
    from orchtrace_otel.rewards.facts import Facts

_AGENT: Final = Contract(family="R2", unit="agent", estimator="structural", version="1")
_ROLE: Final = Contract(family="R3", unit="role", estimator="structural", version="1")
_LEAD: Final = Contract(family="R7", unit="orchestrator", estimator="structural", version="1")


def on_events(events: Sequence[Event], credit: Credit) -> tuple[Event, ...]:
    """The events with their `credit`; those that get nothing by any method share one."""
    names = tuple(credit.shares)
    nothing = dict.fromkeys(names, 0.0)
    none = (0.0,) * len(names)
    rows = zip(*map(credit.numbers, names), strict=True)
    return tuple(
        Event(
            event.id,
            event.t,
            event.type,
            event.agent,
            {**event.keys, "credit": nothing if row == none else dict(zip(names, row))},  # noqa: B905 - as many, and this runs for every event
        )
        for event, row in zip(events, rows, strict=True)
    )


def records(facts: Facts, credit: Credit) -> list[dict[str, Any]]:
    """One record for each method and agent, method and role, and method for the orchestrator.

    What a division leaves over has one for the target `unassigned`, where there is any.
    """
    tally = Tally(facts, credit)
    found: list[dict[str, Any]] = []
    run_id, provisional = facts.trace.trace_id, credit.outcome.provisional

    def write(contract: Contract, component: str, number: float, target: str | None) -> None:
        made = record(run_id, component, contract, number, target, provisional=provisional)
        found.append(made)

    divisions = ((_AGENT, tally.by_agent), (_ROLE, tally.by_role), (_LEAD, tally.of_orchestrator))
    for contract, divide in divisions:
        for method in credit.shares:
            targets, unassigned = divide(method)
            for target, number in targets.items():
                name = None if contract is _LEAD else target
                write(contract, f"credit_{method}", number, name)
            if targets and unassigned:
                write(contract, f"credit_{method}", unassigned, "unassigned")
    return found
