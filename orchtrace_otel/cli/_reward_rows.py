"""The numbers of a scored trace as rows: rewards of the run and of its events, and measures."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from orchtrace_otel.cli._summary import number_of
from orchtrace_otel.rewards.builtin import COMPONENTS
from orchtrace_otel.rewards.records import is_credit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orchtrace_otel.model import Reward, Trace

_CONTRACTS: Final = {one.name: one.contract for one in COMPONENTS}


class Row(NamedTuple):
    """One number of a run.

    Attributes:
        component: Its name.
        value: The number; of events, their mean.
        family: Its family; `-` where nobody says, empty for a measure.
        unit: What it is for.
        target: Which of those.
        estimator: How it came about.
        note: What else there is to say.
    """

    component: str
    value: float
    family: str = ""
    unit: str = ""
    target: str = ""
    estimator: str = ""
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        """The row as texts, without the note."""
        return (
            self.component,
            number_of(self.value),
            self.family,
            self.unit,
            self.target,
            self.estimator,
        )


def rows(trace: Trace) -> list[Row]:
    """Return every number of a scored trace but for credit: rewards, then measures."""
    return [*_of_run(trace), *_of_events(trace), *_measures(trace)]


def gathered(found: list[Row], most: int) -> list[Row]:
    """Put rows that differ in their target and value alone into one, where they are too many.

    Args:
        found: Rows of a run.
        most: How many of a kind stay a row each.
    """
    kinds: dict[Row, list[Row]] = {}
    for row in found:
        kinds.setdefault(row._replace(value=0.0, target=""), []).append(row)
    kept: list[Row] = []
    for kind, rows_of_kind in kinds.items():
        if len(rows_of_kind) <= most:
            kept += rows_of_kind
            continue
        count = len(rows_of_kind)
        mean = math.fsum(row.value / count for row in rows_of_kind)
        note = ", ".join(filter(None, (kind.note, f"mean of {count:,}: --all lists them")))
        kept.append(kind._replace(value=mean, note=note))
    return kept


def names_of(trace: Trace) -> set[str]:
    """Name every number of a scored trace."""
    return {row.component for row in rows(trace)}


def _of_run(trace: Trace) -> Iterator[Row]:
    seen: set[str] = set()
    for reward in trace.reward_records:
        seen.add(reward.component)
        if not is_credit(reward, trace.trace_id):
            yield _of_record(reward)
    for name, value in trace.rewards.items():
        if name not in seen:
            contract = _CONTRACTS.get(name)
            if contract is None:
                yield Row(name, value, "-")
            else:
                family, unit = contract.family, contract.unit
                yield Row(name, value, family, unit, "", contract.estimator)


def _of_record(reward: Reward) -> Row:
    notes = ["provisional"] if reward.provisional else []
    if reward.n is not None:
        notes.append(f"n {reward.n}")
    if reward.se is not None:
        notes.append(f"se {number_of(reward.se)}")
    return Row(
        reward.component,
        reward.value,
        reward.family,
        reward.unit,
        reward.target or "",
        reward.estimator,
        ", ".join(notes),
    )


def _of_events(trace: Trace) -> Iterator[Row]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for event in trace.events:
        held: Any = event.get("rewards")
        if isinstance(held, dict):
            for name, value in cast("Mapping[str, Any]", held).items():
                if isinstance(value, int | float):
                    values[name].append(value)
    for name, found in values.items():
        contract = _CONTRACTS.get(name)
        mean = math.fsum(found) / len(found)
        note = f"mean of {len(found)} events" if len(found) > 1 else "one event"
        if contract is None:
            yield Row(name, mean, "-", note=note)
        else:
            yield Row(name, mean, contract.family, contract.unit, "", contract.estimator, note)


def _measures(trace: Trace) -> Iterator[Row]:
    for name, value in (trace.metrics or {}).items():
        yield Row(name, value)
