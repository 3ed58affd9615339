"""R8: local and global rewards mixed; the components stay beside their sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Trace
from orchtrace_otel.rewards.contract import reward

Source: TypeAlias = str | Callable[[Trace], Any]
"""A component of `Trace.rewards`, or a function that gives a number or None."""


def weighted(values: Mapping[str, float | None], weights: Mapping[str, float]) -> float | None:
    """Return the sum of weight * value; None where a value that has weight is unknown.

    Added in the order of names, so that the order of the mapping changes no bit.

    Example:
        >>> weighted({"team": 1.0, "tool": 0.5}, {"team": 1.0, "tool": 0.25})
        1.125
        >>> weighted({"team": 1.0}, {"team": 1.0, "tool": 0.25}) is None
        True
    """
    total = 0.0
    for name in sorted(weights):
        if weights[name]:
            value = values.get(name)
            if value is None:
                return None
            total += weights[name] * value
    return total


def hybrid(
    weights: Mapping[Source, float], name: str = "hybrid"
) -> Callable[[Trace], float | None]:
    """Make a reward function of weighted components: for `configure(rewards=...)`.

    Absent where one of them is. Components are those of `Trace.rewards` that stand before
    the outcome's own: what the user recorded and what is built in; or functions.

    Args:
        weights: Component, or function, to its weight.
        name: Its component.

    Raises:
        ConfigError: If there are no weights.

    Example:
        >>> mixed = hybrid({"task": 1.0, (lambda trace: 0.5): 0.5})
        >>> mixed(Trace("run", "task", (), rewards={"task": 1.0}))
        1.25
    """
    if not weights:
        msg = "hybrid() needs at least one weight, got none"
        raise ConfigError(msg)

    @reward(family="R8", unit="team", estimator="outcome", version="1")
    def mixed(trace: Trace) -> float | None:
        values: dict[str, float | None] = {}
        factors: dict[str, float] = {}
        for at, (source, weight) in enumerate(weights.items()):
            key = f"={source}" if isinstance(source, str) else f"{at}"  # a component may be "1"
            factors[key] = weight
            values[key] = trace.rewards.get(source) if isinstance(source, str) else source(trace)
        return weighted(values, factors)

    mixed.__name__ = name
    return mixed


def sharp(
    accuracy: float,
    marginal: float | None,
    tools: float | None = None,
    *,
    marginal_weight: float = 1.0,
    tools_weight: float = 0.1,
) -> float | None:
    """Return an agent's reward in SHARP (arXiv 2602.08335): R_acc + l_s delta + l_p R_tool.

    `marginal` is r(run) - r(run with the agent's output masked): leaving one out, which is
    no Shapley value. Normalise per agent in a group then: `individual.normalised`.
    None where `marginal` is; an agent without tools has no tool term.

    Example:
        >>> sharp(1.0, 0.5, 0.5, tools_weight=0.5)
        1.75
    """
    if marginal is None:
        return None
    return accuracy + marginal_weight * marginal + tools_weight * (tools or 0.0)


def with_edits(
    advantage: float, spans: Iterable[str], edits: Mapping[str, float]
) -> dict[str, float]:
    """Return each span's advantage: the group's, and for edited spans what the edit won.

    LEMON (arXiv 2605.14483): delta = R(edited) - R(original) of one field of an
    orchestration's specification (a role, a capacity, a dependency) counts for that field's
    tokens alone.

    Example:
        >>> with_edits(0.5, ["role", "capacity"], {"role": -0.25})
        {'role': 0.25, 'capacity': 0.5}
    """
    return {span: advantage + edits.get(span, 0.0) for span in spans}
