"""Dividing the team's outcome over the events of one run, by every method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from orchtrace_otel.rewards.credit.critical_path import critical_path
from orchtrace_otel.rewards.credit.decay import decay
from orchtrace_otel.rewards.credit.dominator import dominator
from orchtrace_otel.rewards.credit.flow import flow
from orchtrace_otel.rewards.credit.last_writer import last_writer
from orchtrace_otel.rewards.credit.reachability import reachability
from orchtrace_otel.rewards.credit.shares import Shares, amounts
from orchtrace_otel.rewards.upstream import Upstream

if TYPE_CHECKING:
    from orchtrace_otel.model import Event
    from orchtrace_otel.rewards.facts import Facts
    from orchtrace_otel.rewards.outcome import Outcome

Method: TypeAlias = "Callable[[Upstream, Facts], Shares | None]"

METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        method.__name__: method
        for method in (reachability, dominator, flow, decay, critical_path, last_writer)
    }
)
"""Every method by its name in an event's `credit`."""

_FLAGS: Final = ("cyclic", "skewed", "duplicate_ids")


@dataclass(frozen=True, slots=True)
class Credit:
    """What each event of a run gets of the team's outcome, by method.

    Attributes:
        outcome: The reward that is divided.
        events: The events of the trace.
        upstream: What led to the answer.
        shares: Method to each event's part; a method that cannot be told is absent.
    """

    outcome: Outcome
    events: Sequence[Event]
    upstream: Upstream
    shares: Mapping[str, Shares]

    def parts(self, method: str) -> dict[int, float]:
        """The credit of those events that get any, by position."""
        numbers, parts = self.numbers(method), self.shares[method][0]
        return {place: numbers[place] for place, part in enumerate(parts) if part}

    def numbers(self, method: str) -> list[float]:
        """The credit of each event, in the order of the events."""
        return amounts(*self.shares[method], self.outcome.value)

    def by_id(self, method: str) -> dict[str, float]:
        """The credit of each event by its id."""
        numbers = self.numbers(method)
        return {event.id: number for event, number in zip(self.events, numbers, strict=True)}


def assign(facts: Facts) -> Credit | None:
    """Divide the outcome of a run over its events; None where that cannot be told.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> from orchtrace_otel.rewards.facts import Facts
        >>> events = (
        ...     Event("a", 0, "return", "one"),
        ...     Event("b", 0, "return", "two"),
        ...     Event("z", 1, "aggregate", "lead"),
        ... )
        >>> edges = (Edge("a", "z", "aggregate"), Edge("b", "z", "aggregate"))
        >>> credit = assign(Facts(Trace("run", "q", events, edges, rewards={"task": 1.0})))
        >>> credit.by_id("flow")
        {'a': 0.25, 'b': 0.25, 'z': 0.5}
    """
    outcome = facts.outcome
    if outcome is None or why_absent(facts) is not None:
        return None
    upstream = facts.upstream
    if upstream is None:
        return None
    found = {name: method(upstream, facts) for name, method in METHODS.items()}
    shares = {name: share for name, share in found.items() if share is not None}
    return Credit(outcome, facts.events, upstream, shares)


def why_absent(facts: Facts) -> str | None:
    """Why a run has no credit: `no_outcome`, `no_answer`, or the flag that forbids it.

    Example:
        >>> from orchtrace_otel.model import Trace
        >>> from orchtrace_otel.rewards.facts import Facts
        >>> why_absent(Facts(Trace("run", "q", ())))
        'no_outcome'
    """
    if facts.outcome is None:
        return "no_outcome"
    for flag in _FLAGS:
        if flag in facts.graph.flags:
            return flag
    return "no_answer" if facts.upstream is None else None
