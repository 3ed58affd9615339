"""Sharing the outcome out over coalitions: exact Shapley and Banzhaf values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from orchtrace_otel.replay.estimate import Estimate, combine, mean
from orchtrace_otel.replay.game import Found, Game, Samples, narrow, rounds
from orchtrace_otel.replay.games import banzhaf_weights, coalitions, shapley_weights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def shapley(game: Game) -> list[Found]:
    """Share v(all) - v(none) out over all coalitions, each played `replays` times."""
    return _over_coalitions(game, shapley_weights(game.causes))


def banzhaf(game: Game) -> list[Found]:
    """Take the mean of what each player adds over all coalitions, each played `replays` times."""
    return _over_coalitions(game, banzhaf_weights(game.causes))


def _over_coalitions(game: Game, weights: Sequence[Mapping[int, float]]) -> list[Found]:
    masks = coalitions(game.causes)
    changes = [game.change(mask) for mask in masks]
    samples = {mask: Samples() for mask in masks}
    done = 0
    for seeds in rounds(game.replays):
        done = seeds.stop
        jobs = [(change, game.first_seed + seed) for seed in seeds for change in changes]
        for mask, outcome in zip(masks * len(seeds), game.run.run(jobs), strict=True):
            samples[mask].add(outcome)
        found = _weigh(samples, weights)
        if len(narrow(game, found, done)) == len(found):
            break
    lost = sum((one.lost for one in samples.values()), Counter[str]())
    is_early = done < game.replays
    return [
        Found(player, estimate, lost, is_narrow=is_early)
        for player, estimate in zip(game.players, _weigh(samples, weights), strict=True)
    ]


def _weigh(
    samples: Mapping[int, Samples], weights: Sequence[Mapping[int, float]]
) -> list[Estimate]:
    means = {mask: mean(one.values) for mask, one in samples.items()}
    return [
        combine([(weight, means[mask]) for mask, weight in one.items() if weight])
        for one in weights
    ]
