"""What a run was worth to its team: the number that credit divides."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from orchtrace_otel.model import FAMILIES, UNITS, is_number, records_of
from orchtrace_otel.rewards.given import TASK
from orchtrace_otel.rewards.records import is_builtin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from orchtrace_otel.model import Reward, Trace

_PUBLISHED: Final = "team"
"""The component that the published example calls the team's own; it has no records."""

_SUCCESS: Final = "task_success"
"""The published schema's metric of the same."""

_OTHER_LAYERS: Final = {"process", "tool", "orchestration", *UNITS, *FAMILIES} - {"team", "R1"}
"""Names that the published schema has for rewards of other layers and families."""

_GREATEST: Final = 1e300
"""How far from 0 an outcome may be; sums of what is greater are infinite, which is no number."""

_OUTCOME: Final = ("R1", "team", "outcome")


class Outcome(NamedTuple):
    """The team's outcome reward.

    Attributes:
        component: Its name.
        value: The number.
        provisional: Whether another one may replace it.
    """

    component: str
    value: float
    provisional: bool = False


def find_outcome(trace: Trace, given: Iterable[Reward] = ()) -> Outcome | None:
    """The team's outcome: `task`, else the only R1 reward of the team that is an outcome.

    A number in `rewards` that has no record, as in traces of others, counts as one; where
    several of these are left, `team` is taken, the name in the published example. What is
    named after another layer or family, such as `tool`, is none. Where it is not clear, there is
    none; without any it is the metric `task_success`. Built-in rewards are never the outcome.

    Args:
        trace: The run.
        given: Rewards that are not in the trace yet; they win over those in it.

    Example:
        >>> from orchtrace_otel.model import Trace
        >>> find_outcome(Trace("run", "q", (), rewards={"correctness": 0.5}))
        Outcome(component='correctness', value=0.5, provisional=False)
        >>> find_outcome(Trace("run", "q", (), rewards={"a": 0.5, "b": 1})) is None
        True
    """
    found = _candidates(trace, given)
    if TASK in found:
        return found[TASK]
    if len(found) == 1:
        return next(iter(found.values()))
    return found.get(_PUBLISHED) if found else _success(trace)


def _success(trace: Trace) -> Outcome | None:
    value = (trace.metrics or {}).get(_SUCCESS)
    return Outcome(_SUCCESS, value) if _is_countable(value) else None


def _candidates(trace: Trace, given: Iterable[Reward]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    others: set[str] = set()
    for record in records_of(trace.stop, "reward_records"):
        _sort(record, trace, found, others)
    for reward in given:
        words = (reward.family, reward.unit, reward.estimator)
        if words == _OUTCOME and _is_countable(reward.value):
            found[reward.component] = Outcome(reward.component, reward.value, reward.provisional)
        elif reward.unit == "team":
            others.add(reward.component)
    unsaid = trace.rewards.keys() - found.keys() - others
    for component in unsaid - _builtin_names() - _OTHER_LAYERS if unsaid else ():
        if _is_countable(trace.rewards[component]):
            found[component] = Outcome(component, trace.rewards[component])
    return found


def _is_countable(value: object) -> TypeGuard[float]:
    """Whether a value can be divided and summed, over all events of a run and runs of a task."""
    return is_number(value) and abs(value) <= _GREATEST


@cache
def _builtin_names() -> frozenset[str]:
    from orchtrace_otel.rewards.builtin import COMPONENTS  # noqa: PLC0415 - it reads outcomes

    return frozenset([one.name for one in COMPONENTS])


def _sort(
    record: Mapping[str, Any], trace: Trace, found: dict[str, Outcome], others: set[str]
) -> None:
    """Note a record's component among the outcomes, or among what is none."""
    component = record.get("component")
    if not isinstance(component, str):
        return
    # `rewards` has the latest number of a component, as late rewards may have changed it.
    latest = trace.rewards.get(component, record.get("value"))
    words = (
        record.get("family", "R1"),
        record.get("unit", "team"),
        record.get("estimator", "outcome"),
    )
    if is_builtin(record, trace.trace_id) or words != _OUTCOME:
        if "target" not in record:
            others.add(component)
    elif _is_countable(latest):
        found[component] = Outcome(component, latest, bool(record.get("provisional")))
