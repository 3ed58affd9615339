"""Comparing one thing at a time: leave-one-out, edits, and alternatives to a message."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from orchtrace_otel.replay.change import Change
from orchtrace_otel.replay.estimate import Estimate, combine, difference, mean
from orchtrace_otel.replay.game import Found, Game, Samples, narrow, rounds
from orchtrace_otel.replay.games import advantages
from orchtrace_otel.replay.players import Player

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _Arm(NamedTuple):
    """A player, or an alternative to it, and the changes whose means are compared."""

    player: Player
    alternative: Any
    into: Change | None
    against: Change


def leave_one_out(game: Game) -> list[Found]:
    """Compare each player in with it taken out: v(all) - v(all but it).

    Half of a player's replays have it in and run all downstream of it anew; where the
    recorded outcome is what it is compared with, all of them have it out. Unbiased; the
    values do not add up, and of two that stand in for each other neither gets any.
    """
    arms = [
        _Arm(
            player,
            None,
            Change(anew=frozenset({player})) if game.outcome is None else None,
            Change(without=frozenset({player})),
        )
        for player in game.players
    ]
    return _compare(game, arms)


def edits(game: Game) -> list[Found]:
    """Compare each edited player with itself as it was: R(edited) - R(original).

    One field at a time, as in LEMON (arXiv 2605.14483).
    """
    arms = [
        _Arm(
            player,
            value,
            Change(edits={player: value}),
            Change(anew=frozenset({player})),
        )
        for player, values in game.alternatives.items()
        for value in values
    ]
    return _compare(game, arms)


def _compare(game: Game, arms: Sequence[_Arm]) -> list[Found]:
    samples: defaultdict[str, Samples] = defaultdict(Samples)
    sides = 1 if game.outcome is not None else 2
    settled: set[int] = set()
    for seeds in rounds(max(game.replays // sides, 1)):
        jobs: dict[tuple[str, int], tuple[Change, int]] = {}
        for at, arm in enumerate(arms):
            if at in settled:
                continue
            for change in (arm.into, arm.against):
                if change is not None:
                    key = change.key()
                    jobs |= {(key, s): (change, game.first_seed + s) for s in seeds}
        if not jobs:
            break
        for (key, _), outcome in zip(jobs, game.run.run(list(jobs.values())), strict=True):
            samples[key].add(outcome)
        settled |= narrow(game, [_estimate(game, arm, samples) for arm in arms], seeds.stop)
    return [
        Found(
            arm.player,
            _estimate(game, arm, samples),
            _lost(samples, arm),
            arm.alternative,
            at in settled,
        )
        for at, arm in enumerate(arms)
    ]


def _estimate(game: Game, arm: _Arm, samples: Mapping[str, Samples]) -> Estimate:
    against = samples[arm.against.key()].values
    if arm.into is not None:
        return difference(samples[arm.into.key()].values, against)
    found, recorded = mean(against), game.outcome
    if found.value is None or recorded is None:
        return Estimate(None, found.n)
    low, high = found.low, found.high
    return Estimate(
        recorded - found.value,
        found.n,
        found.se,
        None if high is None else recorded - high,
        None if low is None else recorded - low,
    )


def _lost(samples: Mapping[str, Samples], arm: _Arm) -> Counter[str]:
    lost = Counter(samples[arm.against.key()].lost)
    if arm.into is not None:
        lost += samples[arm.into.key()].lost
    return lost


def alternatives(game: Game) -> list[Found]:
    """Compare a message with alternatives to it, all else frozen (C3, arXiv 2603.06859).

    Each alternative and what was really sent are played `replays` times; the advantage of
    one is its mean minus that of the others, weighted by their counts of replays. One
    alone has the advantage 0, by definition: no interval.
    """
    return [
        one
        for player, values in game.alternatives.items()
        for one in _alternatives(game, player, values)
    ]


def _alternatives(game: Game, player: Player, values: Sequence[Any]) -> list[Found]:
    arms: list[tuple[Any, Change]] = [(None, Change(anew=frozenset({player})))]
    arms += [(value, Change(edits={player: value})) for value in values]
    samples = [Samples() for _ in arms]
    done = 0
    for seeds in rounds(game.replays):
        done = seeds.stop
        jobs = [(change, game.first_seed + seed) for _, change in arms for seed in seeds]
        for at, outcome in enumerate(game.run.run(jobs)):
            samples[at // len(seeds)].add(outcome)
        estimates = _advantages([mean(one.values) for one in samples])
        if len(narrow(game, estimates, done)) == len(arms):
            break
    is_narrow = done < game.replays
    return [
        Found(player, estimate, one.lost, value, is_narrow)
        for (value, _), estimate, one in zip(
            arms, _advantages([mean(one.values) for one in samples]), samples, strict=True
        )
    ]


def _advantages(means: Sequence[Estimate]) -> list[Estimate]:
    known = [one for one in means if one.value is not None]
    values = iter(advantages([one.value or 0.0 for one in known], [one.n for one in known]))
    total = sum(one.n for one in known)
    found: list[Estimate] = []
    for one in means:
        if one.value is None:
            found.append(Estimate(None, one.n))
            continue
        value, rest = next(values), total - one.n
        if not rest:
            found.append(Estimate(value, one.n))
            continue
        parts = [(-other.n / rest, other) for other in known if other is not one]
        found.append(combine([(1.0, one), *parts])._replace(value=value, n=one.n))
    return found
