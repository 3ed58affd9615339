"""A team of plain functions: agents inside agents, a tool, and a reward for the result.

An agent that is called inside an agent is spawned and returns, without a word more.
Run it, then: orchtrace show orchtrace-data
"""

from __future__ import annotations

import orchtrace_otel as orchtrace

BUDGET = 12
PRICES = {"apples": 2.5, "pears": 3.0, "plums": 4.5}


@orchtrace.tool
def look_up(fruit: str) -> float:
    """Ask the shop."""
    return PRICES[fruit]


@orchtrace.agent("buyer", role="executor")
def price(fruit: str, kilos: float) -> float:
    """Say what an item costs."""
    return look_up(fruit) * kilos


@orchtrace.agent("planner", role="planner")
def plan(budget: float) -> dict[str, float]:
    """Decide what to buy."""
    basket = {"apples": 2.0, "plums": 1.0}
    orchtrace.decide("basket", chosen=list(basket), candidates=list(PRICES))
    return basket if budget > 0 else {}


@orchtrace.team("shopping", task_id="fruit-for-12", reward=lambda total: float(total <= BUDGET))
def shop(budget: float) -> float:
    """Plan, price each item, and add up."""
    costs = [price(fruit, kilos) for fruit, kilos in plan(budget).items()]
    with orchtrace.aggregate(costs):
        return sum(costs)


def main() -> None:
    """Trace one run into orchtrace-data/traces.jsonl."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    print("total:", shop(BUDGET))
    orchtrace.shutdown()


if __name__ == "__main__":
    main()
