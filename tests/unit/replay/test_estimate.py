"""Intervals hold what they promise."""

import random
from statistics import fmean

import pytest

from orchtrace_otel.replay.estimate import (
    Estimate,
    combine,
    difference,
    gain,
    mean,
    student,
    wilson,
)


def test_wilson_is_the_sheets() -> None:
    """Section 4: three of five gives .231 to .882."""
    assert [round(end, 3) for end in wilson(3 / 5, 5)] == [0.231, 0.882]


def test_about_ninety_six_replays_give_a_tenth() -> None:
    """Section 4: plus or minus .1 needs some 96 replays at one half."""
    assert mean([1, 0] * 48).width / 2 == pytest.approx(0.1, abs=0.003)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [
        (1, 12.706),
        (1.9, 4.745),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (10, 2.228),
        (100, 1.984),
    ],
)
def test_students_quantiles_are_the_tables(freedom: int, expected: float) -> None:
    """To the third digit but one; between two of the first few rather too great than too small."""
    assert student(freedom) == pytest.approx(expected, abs=0.004)


def test_nothing_is_absent_and_one_has_no_interval() -> None:
    """An estimate of nothing is no 0, and one observation says nothing of its error."""
    assert mean([]) == Estimate(None, 0)
    assert mean([0.5]) == Estimate(0.5, 1)
    assert difference([], [0.5]).value is None
    assert combine([]).value is None
    assert combine([(1.0, mean([])), (1.0, mean([0.5]))]).value is None


def test_zeros_alone_leave_room_for_doubt() -> None:
    """Twenty failures in a row do not say that the next one fails."""
    found = difference([1.0] * 20, [1.0] * 20)
    assert found.value == 0.0
    assert found.low < -0.1
    assert found.high > 0.1


@pytest.mark.parametrize("kind", ["graded", "success"])
def test_intervals_hold_the_truth_as_often_as_they_say(kind: str) -> None:
    """Over 600 experiments of 2 times 25 replays between 92 and 99 of 100 hold it."""
    dice = random.Random(7)  # noqa: S311 - a simulation, no secret

    def draw(share: float) -> float:
        if kind == "success":
            return float(dice.random() < share)
        return min(max(dice.gauss(share, 0.1), 0.0), 1.0)

    held = []
    for _ in range(600):
        found = difference([draw(0.7) for _ in range(25)], [draw(0.4) for _ in range(25)])
        held.append(found.low <= 0.3 <= found.high)
    assert 0.92 <= fmean(held) <= 0.99


@pytest.mark.parametrize("count", [2, 5, 20])
def test_sums_over_coalitions_hold_the_truth_where_success_is_rare_or_sure(count: int) -> None:
    """With few replays of each most shares are 0 or 1, and a standard error would be 0."""
    dice = random.Random(11)  # noqa: S311 - a simulation, no secret
    shares = {0.02: -0.5, 0.03: 0.25, 0.97: 0.5, 0.98: -0.25}
    truth = sum(weight * share for share, weight in shares.items())
    held = []
    for _ in range(400):
        parts = [
            (weight, mean([float(dice.random() < share) for _ in range(count)]))
            for share, weight in shares.items()
        ]
        found = combine(parts)
        held.append(found.low <= truth <= found.high)
    assert fmean(held) >= 0.93


@pytest.mark.parametrize("count", [2, 5])
def test_sums_of_few_grades_are_students(count: int) -> None:
    """Two grades of each of six coalitions hold the truth as often as fifty would."""
    dice = random.Random(13)  # noqa: S311 - a simulation, no secret
    held = []
    for _ in range(400):
        found = combine(
            [(1 / 6, mean([dice.gauss(0.5, 0.2) for _ in range(count)])) for _ in range(6)]
        )
        held.append(found.low <= 0.5 <= found.high)
    assert 0.92 <= fmean(held) <= 0.99


def test_a_share_beside_grades_leaves_room_for_doubt() -> None:
    """Ten ones of one in thirty that fails, beside grades that hardly differ."""
    dice = random.Random(19)  # noqa: S311 - a simulation, no secret
    held = []
    for _ in range(400):
        shares = [float(dice.random() < 0.97) for _ in range(10)]
        grades = [0.9 + 0.1 * dice.random() for _ in range(10)]
        found = difference(shares, grades)
        held.append(found.low <= 0.02 <= found.high)
    assert fmean(held) >= 0.93


def test_what_adds_nothing_in_all_orders_may_have_added_or_cost_a_little() -> None:
    """Of zeros alone the interval has both signs: what is rarely in the way is not excluded."""
    found = gain([0.0] * 20)
    assert found.value == 0.0
    assert found.low == pytest.approx(-found.high)
    assert found.high > 0.1


def test_what_orders_say_holds_the_truth_where_it_is_rare() -> None:
    """One in fifty that costs is held by intervals of twenty pairs of orders, of five too."""
    dice = random.Random(17)  # noqa: S311 - a simulation, no secret
    for count in (5, 20):
        held = []
        for _ in range(400):
            found = gain([-0.5 if dice.random() < 0.02 else 0.0 for _ in range(count)])
            held.append(found.low <= -0.01 <= found.high)
        assert fmean(held) >= 0.95
