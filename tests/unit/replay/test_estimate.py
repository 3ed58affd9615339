"""Intervals hold what they promise."""

import random
from statistics import fmean

import pytest

from orchtrace_otel.replay.estimate import Estimate, combine, difference, mean, student, wilson


def test_wilson_is_the_sheets() -> None:
    """Section 4: three of five gives .231 to .882."""
    assert [round(end, 3) for end in wilson(3 / 5, 5)] == [0.231, 0.882]


def test_about_ninety_six_replays_give_a_tenth() -> None:
    """Section 4: plus or minus .1 needs some 96 replays at one half."""
    assert mean([1, 0] * 48).width / 2 == pytest.approx(0.1, abs=0.003)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (100, 1.984)],
)
def test_students_quantiles_are_the_tables(freedom: int, expected: float) -> None:
    """To the third digit but one."""
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
