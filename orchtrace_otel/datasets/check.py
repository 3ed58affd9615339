"""What a format makes of some runs: how much is written, dropped and lost, and why it refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from orchtrace_otel.datasets.reasons import REASONS
from orchtrace_otel.datasets.runs import Dropped, Record


@dataclass(slots=True)
class Check:
    """The count of an export.

    Attributes:
        format: Its name.
        records: How many there are.
        unlabelled: How many of them have no label, by why.
        calls: Calls that are left out, by why.
        runs: Whole runs that are left out, by why.
        loses: What the format has no place for.
    """

    format: str
    loses: tuple[str, ...] = ()
    records: int = 0
    unlabelled: Counter[str] = field(default_factory=Counter[str])
    calls: Counter[str] = field(default_factory=Counter[str])
    runs: Counter[str] = field(default_factory=Counter[str])

    @property
    def refusal(self) -> str | None:
        """Why there is no data set; None where there is one."""
        if self.records:
            return None
        found = self.calls + self.runs
        if not found:
            return f"{self.format} needs runs, got none"
        reasons = [name for name, _ in found.most_common() if name != "filtered"] or ["filtered"]
        said = "; ".join(f"{found[name]} {name}: {REASONS.get(name, name)}" for name in reasons)
        return f"{self.format} cannot be made of these runs: {said}"

    def count(self, outcome: Record | Dropped) -> None:
        """Take one more into account."""
        if isinstance(outcome, Record):
            self.records += 1
            if outcome.missing is not None:
                self.unlabelled[outcome.missing] += 1
        elif outcome.turn is None:
            self.runs[outcome.reason] += 1
        else:
            self.calls[outcome.reason] += 1

    def to_dict(self) -> dict[str, Any]:
        """The check as JSON."""
        return {
            "format": self.format,
            "records": self.records,
            "unlabelled": dict(sorted(self.unlabelled.items())),
            "dropped_calls": dict(sorted(self.calls.items())),
            "dropped_runs": dict(sorted(self.runs.items())),
            "loses": list(self.loses),
            "refuses": self.refusal,
        }


def checked(name: str, loses: tuple[str, ...], outcomes: Iterable[Record | Dropped]) -> Check:
    """Count outcomes."""
    check = Check(name, loses)
    for outcome in outcomes:
        check.count(outcome)
    return check
