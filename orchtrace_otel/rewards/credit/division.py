"""A reward divided over the targets of one unit.

Sums are of integers, so that the parts of flow and decay are the whole reward over agents
as they are over events. What no target covers is `unassigned`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import add, itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from orchtrace_otel.rewards.credit.shares import amounts
from orchtrace_otel.rewards.credit.targets import DECISIONS, agents, roles

if TYPE_CHECKING:
    from orchtrace_otel.rewards.credit.assigning import Credit
    from orchtrace_otel.rewards.credit.shares import Shares
    from orchtrace_otel.rewards.credit.targets import Targets
    from orchtrace_otel.rewards.facts import Facts


_Owned: TypeAlias = defaultdict[str | None, list[int]]
"""Positions of events by whose they are."""


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
    *each, unassigned = amounts(
        [*sums.values(), rest], credit.shares[method][1], credit.outcome.value
    )
    return Division(
        {name: number for name, number in zip(sums, each, strict=True) if name}, unassigned
    )


class Divisions(NamedTuple):
    """What the targets of a unit get by each of several methods.

    Attributes:
        targets: Target to its number by each method, by name.
        unassigned: What the events of no target got by each.
    """

    targets: Mapping[str, Sequence[float]]
    unassigned: Sequence[float]


def tally(facts: Facts, credit: Credit, methods: Iterable[str]) -> Mapping[str, Divisions]:
    """Sum up what methods gave to events by `agent`, by `role`, and for the `orchestrator`.

    An agent gets the sum over its events, a role that over its agents; agents without one are
    unassigned. The orchestrator gets what decisions, spawns, delegations, merging and the stop
    got, whoever did them. Whose each event is, is read once for all methods.
    """
    shares = [credit.shares[method] for method in methods]
    deciding, working = _owned(facts)
    nothing = [0] * len(shares)
    totals: dict[str | None, list[int]] = {None: nothing}
    decided = others = nothing
    for name, places in deciding.items():
        totals[name] = sums = _sums(shares, places)
        decided = [*map(add, decided, sums)]
    for name, places in working.items():
        sums = _sums(shares, places)
        totals[name] = [*map(add, totals[name], sums)] if name in totals else sums
        others = [*map(add, others, sums)]
    nobodys = totals[None]
    names = sorted([name for name in totals if name is not None])
    by_agent = {name: totals[name] for name in names}
    by_role, roleless = _by_role(by_agent, nobodys, roles(facts))
    rows = [*by_agent.values(), nobodys, *by_role.values(), roleless, decided, others]
    columns = [
        amounts(column, whole, credit.outcome.value)
        for column, (_, whole) in zip(zip(*rows, strict=True), shares, strict=True)
    ]
    each = zip(*columns, strict=True)
    return {
        unit: Divisions({name: next(each) for name in names}, next(each))
        for unit, names in (
            ("agent", by_agent),
            ("role", by_role),
            ("orchestrator", ("orchestrator",)),
        )
    }


def _owned(facts: Facts) -> tuple[_Owned, _Owned]:
    """Positions of the decisions of each agent, and of all else that it did."""
    owners = agents(facts)
    deciding: _Owned = defaultdict(list)
    working: _Owned = defaultdict(list)
    for kind, places in facts.by_type.items():
        owned = deciding if kind in DECISIONS else working
        for place in places:
            owned[owners[place]].append(place)
    return deciding, working


def _sums(shares: Iterable[Shares], places: Sequence[int]) -> list[int]:
    """What methods gave at these places, each in parts of its whole."""
    if len(places) > 1:
        take = itemgetter(*places)  # all in one step
        return [sum(take(parts)) for parts, _ in shares]
    return [parts[places[0]] if places else 0 for parts, _ in shares]


def _by_role(
    by_agent: Mapping[str, Sequence[int]], nobodys: Sequence[int], role_of: Mapping[str, str]
) -> tuple[Mapping[str, Sequence[int]], Sequence[int]]:
    """The sums of each role, by name, and those of no role."""
    found: dict[str, Sequence[int]] = {}
    roleless = nobodys
    for name, sums in by_agent.items():
        role = role_of.get(name)
        if role is None:
            roleless = [*map(add, roleless, sums)]
        else:
            found[role] = [*map(add, found[role], sums)] if role in found else sums
    return {role: found[role] for role in sorted(found)}, roleless
