"""What is asked of replays, and what is found; shared by all methods."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orchtrace_otel.replay.change import Change
from orchtrace_otel.replay.estimate import Estimate
from orchtrace_otel.replay.games import Causes
from orchtrace_otel.replay.players import Player

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping, Sequence

    from orchtrace_otel.replay.outcome import Outcome
    from orchtrace_otel.replay.replays import Replays

LEAST: Final = 20
"""Replays of each kind before an interval is believed to be narrow."""

_ROUND: Final = 10


class Found(NamedTuple):
    """What a method says of one player, or of one alternative to it."""

    player: Player
    estimate: Estimate
    lost: Mapping[str, int]
    alternative: Any = None
    is_narrow: bool = False


@dataclass(slots=True)
class Game:
    """What is asked.

    Attributes:
        players: Who is taken out or edited.
        causes: For each player those that lead to it, as bits.
        replays: How many, in the unit of the method.
        width: Width of an interval that is narrow enough; None to run all.
        first_seed: Seeds count from here.
        dice: Where random orders come from.
        run: Runs replays.
        outcome: The recorded outcome, where it is what a removal is compared with; None
            for replays with the player in.
        truncation: How near to the value of all an order is left at that.
        alternatives: Player to what may be put in its place.
    """

    players: Sequence[Player]
    causes: Causes
    replays: int
    width: float | None
    first_seed: int
    dice: random.Random
    run: Replays
    outcome: float | None = None
    truncation: float | None = None
    alternatives: Mapping[Player, Sequence[Any]] = field(
        default_factory=dict["Player", "Sequence[Any]"]
    )

    def change(self, coalition: int) -> Change:
        """Return the change that leaves a coalition in: all others out, it run anew."""
        inside = frozenset(p for at, p in enumerate(self.players) if coalition >> at & 1)
        return Change(without=frozenset(self.players) - inside, anew=inside)


class Samples:
    """Values of one change, and what was lost of it."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.lost: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if outcome.value is None:
            self.lost[outcome.status] += 1
        else:
            self.values.append(outcome.value)


def rounds(count: int, size: int = _ROUND) -> Iterable[range]:
    """Return the numbers below `count` in rounds.

    Example:
        >>> [list(one) for one in rounds(5, 2)]
        [[0, 1], [2, 3], [4]]
    """
    return (range(at, min(at + size, count)) for at in range(0, count, size))


def narrow(game: Game, estimates: Sequence[Estimate], done: int) -> set[int]:
    """Positions of the estimates that are narrow enough to be left at that."""
    width = game.width
    if width is None or done < LEAST:
        return set()
    return {at for at, one in enumerate(estimates) if one.width <= width}
