"""Options of `orchtrace export` as the job gets them."""

import pytest

from orchtrace_otel.cli import export


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.5", 1_500_000_000),
        ("1970-01-01T01:00:00.000001+01:00", 1_000),
        ("2026-11-29T21:00:00.25", 1_795_986_000_250_000_000),
    ],
)
def test_a_time_counts_to_the_microsecond(text: str, nanoseconds: int) -> None:
    """Of no zone it is UTC; a part of a second is not cut off."""
    assert export._time(text, "--since") == nanoseconds
