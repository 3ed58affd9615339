"""Credit along a sequence of steps, from rewards and, for GAE, from given values.

What a trainer would compute from a trajectory, for the events of a run: the outcome
comes with the last step, other rewards where the caller says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.model import items_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchtrace_otel.rewards.facts import Facts


def return_to_go(rewards: Sequence[float], gamma: float = 1.0) -> list[float]:
    """Sum of gamma ** (t' - t) * r(t') over t' >= t, for each step t [M].

    Example:
        >>> return_to_go([0.0, 0.5, 1.0], gamma=0.5)
        [0.5, 1.0, 1.0]
    """
    found: list[float] = []
    following = 0.0
    for given in reversed(rewards):
        following = given + gamma * following
        found.append(following)
    found.reverse()
    return found


def gae(
    rewards: Sequence[float],
    values: Sequence[float],
    gamma: float = 1.0,
    decay: float = 0.95,
) -> list[float]:
    """Generalised advantage estimation of each step, with values that the caller has [M].

    delta(t) = r(t) + gamma * V(t + 1) - V(t), with V = 0 after the last step, and
    A(t) = delta(t) + gamma * decay * A(t + 1).

    Args:
        rewards: What came after each step.
        values: What was expected at each step.
        gamma: Discount of later rewards.
        decay: The estimator's lambda: 0 trusts the values, 1 the rewards alone.

    Raises:
        ValueError: If there is not one value for each reward.

    Example:
        >>> gae([0.0, 1.0], [0.5, 0.75], gamma=1.0, decay=1.0)
        [0.5, 0.25]
    """
    if len(values) != len(rewards):
        msg = f"gae must have one value for each reward, got {len(values)} for {len(rewards)}"
        raise ValueError(msg)
    found: list[float] = []
    advantage = following = 0.0
    for given, value in zip(reversed(rewards), reversed(values), strict=True):
        delta = given + gamma * following - value
        advantage = delta + gamma * decay * advantage
        following = value
        found.append(advantage)
    found.reverse()
    return found


def steps(facts: Facts) -> Sequence[int]:
    """Positions of the events that LLM calls led to, by time; of all where none is known."""
    events = facts.events
    acted = [place for place, event in enumerate(events) if items_of(event, "turns")]
    return facts.in_order(acted or range(len(events)))


def credit_to_go(facts: Facts, gamma: float = 1.0) -> dict[str, float] | None:
    """Return-to-go of each step by its event's id; None without a known outcome.

    Args:
        facts: The run's; its steps are the events that `steps` names, and the outcome comes
            with the last one.
        gamma: Discount of later rewards, a step, 0 to 1.
    """
    if facts.outcome is None:
        return None
    places = steps(facts)
    numbers = return_to_go(_at_the_end(facts.outcome.value, len(places)), gamma)
    return {facts.events[place].id: number for place, number in zip(places, numbers, strict=True)}


def credit_by_gae(
    facts: Facts, values: Mapping[str, float], gamma: float = 1.0, decay: float = 0.95
) -> dict[str, float] | None:
    """GAE of each step by its event's id, given its value; None without a known outcome.

    Args:
        facts: As in `credit_to_go`.
        values: Of each step by its event's id: what the outcome was expected to be there.
        gamma: Discount of later rewards, a step, 0 to 1.
        decay: The estimator's lambda: 0 trusts the values, 1 the outcome alone.

    Raises:
        KeyError: If a step has no value.
    """
    if facts.outcome is None:
        return None
    names = [facts.events[place].id for place in steps(facts)]
    rewards = _at_the_end(facts.outcome.value, len(names))
    numbers = gae(rewards, [values[name] for name in names], gamma, decay)
    return dict(zip(names, numbers, strict=True))


def _at_the_end(value: float, count: int) -> list[float]:
    return [0.0] * (count - 1) + [value] if count else []
