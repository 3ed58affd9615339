"""A reward divided over the targets of one unit.

Sums are of integers, so that the parts of flow and decay are the whole reward over agents
as they are over events. What no target covers is `unassigned`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from orchtrace_otel.rewards.credit.targets import DECISIONS, agents, roles

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.assigning import Credit
    from orchtrace_otel.rewards.credit.targets import Targets
    from orchtrace_otel.rewards.facts import Facts


class Division(NamedTuple):
    """What the targets of a unit get.

    Attributes:
        targets: Target to number, by name.
        unassigned: What the events of no target got.
    """

    targets: Mapping[str, float]
    unassigned: float


def divide(credit: Credit, method: str, targets: Targets) -> Division:
    """Sum up what a method gave to events, by the target of each."""
    sums: dict[str | None, int] = dict.fromkeys(targets, 0)
    parts, whole = credit.shares[method]
    for place, part in parts.items():
        sums[targets[place]] += part
    rest = sums.pop(None, 0)
    return _division({name: part for name, part in sums.items() if name}, rest, whole, credit)


class Tally:
    """Sums by agent, role and orchestrator, from one pass over the events for each method.

    Args:
        facts: The run.
        credit: What its events got.
    """

    def __init__(self, facts: Facts, credit: Credit) -> None:
        self._credit = credit
        self._roles = roles(facts)
        owners = agents(facts)
        self._names = sorted({owner for owner in owners if owner is not None})
        # Two buckets an agent: its decisions, and what else it did. Nobody's stand last.
        named: list[str | None] = [*self._names, None]
        first = {name: 2 * number for number, name in enumerate(named)}
        self._buckets = [
            first[owner] + (event.type in DECISIONS)
            for owner, event in zip(owners, facts.events, strict=True)
        ]
        self._sums = {method: self._sum(*shares) for method, shares in credit.shares.items()}

    def _sum(self, parts: Mapping[int, int], whole: int) -> list[int]:
        buckets = self._buckets
        sums = [0] * (2 * len(self._names) + 2)
        if whole == 1:  # each part is 1: counting is faster than adding
            for bucket, count in Counter(map(buckets.__getitem__, parts)).items():
                sums[bucket] = count
            return sums
        for place, part in parts.items():
            sums[buckets[place]] += part
        return sums

    def by_agent(self, method: str) -> Division:
        """What each agent gets: the sum over its events."""
        sums, whole = self._sums[method], self._credit.shares[method][1]
        found = {
            name: sums[2 * number] + sums[2 * number + 1] for number, name in enumerate(self._names)
        }
        return _division(found, sums[-2] + sums[-1], whole, self._credit)

    def by_role(self, method: str) -> Division:
        """What each role gets: the sum over its agents; agents without one are unassigned."""
        sums, whole = self._sums[method], self._credit.shares[method][1]
        rest = sums[-2] + sums[-1]
        found: defaultdict[str, int] = defaultdict(int)
        for number, name in enumerate(self._names):
            part = sums[2 * number] + sums[2 * number + 1]
            role = self._roles.get(name)
            if role is None:
                rest += part
            else:
                found[role] += part
        return _division(dict(sorted(found.items())), rest, whole, self._credit)

    def of_orchestrator(self, method: str) -> Division:
        """What decisions, spawns, delegations, merging and the stop get, whoever did them."""
        sums, whole = self._sums[method], self._credit.shares[method][1]
        return _division({"orchestrator": sum(sums[1::2])}, sum(sums[::2]), whole, self._credit)


def _division(found: Mapping[str, int], rest: int, whole: int, credit: Credit) -> Division:
    value = credit.outcome.value
    numbers = {name: part / whole * value if part else 0.0 for name, part in found.items()}
    return Division(numbers, rest / whole * value if rest else 0.0)
