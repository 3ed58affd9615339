"""What a fitted model is made of: small functions of a list of numbers, standard library only.

A head is linear, or a sum of small trees. A tree is a number, its leaf, or a tuple
(feature, threshold, tree where the feature is at most that, tree where it is above).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias, cast

from orchtrace_otel.errors import StoppingError

Tree: TypeAlias = "float | tuple[int, float, Tree, Tree]"

GREATEST: Final = 1e100
"""How far from 0 a value may be that a model gives; what is summed of it is finite."""

MOST_TREES: Final = 1_000
DEEPEST: Final = 12


@dataclass(frozen=True, slots=True)
class Linear:
    """A weighted sum; what lies outside the training data counts as its nearest end.

    Attributes:
        bias: What it is where all weights count nothing.
        weights: One a feature.
        low: Least of each feature that was learned from.
        high: Most of each.
    """

    bias: float
    weights: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __call__(self, x: Sequence[float]) -> float:
        """Return the value at `x`."""
        total = self.bias
        for value, weight, low, high in zip(x, self.weights, self.low, self.high, strict=True):
            total += weight * (low if value < low else min(value, high))
        return total

    def shares(self, x: Sequence[float]) -> list[float]:
        """Return what each feature adds at `x`, beside the middle of what was learned from."""
        return [
            weight * (min(max(value, low), high) - (low + high) / 2)
            for value, weight, low, high in zip(x, self.weights, self.low, self.high, strict=True)
        ]

    def scaled(self, slope: float, shift: float) -> Linear:
        """Return `shift` plus `slope` times this."""
        weights = tuple(slope * weight for weight in self.weights)
        return Linear(shift + slope * self.bias, weights, self.low, self.high)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {
            "kind": "linear",
            "bias": self.bias,
            "weights": list(self.weights),
            "low": list(self.low),
            "high": list(self.high),
        }


@dataclass(frozen=True, slots=True)
class Trees:
    """A sum of small trees.

    Attributes:
        bias: What it is without them.
        trees: The trees.
        width: How many features there are.
    """

    bias: float
    trees: tuple[Tree, ...]
    width: int

    def __call__(self, x: Sequence[float]) -> float:
        """Return the value at `x`."""
        total = self.bias
        for tree in self.trees:
            node: Any = tree
            while node.__class__ is tuple:
                node = node[2] if x[node[0]] <= node[1] else node[3]
            total += node
        return total

    def shares(self, x: Sequence[float]) -> list[float]:
        """Return what each feature adds at `x`: how far its branches lead from the mean of both."""
        added = [0.0] * self.width
        for tree in self.trees:
            node = tree
            while isinstance(node, tuple):
                taken = node[2] if x[node[0]] <= node[1] else node[3]
                added[node[0]] += _mean(taken) - _mean(node)
                node = taken
        return added

    def scaled(self, slope: float, shift: float) -> Trees:
        """Return `shift` plus `slope` times this."""
        trees = tuple(_times(tree, slope) for tree in self.trees)
        return Trees(shift + slope * self.bias, trees, self.width)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {"kind": "trees", "bias": self.bias, "trees": list(self.trees)}


Head: TypeAlias = Linear | Trees


@dataclass(frozen=True, slots=True)
class Curve:
    """A rising line through given points, level outside: what a calibration is kept as."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __call__(self, at: float) -> float:
        """Return the value at `at`."""
        x, y = self.x, self.y
        if at <= x[0]:
            return y[0]
        for place in range(1, len(x)):
            if at <= x[place]:
                span = x[place] - x[place - 1]
                share = (at - x[place - 1]) / span if span else 1.0
                return y[place - 1] + share * (y[place] - y[place - 1])
        return y[-1]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {"x": list(self.x), "y": list(self.y)}


def read_head(what: str, document: object, width: int) -> Head:
    """Read a head of `width` features from JSON that anybody may have written.

    Raises:
        StoppingError: If it is none.
    """
    found = _mapping(what, document)
    bias = number(f"{what}.bias", found.get("bias"))
    if found.get("kind") == "linear":
        parts = (numbers(f"{what}.{key}", found.get(key)) for key in ("weights", "low", "high"))
        weights, low, high = parts
        if not len(weights) == len(low) == len(high) == width:
            _refuse(f"{what}.weights, .low and .high must have {width} numbers each", len(weights))
        reaches = (
            abs(weight) * (abs(least) + abs(most))
            for weight, least, most in zip(weights, low, high, strict=True)
        )
        _check_reach(what, abs(bias), *reaches)
        return Linear(bias, weights, low, high)
    if found.get("kind") != "trees":
        _refuse(f"{what}.kind must be 'linear' or 'trees'", found.get("kind"))
    trees = found.get("trees")
    grown = cast("list[object]", trees) if isinstance(trees, list) else None
    if grown is None or len(grown) > MOST_TREES:
        _refuse(f"{what}.trees must be a list of at most {MOST_TREES} trees", found.get("trees"))
    held = tuple(_tree(f"{what}.trees[{n}]", one, width, DEEPEST) for n, one in enumerate(grown))
    _check_reach(what, abs(bias), *(max(map(abs, _leaves(tree))) for tree in held))
    return Trees(bias, held, width)


def read_curve(what: str, document: object) -> Curve:
    """Read a curve from JSON that anybody may have written.

    Raises:
        StoppingError: If it is none.
    """
    found = _mapping(what, document)
    x, y = numbers(f"{what}.x", found.get("x")), numbers(f"{what}.y", found.get("y"))
    if not x or len(x) != len(y):
        _refuse(f"{what} must have as many x as y, and at least one", (len(x), len(y)))
    if list(x) != sorted(x) or list(y) != sorted(y):
        _refuse(f"{what} must rise", "a curve that falls")
    if y[0] < 0 or y[-1] > 1:
        _refuse(f"{what}.y must be from 0 to 1", (y[0], y[-1]))
    return Curve(x, y)


def number(what: str, value: object) -> float:
    """Read a finite number.

    Raises:
        StoppingError: If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
        _refuse(f"{what} must be a finite number", value)
    return float(cast("float", value))


def numbers(what: str, values: object) -> tuple[float, ...]:
    """Read a list of finite numbers.

    Raises:
        StoppingError: If it is none.
    """
    if not isinstance(values, list):
        _refuse(f"{what} must be a list of numbers", type(values).__name__)
    held = cast("list[object]", values)
    return tuple(number(f"{what}[{place}]", value) for place, value in enumerate(held))


def modest(what: str, value: object) -> float:
    """Read a number that may be added to what a model gives.

    Raises:
        StoppingError: If it is none.
    """
    found = number(what, value)
    _check_reach(what, abs(found))
    return found


def _check_reach(what: str, *parts: float) -> None:
    reach = sum(parts)
    if not reach <= GREATEST:
        _refuse(f"{what} must give values at most {GREATEST:g} from 0", reach)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _mapping(what: str, document: object) -> Mapping[str, object]:
    if not isinstance(document, dict):
        _refuse(f"{what} must be an object", type(document).__name__)
    return cast("Mapping[str, object]", document)


def _tree(what: str, document: object, width: int, depth: int) -> Tree:
    if not isinstance(document, list):
        return number(what, document)
    node = cast("list[object]", document)
    if len(node) != 4 or depth == 0:  # noqa: PLR2004 - feature, threshold, and two branches
        _refuse(
            f"{what} must be [feature, threshold, low, high], at most {DEEPEST} deep", len(node)
        )
    feature = node[0]
    if isinstance(feature, bool) or not isinstance(feature, int) or not 0 <= feature < width:
        _refuse(f"{what} must split on one of {width} features, counted from 0", feature)
    low, high = (_tree(what, branch, width, depth - 1) for branch in node[2:])
    return (feature, number(what, node[1]), low, high)


def _leaves(tree: Tree) -> Iterator[float]:
    if isinstance(tree, tuple):
        yield from _leaves(tree[2])
        yield from _leaves(tree[3])
    else:
        yield tree


def _mean(tree: Tree) -> float:
    leaves = list(_leaves(tree))
    return math.fsum(leaves) / len(leaves)


def _times(tree: Tree, slope: float) -> Tree:
    if isinstance(tree, tuple):
        return (tree[0], tree[1], _times(tree[2], slope), _times(tree[3], slope))
    return slope * tree


def _refuse(must: str, came: object) -> NoReturn:
    msg = f"{must}, got {str(came)[:80]!r}"
    raise StoppingError(msg)
