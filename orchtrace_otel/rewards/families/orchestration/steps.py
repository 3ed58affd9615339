"""Critical steps: how many LLM calls had to wait for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.model import records_of
from orchtrace_otel.rewards.component import component
from orchtrace_otel.rewards.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def critical_steps_of(stages: Iterable[tuple[int, Sequence[int]]]) -> int:
    """Return the sum over stages of the main agent's steps + the most of any sub-agent.

    PARL's CriticalSteps (arXiv 2602.02276), by its definition: a stage lies between two
    turns of the main agent.

    Args:
        stages: Steps of the main agent, and of each sub-agent, stage by stage.

    Example:
        >>> critical_steps_of([(1, [2, 3, 1]), (1, [])])
        5
    """
    return sum(main + max(subs, default=0) for main, subs in stages)


@component(family="R7", range=(0, float("inf")), inputs=("turn_records", "edges"), is_metric=True)
def critical_steps(facts: Facts) -> float | None:
    """The most LLM calls along any chain of causes.

    Where a team forks and joins it is PARL's sum over stages, and it holds at any depth.
    A turn counts at the event that carries it. Absent without turns, or where one's event
    is not there, on cycles, and with ids that are not unique.
    """
    if not facts.is_causal:
        return None
    weights = turns_by_place(facts)
    if weights is None:
        return None
    return float(max(steps_of(facts, weights), default=0))


def steps_of(facts: Facts, weights: Mapping[int, int]) -> Sequence[int]:
    """The most turns along any chain to each event, from the turns that each carries."""
    causes = facts.graph.causes
    steps = [0] * len(causes)
    for place, count in weights.items():
        steps[place] = count
    for place in facts.graph.order:
        before = 0
        for cause in causes[place]:
            if steps[cause] > before:  # noqa: PLR1730 - `max` costs more than all the rest
                before = steps[cause]
        steps[place] += before
    return steps


def turns_by_place(facts: Facts) -> Mapping[int, int] | None:
    """How many turns each event carries; None without turns, or where one's event is missing."""
    records = records_of(facts.trace.stop, "turn_records")
    if not records:
        return None
    places = {event.id: at for at, event in enumerate(facts.events) if "turns" in event.keys}
    weights: dict[int, int] = {}
    for record in records:
        place = places.get(record.get("event", ""))
        if place is None:
            return None
        weights[place] = weights.get(place, 0) + 1
    return weights
