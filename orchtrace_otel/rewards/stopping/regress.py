"""Regressions whose result is a head: ridge, and boosted trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from orchtrace_otel.rewards.stopping._learn import Floats, learner, np
from orchtrace_otel.rewards.stopping.heads import Head, Linear, Tree, Trees

_PENALTIES: Final = tuple(10.0**power for power in range(-2, 5))
_TREES: Final = 60
_FEW: Final = 20
_FEW_ROWS: Final = 10
_DEPTH: Final = 2


class Fitted(Protocol):
    """What a regression has learned."""

    def predict(self, x: Floats) -> Floats:
        """Return the values at the rows of `x`."""
        ...

    def head(self) -> Head:
        """Return it as a head."""
        ...


Regression: TypeAlias = Callable[[Floats, Floats], Fitted]
"""From rows of features and a target each to what was learned."""


def fit_linear(x: Floats, y: Floats) -> Fitted:
    """Fit a ridge, its penalty chosen by leaving rows out."""
    return _Mean(x, y) if len(y) < _FEW_ROWS else _Linear(x, y)


def fit_trees(x: Floats, y: Floats, count: int = _TREES, depth: int = _DEPTH) -> Fitted:
    """Fit boosted trees; the same rows give the same trees."""
    return _Mean(x, y) if len(y) < _FEW_ROWS else _Trees(x, y, count, depth)


def fit_few_trees(x: Floats, y: Floats) -> Fitted:
    """Fit a handful of trees, for what need not be exact."""
    return fit_trees(x, y, _FEW, _DEPTH)


LEARNERS: Final[dict[str, Regression]] = {"linear": fit_linear, "trees": fit_trees}
"""Regressions by name; `fit_stop_value` takes the one that does best on tasks left out."""


class _Mean:
    """What so few rows can tell: their mean."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self._mean = float(y.mean())
        self._low, self._high = x.min(axis=0), x.max(axis=0)

    def predict(self, x: Floats) -> Floats:
        return np.full(len(x), self._mean)

    def head(self) -> Head:
        low, high = tuple(map(float, self._low)), tuple(map(float, self._high))
        return Linear(self._mean, (0.0,) * len(low), low, high)


class _Linear:
    def __init__(self, x: Floats, y: Floats) -> None:
        self._low, self._high = x.min(axis=0), x.max(axis=0)
        mean, scale = x.mean(axis=0), x.std(axis=0)
        scale[scale == 0] = 1.0
        ridge: Any = learner("linear_model", "RidgeCV")(alphas=_PENALTIES)
        ridge.fit((x - mean) / scale, y)
        self._weights: Floats = ridge.coef_ / scale
        self._bias = float(ridge.intercept_ - (self._weights * mean).sum())

    def predict(self, x: Floats) -> Floats:
        clipped: Floats = np.clip(x, self._low, self._high)
        return self._bias + clipped @ self._weights

    def head(self) -> Head:
        parts = (self._weights, self._low, self._high)
        weights, low, high = (tuple(map(float, part)) for part in parts)
        return Linear(self._bias, weights, low, high)


class _Trees:
    def __init__(self, x: Floats, y: Floats, count: int, depth: int) -> None:
        self._width = x.shape[1]
        self._model: Any = learner("ensemble", "GradientBoostingRegressor")(
            n_estimators=count,
            max_depth=depth,
            learning_rate=0.1,
            subsample=0.6,
            max_features=0.5,
            min_samples_leaf=min(max(20, len(x) // 200), max(len(x) // 10, 1)),
            random_state=0,
        )
        self._model.fit(x, y)

    def predict(self, x: Floats) -> Floats:
        found: Floats = self._model.predict(x)
        return found

    def head(self) -> Head:
        rate = self._model.learning_rate
        grown = (one[0].tree_ for one in self._model.estimators_)
        trees = tuple(_grow(tree, 0, rate) for tree in grown)
        bias = float(self._model.init_.constant_.ravel()[0])
        return Trees(bias, trees, self._width)


def _grow(tree: Any, node: int, rate: float) -> Tree:
    left, right = int(tree.children_left[node]), int(tree.children_right[node])
    if left < 0:
        return rate * float(tree.value[node].ravel()[0])
    feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
    return (feature, threshold, _grow(tree, left, rate), _grow(tree, right, rate))
