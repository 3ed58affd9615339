"""What the targets of a unit get, for each of the eight units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.model import UNITS
from orchtrace_otel.rewards.credit.division import Division, divide, tally
from orchtrace_otel.rewards.credit.targets import messages, tool_calls
from orchtrace_otel.rewards.credit.turns import by_token, by_turn

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.assigning import Credit
    from orchtrace_otel.rewards.facts import Facts


def by_unit(facts: Facts, credit: Credit, method: str, unit: str) -> Division:
    """Sum up what a method gave to events, by the targets of a unit.

    Targets are ids of events for `message` and `tool_call` (a call and its result are
    one), span ids of LLM calls for `turn` and `token`, names for `agent` and `role`;
    `orchestrator` and `team` have the one of their name.

    Raises:
        ValueError: If it is none of the units.
        KeyError: If the method is unknown, or absent for this run.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> from orchtrace_otel.rewards import Facts
        >>> from orchtrace_otel.rewards.credit import assign
        >>> events = (Event("a", 0, "return", "one"), Event("z", 1, "aggregate", "lead"))
        >>> edges = (Edge("a", "z", "aggregate"),)
        >>> facts = Facts(Trace("run", "q", events, edges, rewards={"task": 1.0}))
        >>> by_unit(facts, assign(facts), "flow", "orchestrator")
        Division(targets={'orchestrator': 0.5}, unassigned=0.5)
    """
    if unit not in UNITS:
        msg = f"unit must be one of {', '.join(UNITS)}, got {unit!r}"
        raise ValueError(msg)
    if unit == "team":
        return Division({"team": credit.outcome.value}, 0.0)
    if unit in {"turn", "token"}:
        return (by_turn if unit == "turn" else by_token)(credit, method, facts.trace)
    if unit in {"message", "tool_call"}:
        targets = facts.share(messages if unit == "message" else tool_calls)
        return divide(credit, method, targets)
    found, (unassigned,) = tally(facts, credit, (method,))[unit]
    return Division({name: number for name, (number,) in found.items()}, unassigned)
