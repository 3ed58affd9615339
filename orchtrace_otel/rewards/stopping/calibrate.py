"""Making probabilities of a regression's values: isotonic where they are many, else by Platt."""

from __future__ import annotations

from typing import Any, Final

from orchtrace_otel.rewards.stopping._learn import Floats, learner, np
from orchtrace_otel.rewards.stopping.heads import Curve

ENOUGH_FOR_ISOTONIC: Final = 1_000
"""Points; with fewer a curve of steps follows chance more than the truth."""

_KNOTS: Final = 33
_PENALTY: Final = 0.01
_STEPS: Final = 25
_FLAT: Final = 35.0
"""Beyond it a logistic curve is level, as far as doubles can tell."""


def calibrate(raw: Floats, worth: Floats) -> tuple[str, Curve]:
    """Return how values of a regression become probabilities, and what the way is called.

    Args:
        raw: Values for points that the regression has not seen.
        worth: Graded success of stopping there, 0 to 1.
    """
    if float(np.ptp(raw)) == 0.0:
        return "constant", Curve((float(raw[0]),), (float(worth.mean()),))
    if len(raw) >= ENOUGH_FOR_ISOTONIC:
        return "isotonic", _isotonic(raw, worth)
    return "platt", _platt(raw, worth)


def apply_curve(curve: Curve, raw: Floats) -> Floats:
    """Return the values of a curve at many places."""
    found: Floats = np.interp(raw, curve.x, curve.y)
    return found


def _isotonic(raw: Floats, worth: Floats) -> Curve:
    model: Any = learner("isotonic", "IsotonicRegression")(y_min=0.0, y_max=1.0)
    model.fit(raw, worth)
    return _curve(model.X_thresholds_, model.y_thresholds_)


def _platt(raw: Floats, worth: Floats) -> Curve:
    """Fit a logistic curve; a success of 0.7 counts as 0.7 of a yes and 0.3 of a no."""
    if not 0.0 < float(worth.mean()) < 1.0:
        return _curve(raw[:1], worth[:1])
    scale = float(raw.std())
    slope, shift = _logistic(raw / scale, worth)
    if slope <= 0.0:  # the regression says less than nothing of tasks it has not seen
        return _curve(raw[:1], np.array([worth.mean()]))
    x: Floats = np.linspace(float(raw.min()), float(raw.max()), _KNOTS)
    return _curve(x, _sigmoid(slope * x / scale + shift))


def _logistic(x: Floats, worth: Floats) -> tuple[float, float]:
    """Return slope and shift by Newton's method, with a penalty that keeps them finite."""
    rows: Floats = np.column_stack([x, np.ones(len(x))])
    found: Floats = np.zeros(2)
    for _ in range(_STEPS):
        said = _sigmoid(rows @ found)
        slope: Floats = rows.T @ (said - worth) + _PENALTY * found
        curvature: Floats = rows.T @ (rows * (said * (1.0 - said))[:, np.newaxis])
        found = found - np.linalg.solve(curvature + _PENALTY * np.eye(2), slope)
    return float(found[0]), float(found[1])


def _sigmoid(x: Floats) -> Floats:
    held: Floats = np.clip(x, -_FLAT, _FLAT)
    said: Floats = 1.0 / (1.0 + np.exp(-held))
    return said


def _curve(x: Floats, y: Floats) -> Curve:
    return Curve(tuple(map(float, x)), tuple(map(float, y)))
