"""What came of one replay."""

from __future__ import annotations

from typing import Final, NamedTuple

STATUSES: Final = ("value", "failed", "timed_out", "blocked")


class Outcome(NamedTuple):
    """What came of one replay; one without a value is counted and left out.

    Attributes:
        status: One of `STATUSES`.
        value: The outcome, finite; None unless the status is `value`.
        detail: Class of the exception, or why it was blocked; None where there is none.
    """

    status: str
    value: float | None = None
    detail: str | None = None
