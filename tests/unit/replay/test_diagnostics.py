"""C3's diagnostics: variance, fidelity and influence, on cases whose answer is known."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.replay import Change, Slot, diagnostics
from orchtrace_otel.replay.diagnostics import credit_variance, fidelity, influence
from orchtrace_otel.replay.estimate import Estimate

if TYPE_CHECKING:
    from orchtrace_otel.model import Trace
    from orchtrace_otel.replay.effects import Counterfactual

PLAN, CODE = Slot("planner", "coder", 1), Slot("coder", "tester", 1)
MEANS = {None: 0.8, "vague": 0.4, "other": 0.6, "long": 0.9}


def asked(trace: Trace, noise: float = 0.0, seed: int = 0, *, replays: int = 4) -> Counterfactual:
    """Three alternatives to one message and two to another, whose true means are known."""

    def again(change: Change, at: int) -> float:
        value = next(iter(change.edits.values()), None)
        if value is None and change.touched == {CODE}:
            return 0.2
        dice = random.Random(f"{at} {change.key()}")  # noqa: S311 - seeded, no secret
        return MEANS[value] + noise * dice.gauss(0, 1)

    return orchtrace.counterfactual(
        trace,
        again,
        method="alternatives",
        alternatives={PLAN: ["vague", "other"], CODE: ["long"]},
        replays=replays,
        seed=seed,
    )


def test_variance_is_that_of_credit_within_a_context(trace) -> None:
    """Advantages .3, -.3, 0 vary by .06, and .7, -.7 by .49; the mean over both contexts."""
    assert credit_variance(asked(trace)) == pytest.approx((0.06 + 0.49) / 2)


def test_more_replays_make_noise_smaller(trace) -> None:
    """What they do not make smaller is what the alternatives differ by."""
    few, many = (asked(trace, 0.5, replays=count) for count in (4, 400))
    true = (0.06 + 0.49) / 2
    assert abs(credit_variance(many) - true) < abs(credit_variance(few) - true)


def test_credit_that_ranks_as_other_replays_do_is_faithful(trace) -> None:
    """Without noise entirely, with much of it less; a number from -1 to 1."""
    assert fidelity(asked(trace), asked(trace, seed=1_000)) == pytest.approx(1.0)
    noisy = fidelity(asked(trace, 2.0), asked(trace, 2.0, seed=1_000))
    assert noisy is not None
    assert -1.0 <= noisy < 1.0


def test_gains_are_means_less_the_mean_of_their_context(trace) -> None:
    """R - V: .2, -.2, 0 of three with mean .6, and .35, -.35 of two: one scale for both."""
    found = {gain for _, gain in diagnostics._gains(asked(trace))}
    assert sorted(found) == pytest.approx([-0.35, -0.2, 0.0, 0.2, 0.35])


def test_what_cannot_be_compared_has_no_number(trace) -> None:
    """One alternative alone, or all alike: None and never 0."""
    alone = orchtrace.counterfactual(
        trace,
        lambda change, seed: math.nan if change.edits else 0.5,
        method="alternatives",
        alternatives={PLAN: ["vague"]},
        replays=3,
    )
    assert credit_variance(alone) is None
    assert fidelity(alone, alone) is None
    flat = orchtrace.counterfactual(
        trace,
        lambda change, seed: 0.5,
        method="alternatives",
        alternatives={PLAN: ["vague"]},
        replays=3,
    )
    assert credit_variance(flat) == 0.0
    assert fidelity(flat, flat) is None
    assert influence({}) is None


def test_one_that_is_left_alone_tells_nothing_beside_others(trace) -> None:
    """Its 0 is no rank among their advantages."""

    def lossy(found: Counterfactual) -> Counterfactual:
        kept = [
            replace(one, estimate=Estimate(None if one.alternative else 0.0, one.estimate.n))
            if one.player == CODE
            else one
            for one in found.effects
        ]
        return replace(found, effects=tuple(kept))

    found, again = asked(trace, 0.5), asked(trace, 0.5, seed=1_000)
    others = [
        replace(one, effects=tuple(e for e in one.effects if e.player == PLAN))
        for one in (found, again)
    ]
    assert fidelity(lossy(found), lossy(again)) == fidelity(*others)


def test_other_methods_are_refused(trace, team, sheet_game) -> None:
    """Their effects are no advantages over alternatives."""
    found = orchtrace.counterfactual(trace, sheet_game, team, replays=2)
    with pytest.raises(ConfigError, match="got method='leave_one_out'; use counterfactual"):
        credit_variance(found)
    with pytest.raises(ConfigError, match="alternatives to a message"):
        fidelity(asked(trace), found)


def test_a_receiver_that_obeys_shares_all_and_one_that_does_not_nothing() -> None:
    """log 2 of two orders that are obeyed, 0 where the same is done whatever is said."""
    obeyed = influence({"order": [("go", "walk"), ("stay", "sit")] * 50})
    ignored = influence({"order": [("go", "walk"), ("stay", "walk")] * 50})
    assert obeyed is not None
    assert ignored is not None
    assert obeyed.nats == pytest.approx(math.log(2))
    assert ignored == (0.0, 0.0, 100)


def test_influence_is_within_contexts() -> None:
    """Where the context decides both, message and action go together and neither matters."""
    actions = {"morning": [("rise", "walk")] * 40, "night": [("sleep", "sit")] * 40}
    found = influence(actions)
    pooled = influence({"all": [pair for pairs in actions.values() for pair in pairs]})
    assert found is not None
    assert pooled is not None
    assert found.nats == 0.0
    assert pooled.nats == pytest.approx(math.log(2))


def test_few_replays_look_like_influence_and_that_is_said() -> None:
    """Of independent draws the mean over many trials is near what is expected by chance."""
    dice = random.Random(3)  # noqa: S311 - seeded, no secret
    draws = [
        influence({0: [(dice.randrange(3), dice.randrange(3)) for _ in range(60)]})
        for _ in range(400)
    ]
    known = [draw for draw in draws if draw is not None]
    mean = sum(draw.nats for draw in known) / len(known)
    assert mean == pytest.approx(4 / 120, rel=0.15)
    assert known[0].by_chance == pytest.approx(4 / 120)
