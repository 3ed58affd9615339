"""How failures spread: events that failed, by those that failed first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchtrace_otel.rewards.component import component
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.assignments import unsettled

if TYPE_CHECKING:
    from collections.abc import Collection


@component(family="R7", range=(0, float("inf")), inputs=("status", "edges"), is_metric=True)
def error_amplification(facts: Facts) -> float | None:
    """Events that failed by those that no failed one led to, - 1; 0 where none failed.

    Failed is what has status `error`. Absent on cycles, and with ids that are not unique.
    """
    if not facts.is_causal:
        return None
    failed, led = failures(facts)
    return len(failed) / (len(failed) - len(led)) - 1 if failed else 0.0


def failures(facts: Facts) -> tuple[Collection[int], Collection[int]]:
    """Positions of what failed, and of those among them that another failed one led to."""
    events = facts.events
    failed = {at for at in facts.share(unsettled) if events[at].keys.get("status") == "error"}
    return failed, _led_by(facts, failed) if failed else ()


def _led_by(facts: Facts, failed: Collection[int]) -> Collection[int]:
    """Those that failed after, and because of, others that had failed."""
    causes = facts.graph.causes
    tainted: set[int] = set()
    led: set[int] = set()
    for place in facts.graph.order:
        if not tainted.isdisjoint(causes[place]):
            tainted.add(place)
            if place in failed:
                led.add(place)
        elif place in failed:
            tainted.add(place)
    return led
