"""The mathematics of sharing out, against the sheet's numbers and the axioms."""

import math
import random
from itertools import pairwise, permutations
from math import factorial

import pytest

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.replay import games
from orchtrace_otel.replay.games import (
    advantages,
    banzhaf_weights,
    coalitions,
    free,
    order,
    orders_needed,
    shapley_weights,
)

SHEET = {0: 0, 1: 0.2, 2: 0.3, 4: 0, 3: 0.9, 5: 0.2, 6: 0.3, 7: 1.0}


def values(weights, worth):
    """The value of each player under weights of coalitions."""
    return [sum(share * worth[mask] for mask, share in one.items()) for one in weights]


def test_shapley_values_are_the_sheets() -> None:
    """Section 5.2: .4333, .5333, .0333, which add up to 1."""
    found = values(shapley_weights(free(3)), SHEET)
    assert [round(value, 4) for value in found] == [0.4333, 0.5333, 0.0333]
    assert sum(found) == pytest.approx(1.0)


def test_banzhaf_values_are_the_sheets() -> None:
    """Section 5.2: .425, .525, .025."""
    found = values(banzhaf_weights(free(3)), SHEET)
    assert [round(value, 4) for value in found] == [0.425, 0.525, 0.025]


def test_advantages_of_alternatives_are_the_sheets() -> None:
    """Section 5.2: C3 with means .8, .4, .6 gives +.3, -.3, 0."""
    assert advantages([0.8, 0.4, 0.6], [5, 5, 5]) == pytest.approx([0.3, -0.3, 0.0])


def test_one_alternative_has_no_advantage() -> None:
    """The authors' code sets 0 where there is nothing to compare with."""
    assert advantages([0.7], [10]) == [0.0]
    assert advantages([], []) == []


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_weights_without_causes_are_the_textbooks(count: int) -> None:
    """|S|! (n - |S| - 1)! / n! for each coalition that a player joins."""
    for player, weights in enumerate(shapley_weights(free(count))):
        for mask, share in weights.items():
            size = mask.bit_count()
            joined = mask >> player & 1
            size -= joined
            expected = factorial(size) * factorial(count - size - 1) / factorial(count)
            assert share == pytest.approx(expected if joined else -expected)


CHAIN = (0b000, 0b001, 0b011)
FORK = (0b000, 0b001, 0b001)


@pytest.mark.parametrize("causes", [CHAIN, FORK, free(3)])
def test_with_causes_it_is_the_mean_over_orders_that_respect_them(causes) -> None:
    """Counted by hand over all orders in which causes come before effects."""
    allowed = [
        one
        for one in permutations(range(3))
        if all(causes[p] & ~sum(1 << q for q in one[:at]) == 0 for at, p in enumerate(one))
    ]
    expected = [0.0] * 3
    for one in allowed:
        masks = [sum(1 << q for q in one[:at]) for at in range(4)]
        for player, (before, after) in zip(one, pairwise(masks), strict=True):
            expected[player] += (SHEET[after] - SHEET[before]) / len(allowed)
    assert values(shapley_weights(causes), SHEET) == pytest.approx(expected)


def test_coalitions_are_closed_downwards() -> None:
    """No effect without its causes."""
    assert coalitions(CHAIN) == [0b000, 0b001, 0b011, 0b111]
    assert coalitions(FORK) == [0b000, 0b001, 0b011, 0b101, 0b111]


@pytest.mark.parametrize("causes", [CHAIN, FORK, free(4)])
def test_orders_respect_causes_and_come_in_opposite_pairs(causes) -> None:
    """Without causes the second is the first backwards."""
    for seed in range(20):
        one, other = order(causes, random.Random(seed))  # noqa: S311 - as below
        for found in (one, other):
            assert sorted(found) == list(range(len(causes)))
            seen = 0
            for player in found:
                assert causes[player] & ~seen == 0
                seen |= 1 << player
        if not any(causes):
            assert other == one[::-1]


def test_all_orders_are_as_likely() -> None:
    """Over many draws each order of three comes about one time in six."""
    dice = random.Random(4)  # noqa: S311 - a simulation, no secret
    drawn = [tuple(order(free(3), dice)[0]) for _ in range(3000)]
    assert all(abs(drawn.count(one) - 500) < 100 for one in permutations(range(3)))


@pytest.mark.parametrize("most", [games.MOST_COUNTED, 0], ids=["counted", "stirred"])
def test_all_orders_in_which_causes_come_first_are_as_likely(monkeypatch, most) -> None:
    """One player, free, comes before a chain of two in one of three orders, not in one of two."""
    monkeypatch.setattr(games, "MOST_COUNTED", most)
    dice = random.Random(4)  # noqa: S311 - a simulation, no secret
    drawn = [tuple(one) for _ in range(1500) for one in order((0, 0b001, 0), dice)]
    assert {one: round(drawn.count(one) / 3000, 1) for one in set(drawn)} == {
        (0, 1, 2): 0.3,
        (0, 2, 1): 0.3,
        (2, 0, 1): 0.3,
    }


def test_random_orders_have_the_mean_of_all_of_them() -> None:
    """What players add in drawn orders is what the exact weights say, causes kept."""
    causes = (0, 0b00001, 0, 0b00100, 0b00101)
    dice = random.Random(6)  # noqa: S311 - a simulation, no secret
    worth = [dice.random() for _ in range(1 << len(causes))]
    exact = [
        sum(weight * worth[mask] for mask, weight in one.items()) for one in shapley_weights(causes)
    ]
    added = [0.0] * len(causes)
    for _ in range(4000):
        for found in order(causes, dice):
            coalition = 0
            for player in found:
                added[player] += worth[coalition | 1 << player] - worth[coalition]
                coalition |= 1 << player
    assert [one / 8000 for one in added] == pytest.approx(exact, abs=0.02)


def test_hoeffding_says_how_many_orders_are_enough() -> None:
    """Section 5.2: 1235 for .1, twelve players and a doubt of .05; nonsense is refused."""
    assert orders_needed(0.1, 12, 0.05) == 1235
    for wrong in ((0.0, 12, 0.05), (0.1, 0, 0.05), (0.1, 12, 1.0), (math.nan, 12, 0.05)):
        with pytest.raises(ConfigError, match="must be above 0"):
            orders_needed(*wrong)
