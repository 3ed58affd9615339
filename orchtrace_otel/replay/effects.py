"""What replays say of each player, and of them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.model import Reward
from orchtrace_otel.replay.estimate import Estimate
from orchtrace_otel.replay.players import Player, Slot, describe

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = "1"

_FAMILIES: Final[Mapping[str, str]] = {"agent": "R2", "role": "R3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one player, or one alternative to it, adds to the outcome.

    Attributes:
        player: The message, the agent or whatever it is.
        alternative: What was put in its place; None where it is about the player itself.
        estimate: The number, with its replays, its standard error and its interval.
        event: Id of the message's event; None for other players.
        lost: Replays without a value, by status: `failed`, `timed_out`, `blocked`.
        delay_s: Seconds that the message added to the run's critical path; None where
            the trace does not tell.
        r_msg: The reward of a message: its effect minus the price of its delay.
        is_narrow: Whether its interval became narrow enough and it was left at that.
    """

    player: Player
    estimate: Estimate
    alternative: Any = None
    event: str | None = None
    lost: Mapping[str, int]
    delay_s: float | None = None
    r_msg: float | None = None
    is_narrow: bool = False

    @property
    def value(self) -> float | None:
        """The number; None where no replay gave one."""
        return self.estimate.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterfactual:
    """What `orchtrace.counterfactual` found.

    Attributes:
        trace_id: Whose replays these were.
        method: How.
        effects: One a player, or one an alternative, in the order of the players.
        outcome: S(T), the recorded outcome; None where the trace has none.
        replays: How many came to an end, those found in the journal included.
        lost: How many of these have no value, by status.
        left_behind: Replays that never ended; their threads are still there.
    """

    trace_id: str
    method: str
    effects: tuple[Effect, ...]
    outcome: float | None
    replays: int
    lost: Mapping[str, int]
    left_behind: int = 0

    def __getitem__(self, player: Player) -> Effect:
        """Return the effect of a player; of several alternatives the first.

        Raises:
            KeyError: If it was not among the players.
        """
        for effect in self.effects:
            if effect.player == player:
                return effect
        raise KeyError(describe(player))

    def ranked(self) -> list[Effect]:
        """Return the effects that have a value, the greatest first."""
        known = [effect for effect in self.effects if effect.value is not None]
        return sorted(known, key=lambda effect: (-(effect.value or 0.0), describe(effect.player)))

    def rewards(self) -> list[Reward]:
        """Return the effects as rewards of estimator `replay`, for `record_reward` or a file.

        Those of messages go by event, as `r_msg` where that is known; those of agents and
        roles by name. Capacities, dependencies and alternatives are no unit of credit and
        are left out, as is what has no value.
        """
        found = [self._reward(effect) for effect in self.effects]
        return [reward for reward in found if reward is not None]

    def _reward(self, effect: Effect) -> Reward | None:
        value = effect.r_msg if effect.r_msg is not None else effect.value
        unit, target = _target(effect)
        if value is None or target is None or effect.alternative is not None:
            return None
        component = "r_msg" if effect.r_msg is not None else f"counterfactual_{self.method}"
        return Reward(
            id=f"{self.trace_id}:{component}:{self.method}:{unit}:{target}",
            component=component,
            value=value,
            family=_FAMILIES.get(unit, "R7"),
            unit=unit,
            target=target,
            estimator="replay",
            n=effect.estimate.n,
            se=effect.estimate.se,
            version=VERSION,
        )


def _target(effect: Effect) -> tuple[str, str | None]:
    player = effect.player
    if isinstance(player, Slot):
        return "message", effect.event
    if player.kind in _FAMILIES:
        return player.kind, player.name
    return "", None
