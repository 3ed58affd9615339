"""What a reward declares of itself: one contract for users' rewards and for the built-in ones.

A reward is a plain function of a `Trace`. What it says about itself (family, unit,
estimator, range, inputs, version) stands on the function, put there by `reward`, and
is what its numbers are written and checked with. A function without it is taken as a
reward of the team: family R1, estimator outcome, any finite number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar, cast, overload

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import ESTIMATORS, FAMILIES, UNITS, Event, Trace

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__orchtrace_reward__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a reward says of its numbers.

    Attributes:
        family: One of `FAMILIES`.
        unit: One of `UNITS`: what a number is for.
        estimator: One of `ESTIMATORS`: how the number comes about.
        low: The least that it may be.
        high: The most that it may be.
        inputs: What it reads of a trace, in words: keys of events, `edges`, `outcome`.
        version: Version of the formula; a new one where numbers would differ.
    """

    family: str = "R1"
    unit: str = "team"
    estimator: str = "outcome"
    low: float = -math.inf
    high: float = math.inf
    inputs: tuple[str, ...] = ()
    version: str | None = None

    def __post_init__(self) -> None:
        """Refuse words that are none.

        Raises:
            ConfigError: If a word is not one of the model's, or the range holds nothing, or
                inputs and version are no texts.
        """
        for what, word, table in (
            ("family", self.family, FAMILIES),
            ("unit", self.unit, UNITS),
            ("estimator", self.estimator, ESTIMATORS),
        ):
            if word not in table:
                msg = f"a reward's {what} must be one of {', '.join(table)}, got {word!r}"
                raise ConfigError(msg)
        if not self.low <= self.high:
            msg = f"a reward's range must go from low to high, got {(self.low, self.high)}"
            raise ConfigError(msg)
        inputs = cast("object", self.inputs)
        texts = cast("tuple[object, ...]", inputs) if isinstance(inputs, tuple) else None
        if texts is None or not all(isinstance(one, str) for one in texts):
            msg = f"a reward's inputs must be a tuple of texts, got {inputs!r}"
            raise ConfigError(msg)
        if not isinstance(cast("object", self.version), str | None):
            msg = f"a reward's version must be a text, got {self.version!r}; write version='1'"
            raise ConfigError(msg)

    def admits(self, value: float) -> bool:
        """Whether a number is finite and inside the range.

        Example:
            >>> share = Contract(low=0, high=1)
            >>> share.admits(0.5), share.admits(1.5), share.admits(math.nan)
            (True, False, False)
        """
        # What is infinite is no number less itself.
        return self.low <= value <= self.high and value - value == 0

    def fault(self, value: float) -> str | None:
        """Say what must hold of a number that is not inside the range; None where it is.

        Example:
            >>> Contract(low=0, high=1).fault(1.5)
            'value must be from 0 to 1, as it declares'
        """
        if self.admits(value):
            return None
        return f"value must be from {self.low} to {self.high}, as it declares"

    def admits_all(self, values: Iterable[float]) -> bool:
        """Whether all of them are.

        Example:
            >>> Contract().admits_all([0.5, -math.inf])
            False
        """
        low, high = self.low, self.high
        return not [v for v in values if not low <= v <= high or v - v != 0]


class Twin(Protocol):
    """A reward that follows a run while it is open, and ends with what its function says."""

    def add(self, event: Event, causes: Iterable[str] = ()) -> None:
        """Take an event, and the ids of what led to it; in any order."""

    def finish(self, trace: Trace) -> Any:
        """Return what the function returns for the finished trace, exactly."""


PLAIN: Final = Contract()
"""What holds for a function that declares nothing."""


@overload
def reward(function: F, /) -> F: ...
@overload
def reward(
    *,
    family: str = "R1",
    unit: str = "team",
    estimator: str = "outcome",
    range: tuple[float, float] = (-math.inf, math.inf),
    inputs: tuple[str, ...] = (),
    version: str | None = None,
) -> Callable[[F], F]: ...
def reward(  # noqa: PLR0913 - what a reward declares
    function: Any = None,
    /,
    *,
    family: str = "R1",
    unit: str = "team",
    estimator: str = "outcome",
    range: tuple[float, float] = (-math.inf, math.inf),  # noqa: A002 - what the numbers are in
    inputs: tuple[str, ...] = (),
    version: str | None = None,
) -> Any:
    """Declare what a reward function's numbers are; the function stays what it is.

    With and without parentheses; without them the numbers are what they are by default.

    A bare number is then of that family and unit. A mapping has a number for each
    target where the unit has targets (agents, roles, turns, events), and for each
    component where the unit is the team. A number outside of `range` is left out,
    flagged and counted like one that is NaN.

    Args:
        function: What is decorated, where there are no parentheses.
        family: `R1` to `R8`.
        unit: `token turn message tool_call agent role orchestrator team`.
        estimator: `structural outcome judge replay model`.
        range: The least and the most that a number may be.
        inputs: What the function reads of a trace.
        version: Version of the formula.

    Raises:
        ConfigError: If a word is none of these, the range holds nothing, or what is decorated
            cannot be called, or cannot carry what it declares.

    Example:
        >>> @reward(family="R7", unit="orchestrator", estimator="structural", range=(0, 1))
        ... def calm(trace):
        ...     return 1 / len(trace.events)
        >>> contract_of(calm).family, calm.__name__
        ('R7', 'calm')
    """
    low, high = _ends(range)
    contract = Contract(
        family=family,
        unit=unit,
        estimator=estimator,
        low=low,
        high=high,
        inputs=inputs,
        version=version,
    )

    def declare(function: F) -> F:
        return _carry(function, contract)

    return declare if function is None else declare(function)


def _ends(given: object) -> tuple[float, float]:
    match given:
        case (int() | float() as low, int() | float() as high):
            return low, high
        case _:
            msg = f"a reward's range must be two numbers, got {given!r}; write range=(0, 1)"
            raise ConfigError(msg)


def _carry(function: F, contract: Contract) -> F:
    must = "a reward must be a function of a trace that can carry what it declares"
    if not callable(function):
        msg = f"{must}, got {function!r}; put @reward(...) above a function"
        raise ConfigError(msg)
    try:
        setattr(function, _MARK, contract)
    except (AttributeError, TypeError) as error:  # of a built-in, a method, or an object with slots
        msg = f"{must}, got {function!r}; put @reward(...) above a function that calls it"
        raise ConfigError(msg) from error
    return function


def contract_of(function: object) -> Contract:
    """Return what a reward function declares; `PLAIN` where it declares nothing."""
    declared = getattr(function, _MARK, None)
    return declared if isinstance(declared, Contract) else PLAIN
