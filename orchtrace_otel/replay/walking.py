"""Sampling orders: Shapley values by what each player adds to those before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from orchtrace_otel.replay.estimate import gain
from orchtrace_otel.replay.game import Found, Game, narrow, rounds
from orchtrace_otel.replay.games import order

if TYPE_CHECKING:
    from collections.abc import Sequence


def permutations(game: Game) -> list[Found]:
    """Estimate Shapley values by what players add in random orders, `replays` of them.

    Orders come in opposite pairs; a pair is one observation. All of an order's replays
    share a seed. Where `truncation` is given, an order is left as soon as its value is that
    near to the value of all, and who is not in yet adds 0: biased by at most that much.
    """
    added: dict[int, list[float]] = {at: [] for at in range(len(game.players))}
    lost: Counter[str] = Counter()
    pairs = max(game.replays // 2, 1)
    done = 0
    for numbers in rounds(pairs):
        walks = [
            walk
            for number in numbers
            for walk in (
                _Walk(one, game.first_seed + number) for one in order(game.causes, game.dice)
            )
        ]
        _walk(game, walks, lost)
        for forth, back in zip(walks[::2], walks[1::2], strict=True):
            for at, values in added.items():
                both = [one.added.get(at) for one in (forth, back)]
                if None not in both:
                    values.append(fmean(value for value in both if value is not None))
        done = numbers.stop
        if len(narrow(game, [gain(values) for values in added.values()], done)) == len(added):
            break
    return [
        Found(player, gain(added[at]), lost, is_narrow=done < pairs)
        for at, player in enumerate(game.players)
    ]


@dataclass(slots=True)
class _Walk:
    """One order of the players, walked along: what each adds to those before it."""

    order: list[int]
    seed: int
    coalition: int = 0
    before: float | None = None
    whole: float | None = None
    added: dict[int, float | None] = field(default_factory=dict[int, "float | None"])

    def goes_on(self, step: int, truncation: float | None) -> bool:
        """Whether there is a next one; where those in are worth nearly all, nobody adds more."""
        if self._is_near(truncation):
            self.added |= dict.fromkeys(self.order[step:], 0.0)
            self.order = self.order[:step]
        return step < len(self.order)

    def join(self, player: int, coalition: int, value: float | None) -> None:
        """Let a player join; what it adds is unknown where a replay has no value."""
        is_known = value is not None and self.before is not None
        self.added[player] = (value or 0.0) - (self.before or 0.0) if is_known else None
        self.coalition, self.before = coalition, value

    def _is_near(self, truncation: float | None) -> bool:
        if truncation is None or self.before is None or self.whole is None:
            return False
        return abs(self.whole - self.before) <= truncation


def _play(game: Game, jobs: Sequence[tuple[_Walk, int]], lost: Counter[str]) -> list[float | None]:
    outcomes = game.run.run([(game.change(mask), walk.seed) for walk, mask in jobs])
    lost.update(one.status for one in outcomes if one.value is None)
    return [one.value for one in outcomes]


def _walk(game: Game, walks: Sequence[_Walk], lost: Counter[str]) -> None:
    """Walk along orders side by side, so that their replays run at the same time."""
    everybody = (1 << len(game.players)) - 1
    for walk, value in zip(walks, _play(game, [(walk, 0) for walk in walks], lost), strict=True):
        walk.before = value
    for walk, value in zip(
        walks, _play(game, [(walk, everybody) for walk in walks], lost), strict=True
    ):
        walk.whole = value
    for step in range(len(game.players)):
        going = [
            (walk, walk.coalition | 1 << walk.order[step])
            for walk in walks
            if walk.goes_on(step, game.truncation)
        ]
        for (walk, mask), value in zip(going, _play(game, going, lost), strict=True):
            walk.join(walk.order[step], mask, value)
