"""Ranks and their correlation, on cases whose answer is plain."""

import pytest

from orchtrace_otel.replay.ranking import ranks, spearman


def test_ranks_share_the_mean_where_values_are_equal() -> None:
    """1, 2.5, 2.5, 4."""
    assert ranks([3.0, 5.0, 5.0, 9.0]) == [1.0, 2.5, 2.5, 4.0]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),
        ([1, 1, 1], [1, 2, 3], 0.0),
    ],
)
def test_spearman_is_the_textbooks(one, other, expected) -> None:
    """1 - 6 sum d^2 / (n (n^2 - 1)) without ties; 0 where one side says nothing."""
    assert spearman(one, other) == pytest.approx(expected)
