"""Making probabilities of a regression's values: isotonic where they are many, else by Platt."""

from __future__ import annotations

from typing import Any, Final

from orchtrace_otel.rewards.stopping._learn import Floats, learner, np
from orchtrace_otel.rewards.stopping.heads import Curve

ENOUGH_FOR_ISOTONIC: Final = 1_000
"""Points; with fewer a curve of steps follows chance more than the truth."""

_KNOTS: Final = 33
_HARDLY_A_PENALTY: Final = 1e6


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
    scale = float(raw.std())
    rows = np.concatenate([raw, raw])[:, np.newaxis] / scale
    labels = np.repeat([1, 0], len(raw))
    weights = np.concatenate([worth, 1.0 - worth])
    if not 0.0 < float(worth.mean()) < 1.0:
        return _curve(raw[:1], worth[:1])
    model: Any = learner("linear_model", "LogisticRegression")(C=_HARDLY_A_PENALTY)
    model.fit(rows, labels, sample_weight=weights)
    x: Floats = np.linspace(float(raw.min()), float(raw.max()), _KNOTS)
    y: Floats = model.predict_proba(x[:, np.newaxis] / scale)[:, 1]
    if y[0] > y[-1]:  # the regression says less than nothing of tasks it has not seen
        return _curve(raw[:1], np.array([worth.mean()]))
    return _curve(x, y)


def _curve(x: Floats, y: Floats) -> Curve:
    return Curve(tuple(map(float, x)), tuple(map(float, y)))
