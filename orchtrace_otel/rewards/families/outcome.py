"""R1: what the run was worth, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from orchtrace_otel.model import Trace, is_number
from orchtrace_otel.rewards.contract import reward
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.measures import read_run


class Price(NamedTuple):
    """What a cost is worth: `weight` for the whole `budget`, in the unit of the cost."""

    weight: float
    budget: float


def check_budget(budget: float) -> None:
    """Refuse a budget that nothing can be a share of.

    Raises:
        ValueError: If it is not above 0.
    """
    if not budget > 0:
        msg = f"a budget must be above 0, got {budget!r}"
        raise ValueError(msg)


def cost_of(spent: float, price: Price) -> float:
    """Return what a cost takes off the outcome: weight times spent by budget.

    Raises:
        ValueError: If the budget is not above 0, or the weight below 0, which would pay for cost.

    Example:
        >>> cost_of(1500, Price(0.1, 10_000))
        0.015
    """
    if not (price.budget > 0 and price.weight >= 0):  # NaN is neither
        msg = f"a price needs a budget > 0 and a weight >= 0, got {price!r}"
        raise ValueError(msg)
    return price.weight * (spent / price.budget)


def net_of_cost(
    success: float | None, spent: Mapping[str, float | None], prices: Mapping[str, Price]
) -> float | None:
    """Return S - sum of weight * spent / budget, or None where a part of it is unknown.

    R1 with cost, formula sheet section 4: it falls with every cost and grows with success,
    at most S. A run without a verdict has no outcome, which is not 0.

    Args:
        success: S, 0 to 1; None where nobody said.
        spent: What was spent, by kind; None or missing where unknown.
        prices: What each kind costs.

    Example:
        >>> prices = {"tokens": Price(0.1, 10_000), "makespan": Price(0.1, 60)}
        >>> round(net_of_cost(1, {"tokens": 1500, "makespan": 9}, prices), 4)
        0.97
        >>> net_of_cost(None, {"tokens": 1500, "makespan": 9}, prices) is None
        True
    """
    if success is None:
        return None
    net = float(success)
    for kind, price in sorted(prices.items()):
        amount = spent.get(kind)
        if amount is None:
            return None
        net -= cost_of(amount, price)
    return net


def _tokens(facts: Facts) -> float | None:
    """All tokens of a run: those of its events, else those that it says of itself."""
    counted = read_run(facts).tokens
    trace = facts.trace
    if counted is not None or (trace.metrics or {}).get("turns_without_usage"):
        return counted
    said = trace.costs.get("tokens")
    return said if is_number(said) and said > 0 else None


def net_outcome(prices: Mapping[str, Price]) -> Callable[[Trace], Mapping[str, float | None]]:
    """Make a reward function of the outcome net of cost: for `configure(rewards=...)`.

    It gives `outcome_net`, and beside it `cost_<kind>`, at most 0, for each price, so that
    others can weigh them anew. What is unknown is absent: the net without an outcome, all
    that follows from tokens where those of a turn are not known.

    Args:
        prices: By kind: `tokens`, and every measure, such as `makespan` in seconds.

    Raises:
        ValueError: If a budget is not above 0, or a weight below 0.
    """
    for price in prices.values():
        cost_of(0, price)

    @reward(family="R1", unit="team", estimator="structural", version="1")
    def outcome_net(trace: Trace) -> Mapping[str, float | None]:
        facts = Facts(trace)
        spent: dict[str, float | None] = dict(trace.metrics or {})
        spent["tokens"] = _tokens(facts)
        success = None if facts.outcome is None else facts.outcome.value
        found: dict[str, float | None] = {"outcome_net": net_of_cost(success, spent, prices)}
        for kind, price in prices.items():
            amount = spent.get(kind)
            found[f"cost_{kind}"] = None if amount is None else 0.0 - cost_of(amount, price)
        return found

    return outcome_net
