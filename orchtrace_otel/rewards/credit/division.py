"""A reward divided over the targets of one unit.

Sums are of integers, so that the parts of flow and decay are the whole reward over agents
as they are over events. What no target covers is `unassigned`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import compress
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
    for target, part in zip(targets, parts, strict=True):
        sums[target] += part
    rest = sums.pop(None, 0)
    return _division({name: part for name, part in sums.items() if name}, rest, whole, credit)


class Tally:
    """Sums by agent, role and orchestrator; whose each event is, is found out only once.

    Args:
        facts: The run.
        credit: What its events got.
    """

    def __init__(self, facts: Facts, credit: Credit) -> None:
        self._credit = credit
        owners = agents(facts)
        places: defaultdict[str | None, list[int]] = defaultdict(list)
        for place, owner in enumerate(owners):
            places[owner].append(place)
        self._names = sorted(name for name in places if name is not None)
        self._roles = list(map(roles(facts).get, self._names))
        types = facts.by_type
        self._decisions = [place for kind in DECISIONS for place in types.get(kind, ())]
        self._sums = {
            # Where each part is 1, counting is faster than adding.
            method: Counter(compress(owners, parts)) if whole == 1 else _sums(places, parts)
            for method, (parts, whole) in credit.shares.items()
        }

    def by_agent(self, method: str) -> Division:
        """What each agent gets: the sum over its events."""
        sums = self._sums[method]
        found = {name: sums.get(name, 0) for name in self._names}
        return self._divide(method, found, sums.get(None, 0))

    def by_role(self, method: str) -> Division:
        """What each role gets: the sum over its agents; agents without one are unassigned."""
        sums = self._sums[method]
        rest = sums.get(None, 0)
        found: defaultdict[str, int] = defaultdict(int)
        for name, role in zip(self._names, self._roles, strict=True):
            if role is None:
                rest += sums.get(name, 0)
            else:
                found[role] += sums.get(name, 0)
        return self._divide(method, dict(sorted(found.items())), rest)

    def of_orchestrator(self, method: str) -> Division:
        """What decisions, spawns, delegations, merging and the stop get, whoever did them."""
        parts = self._credit.shares[method][0]
        decided = sum(map(parts.__getitem__, self._decisions))
        rest = sum(self._sums[method].values()) - decided
        return self._divide(method, {"orchestrator": decided}, rest)

    def _divide(self, method: str, found: Mapping[str, int], rest: int) -> Division:
        return _division(found, rest, self._credit.shares[method][1], self._credit)


def _sums(
    places: Mapping[str | None, Sequence[int]], parts: Sequence[int]
) -> Mapping[str | None, int]:
    return {owner: sum(map(parts.__getitem__, held)) for owner, held in places.items()}


def _division(found: Mapping[str, int], rest: int, whole: int, credit: Credit) -> Division:
    value = credit.outcome.value
    numbers = {name: part / whole * value if part else 0.0 for name, part in found.items()}
    return Division(numbers, rest / whole * value if rest else 0.0)
