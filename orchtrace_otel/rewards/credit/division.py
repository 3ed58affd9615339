"""A reward divided over the targets of one unit.

Sums are of integers, so that the parts of flow and decay are the whole reward over agents
as they are over events. What no target covers is `unassigned`.
"""

from __future__ import annotations

from collections import defaultdict
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
    for target, part in zip(targets, credit.shares[method][0], strict=True):
        sums[target] += part
    rest = sums.pop(None, 0)
    return _division(credit, method, {name: n for name, n in sums.items() if name}, rest)


class Tally:
    """Sums by agent, role and orchestrator; whose each event is, is found out only once.

    Args:
        facts: The run.
        credit: What its events got.
    """

    def __init__(self, facts: Facts, credit: Credit) -> None:
        self._credit = credit
        owners = agents(facts)
        self._names = sorted({name for name in owners if name is not None})
        self._role_of = roles(facts)
        self._roles = sorted({self._role_of[name] for name in self._names if name in self._role_of})
        decided: defaultdict[str | None, list[int]] = defaultdict(list)
        others: defaultdict[str | None, list[int]] = defaultdict(list)
        for kind, places in facts.by_type.items():
            held = decided if kind in DECISIONS else others
            for place in places:
                held[owners[place]].append(place)
        # Only results of tools are nobody's, and these are no decisions.
        self._nobodys = others.pop(None, [])
        self._others = {name: others[name] for name in self._names if name in others}
        self._decided = {name: decided[name] for name in self._names if name in decided}
        self._sums: dict[str, tuple[dict[str, int], int, int]] = {}

    def by_agent(self, method: str) -> Division:
        """What each agent gets: the sum over its events."""
        sums, rest, _ = self._sum(method)
        return _division(self._credit, method, sums, rest)

    def by_role(self, method: str) -> Division:
        """What each role gets: the sum over its agents; agents without one are unassigned."""
        sums, rest, _ = self._sum(method)
        found = dict.fromkeys(self._roles, 0)
        for name, part in sums.items():
            role = self._role_of.get(name)
            if role is None:
                rest += part
            else:
                found[role] += part
        return _division(self._credit, method, found, rest)

    def of_orchestrator(self, method: str) -> Division:
        """What decisions, spawns, delegations, merging and the stop get, whoever did them."""
        sums, rest, decided = self._sum(method)
        rest += sum(sums.values()) - decided
        return _division(self._credit, method, {"orchestrator": decided}, rest)

    def _sum(self, method: str) -> tuple[dict[str, int], int, int]:
        """What each agent got, what nobody got, and what of all this decisions got."""
        if method not in self._sums:
            part = list(self._credit.shares[method][0]).__getitem__  # faster than a bytearray's
            sums = dict.fromkeys(self._names, 0)
            for name, places in self._others.items():
                sums[name] = sum(map(part, places))
            decided = 0
            for name, places in self._decided.items():
                own = sum(map(part, places))
                sums[name] += own
                decided += own
            self._sums[method] = sums, sum(map(part, self._nobodys)), decided
        return self._sums[method]


def _division(credit: Credit, method: str, found: Mapping[str, int], rest: int) -> Division:
    whole, value = credit.shares[method][1], credit.outcome.value
    numbers = {name: part / whole * value if part else 0.0 for name, part in found.items()}
    return Division(numbers, rest / whole * value if rest else 0.0)
