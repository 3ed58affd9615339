"""The label of a call or a run: one number, whose it is, or why there is none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]

DEFAULT: Final = "task"
"""Component that is taken where there are several and none is asked for."""

CREDIT: Final = "credit:"
"""What a component begins with that is no reward but a share of the outcome, by that method."""

_PLACES: Final = (("rewards", "turn"), ("agent_rewards", "agent"), ("run_rewards", "team"))
"""Where a call's rewards stand, the nearest to it first."""


class Label(NamedTuple):
    """One number.

    Attributes:
        value: The number; None where there is none.
        component: Name of the reward.
        unit: Whose reward it is: `turn`, `agent` or `team`.
        missing: Why there is none; one of `REASONS`.
    """

    value: float | None = None
    component: str | None = None
    unit: str | None = None
    missing: str | None = None


def turn_label(
    row: Json,
    component: str | None,
    structural: Collection[str] = frozenset(),
    given: Collection[str] = frozenset(),
) -> Label:
    """Return the label of a row of the turns table: its own, else its agent's, else the team's.

    Without a component `task` counts, or the only one of those that are `given` in some run
    of the data set, so that all its labels are of one; of the row alone where nobody said
    which are. Those that are `structural` are computed from the trace and count only where
    they are asked for by name.

    A component `credit:METHOD` is the call's share of the outcome instead.

    Example:
        >>> turn_label({"rewards": {"task": 1.0}, "run_rewards": {"task": 0.0}}, None)
        Label(value=1.0, component='task', unit='turn', missing=None)
    """
    known = {key for place, _ in _PLACES for key in row.get(place, ())}
    name, missing = _name(known, component, structural, given)
    disagreeing = row.get("contradictory", ())
    if name is not None and name.startswith(CREDIT):
        share = row.get("credit", {}).get(name.removeprefix(CREDIT))
        return Label(share, name, None if share is None else "turn", _no_share(share))
    for place, unit in _PLACES:
        held: Mapping[str, float] = row.get(place, {})
        if name is not None and name in held and name not in disagreeing:
            return Label(held[name], name, unit)
    if name in disagreeing or (disagreeing and name is None):
        return Label(missing="contradictory_rewards", component=name)
    return Label(missing=missing or "no_reward", component=name)


def _no_share(share: float | None) -> str | None:
    return "no_reward" if share is None else None


def run_label(
    rewards: Mapping[str, float],
    disagreeing: Collection[str],
    component: str | None,
    structural: Collection[str] = frozenset(),
    given: Collection[str] = frozenset(),
) -> Label:
    """Return the label of a run, from its team's rewards, as `turn_label` does a call's."""
    name, missing = _name(set(rewards), component, structural, given)
    if name in disagreeing or (disagreeing and name is None and not rewards):
        return Label(missing="contradictory_rewards", component=name)
    if name is not None and name in rewards:
        return Label(rewards[name], name, "team")
    return Label(missing=missing or "no_reward", component=name)


def _name(
    known: set[str], wanted: str | None, structural: Collection[str], given: Collection[str]
) -> tuple[str | None, str | None]:
    if wanted is not None:
        return wanted, None
    # What is computed from the trace alone is there for every run, and is no outcome.
    known = known.difference(structural)
    choice = given or known
    name = DEFAULT if DEFAULT in choice else next(iter(choice)) if len(choice) == 1 else None
    if name is None or name in structural:
        return None, "ambiguous_reward" if known and name is None else "no_reward"
    return name, None
