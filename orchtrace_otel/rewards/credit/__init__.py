"""Credit: the team's outcome, divided over what led to the answer.

Attributions from one trace, not causal effects: what would have happened without an event
only a replay can tell. The methods and their formulas follow section 5.1 of the sheet.
"""

from __future__ import annotations

from orchtrace_otel.rewards.credit.assigning import METHODS, Credit, assign, why_absent
from orchtrace_otel.rewards.credit.division import Division
from orchtrace_otel.rewards.credit.sequences import (
    credit_by_gae,
    credit_to_go,
    gae,
    return_to_go,
)
from orchtrace_otel.rewards.credit.units import by_unit

__all__ = [
    "METHODS",
    "Credit",
    "Division",
    "assign",
    "by_unit",
    "credit_by_gae",
    "credit_to_go",
    "gae",
    "return_to_go",
    "why_absent",
]
