"""A built-in reward: a function of shared facts with a contract, and where its numbers go.

A `Component` is itself a plain function of a `Trace`. Its number goes to `metrics`, or is
a reward: a number of the team is one of the trace, a mapping from positions of events goes
onto these events (key `rewards`), a mapping from names (agents, roles) becomes records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from orchtrace_otel._guard import guarded
from orchtrace_otel.rewards.contract import Contract
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.records import record

if TYPE_CHECKING:
    from orchtrace_otel.model import Trace

Values: TypeAlias = float | Mapping[int, float] | Mapping[str, float] | None
"""A number; numbers by position of the event, or by name of the agent or role; none."""


@dataclass(frozen=True, slots=True)
class Component:
    """One built-in reward or metric: call it with a trace, or read it from shared facts.

    Attributes:
        name: Its component in `rewards`, or its name in `metrics`.
        contract: What its numbers are.
        read: The function of `Facts`; it gives None where the trace does not tell.
        is_metric: Whether it goes to `metrics` rather than to the rewards.
    """

    name: str
    contract: Contract
    read: Callable[[Facts], Values]
    is_metric: bool = False
    _record: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Write down what all its records have in common."""
        object.__setattr__(self, "_record", record("", self.name, self.contract, 0.0))

    def __call__(self, trace: Trace) -> Values:
        """Return the values for a trace, as a reward function does."""
        return self.read(Facts(trace))

    def record(self, run_id: str, number: float, target: str | None = None) -> dict[str, Any]:
        """Return one of its numbers as the stop lists it."""
        if target is not None:
            return record(run_id, self.name, self.contract, number, target)
        found = {**self._record}  # faster than to write it anew
        found["id"] = run_id + found["id"]
        found["value"] = number
        return found


def component(  # noqa: PLR0913 - what a reward declares
    *,
    family: str,
    unit: str = "team",
    estimator: str = "structural",
    range: tuple[float, float],  # noqa: A002 - as in `reward`
    inputs: tuple[str, ...] = (),
    version: str = "1",
    is_metric: bool = False,
) -> Callable[[Callable[[Facts], Values]], Component]:
    """Make a function of `Facts` a `Component` of its name.

    Args:
        family: `R1` to `R8`.
        unit: `token turn message tool_call agent role orchestrator team`.
        estimator: `structural outcome judge replay model`.
        range: The least and the most that a number may be.
        inputs: What the function reads of a trace.
        version: Version of the formula.
        is_metric: Whether its number goes to `metrics` and is no reward.

    Example:
        >>> @component(family="R7", range=(0, 1))
        ... def calm(facts):
        ...     return 1 / len(facts.events) if facts.events else None
        >>> from orchtrace_otel.model import Event, Trace
        >>> calm(Trace("run", "task", (Event("e", 0, "message", "lead"),)))
        1.0
    """
    contract = Contract(
        family=family,
        unit=unit,
        estimator=estimator,
        low=range[0],
        high=range[1],
        inputs=inputs,
        version=version,
    )

    def make(function: Callable[[Facts], Values]) -> Component:
        return Component(function.__name__, contract, function, is_metric)

    return make


_NUMBER: Final = (float, int)


class Findings:
    """What the components found for one trace.

    Attributes:
        metrics: Name to number.
        team: Component to number: the rewards of the run, of the team or its orchestrator.
        records: Records of rewards, without those of events.
        events: Component to number, by position of the event.
        failed: A flag for each component that raised, or gave what it must not.
    """

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.team: dict[str, float] = {}
        self.records: list[dict[str, Any]] = []
        self.events: dict[int, dict[str, float]] = {}
        self.failed: set[str] = set()
        self._asked = ""

    def take(self, components: Iterable[Component], facts: Facts) -> None:
        """Add what components say; what fails costs that component only."""
        left = iter(components)
        while not self._took(left, facts):
            self.failed.add(f"reward_failed:{self._asked}")

    @guarded
    def _took(self, left: Iterator[Component], facts: Facts) -> bool:
        """Ask those that are left: one guard for all of them, for most runs have no failure."""
        run_id = facts.trace.trace_id
        for one in left:
            name = self._asked = one.name
            values = facts.share(one.read)
            if values is None:
                continue
            if not isinstance(values, _NUMBER):
                _demand(one, one.contract.admits_all(values.values()))
                self._add_each(one, run_id, values)
                continue
            _demand(one, one.contract.admits(values))
            if one.is_metric:
                self.metrics[name] = values
            else:
                self.team[name] = values
                self.records.append(one.record(run_id, values))
        return True

    def _add_each(
        self, one: Component, run_id: str, values: Mapping[int, float] | Mapping[str, float]
    ) -> None:
        events, name = self.events, one.name
        if isinstance(next(iter(values), 0), str):
            self.records += [one.record(run_id, number, str(of)) for of, number in values.items()]
            return
        for place, value in cast("Mapping[int, float]", values).items():
            if (held := events.get(place)) is None:
                events[place] = {name: value}
            else:
                held[name] = value


def _demand(one: Component, is_sound: bool) -> None:  # noqa: FBT001 - keywords cost
    if not is_sound:
        msg = f"{one.name} must be in its range, came another number"
        raise ValueError(msg)
