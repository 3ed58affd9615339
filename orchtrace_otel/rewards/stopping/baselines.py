"""Policies that a fitted one must beat, each tuned on the tasks that it was trained on.

A policy says of a course at which of its points it stops: the place of the point, or
None where it would have gone on past the log's end. It may look at nothing behind that
point, but for the logged policy and the oracle, which are there to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.rewards.stopping.points import Course, Point

Policy: TypeAlias = Callable[[Course], int | None]

FITTED: Final = "fitted"
FIXED: Final = "fixed step limit"
TOKENS: Final = "token budget"
SECONDS: Final = "time budget"
UNCHANGED: Final = "answer unchanged"
CONFIDENCE: Final = "confidence threshold"
SELF_REPORT: Final = "self-report"
LOOP_RULE: Final = "loop rule"
LOGGED: Final = "logged policy"
ORACLE: Final = "oracle"

_MOST_TRIED: Final = 40
_UNKNOWN: Final = -math.inf
_MOST_REPEATS: Final = 3
"""As often an action may come before the loop rule holds, where the log has no `loop`."""

Reading: TypeAlias = Callable[[Mapping[str, float]], float]
"""What a baseline looks at in the features of a point."""

_UNCHANGED: Final[Mapping[str, Reading]] = {
    "answer_unchanged": lambda seen: seen["answer_unchanged"],
    "unchanged": lambda seen: seen["unchanged"],
}
_SAYS_DONE: Final[Mapping[str, Reading]] = {
    "self_report": lambda seen: seen["self_report"] - 1,
    "plan_share": lambda seen: seen["plan_share"] - 1,
    "plan_done": lambda seen: seen["plan_done"] - max(seen["plan_total"], 1),
}
_LOOPS: Final[Mapping[str, Reading]] = {
    "loop": lambda seen: seen["loop"] - 1,
    "repeats": lambda seen: seen["repeats"] - _MOST_REPEATS,
}
"""Features that say it, the plainest one first; at least 0, or the tuned number, says yes."""


class Named(NamedTuple):
    """A policy with its name, or the reason why it cannot be tried.

    Attributes:
        name: What it is called.
        policy: The policy; None where the log lacks what it looks at.
        says: Its parameter, or why it is absent.
    """

    name: str
    policy: Policy | None
    says: str = ""


def all_policies(model: StopValue, courses: Sequence[Course]) -> list[Named]:
    """Return the fitted policy and every baseline, for these courses."""
    tuned = model.baselines
    return [
        Named(FITTED, fitted(model), f"margin {model.margin:g}"),
        _tuned(FIXED, tuned.get("step"), "step", by_steps),
        _tuned(TOKENS, tuned.get("tokens"), "tokens", by_tokens),
        _tuned(SECONDS, tuned.get("elapsed_s"), "seconds", by_seconds),
        _of_features(UNCHANGED, _UNCHANGED, tuned.get("unchanged"), courses),
        _tuned(CONFIDENCE, tuned.get("q"), "q", lambda least: by_confidence(model, least)),
        _of_features(SELF_REPORT, _SAYS_DONE, 0.0, courses),
        _of_features(LOOP_RULE, _LOOPS, 0.0, courses),
        Named(LOGGED, logged),
        Named(ORACLE, by_hindsight(model.cost), "knows the future"),
    ]


def fitted(model: StopValue) -> Policy:
    """Stop at the first point where going on is worth no more than stopping."""
    return lambda course: first(course, lambda point: _says_stop(model, point))


def by_steps(limit: float) -> Policy:
    """Stop at step `limit`."""
    return lambda course: first(course, lambda point: point.step >= limit)


def by_tokens(limit: float) -> Policy:
    """Stop once `limit` tokens are spent."""
    return lambda course: first(course, lambda point: point.tokens >= limit)


def by_seconds(limit: float) -> Policy:
    """Stop once `limit` seconds have passed."""
    return lambda course: first(course, lambda point: point.t >= limit)


def by_reading(read: Reading, least: float) -> Policy:
    """Stop at the first point where what is read of its features is at least `least`."""
    return lambda course: first(course, lambda point: _read(point, read) >= least)


def by_confidence(model: StopValue, least: float) -> Policy:
    """Stop at the first point where success is at least this likely."""

    def is_sure(point: Point) -> bool:
        return point.features is not None and model.advise(point.features).q >= least

    return lambda course: first(course, is_sure)


def logged(course: Course) -> int:
    """Stop where the log did."""
    return len(course.points) - 1


def by_hindsight(cost: float) -> Policy:
    """Stop where it turned out to be worth most: nobody can, and nobody can do better."""
    return lambda course: best(course, cost)


def best(course: Course, cost: float) -> int | None:
    """Stop at the graded point that is worth most; None where none is graded."""
    values = {
        place: point.answer_now - cost * point.step
        for place, point in enumerate(course.points)
        if point.answer_now is not None
    }
    return max(values, key=values.__getitem__) if values else None


def first(course: Course, holds: Callable[[Point], bool]) -> int | None:
    """Return the place of the first point for which something holds."""
    return next((place for place, point in enumerate(course.points) if holds(point)), None)


def tune(
    courses: Sequence[Course],
    cost: float,
    confidence: Mapping[str, float],
) -> dict[str, float | int | str | None]:
    """Return the parameters of the baselines that are worth most on the training tasks.

    Each has one number, and the number fits nothing else, so its mean over folds left
    out is its mean over all tasks; the confidence is that of models that have not seen
    the task. It also stands for the grade where nobody gave one, as it does when the
    policy is learned: of few runs each the best number is the luckiest.

    Args:
        courses: The training runs.
        cost: Price of a step.
        confidence: Calibrated success by `<run>/<event>`, each from models that have not
            seen the task.
    """
    courses = [_estimated(course, confidence) for course in courses]
    points = [point for course in courses for point in course.points]
    read = _reading(_UNCHANGED, courses)

    def unchanged(point: Point) -> float:
        return _UNKNOWN if read is None else _read(point, read[1])

    tokens = {point.tokens for point in points}
    tried: dict[str, list[float]] = {
        "q": sorted(set(confidence.values())),
        "step": sorted({point.step for point in points}),
        "tokens": sorted(tokens) if any(tokens) else [],  # else a budget of 0 would stop at once
        "elapsed_s": sorted({point.t for point in points}),
        "unchanged": sorted({one for one in map(unchanged, points) if one > 0}),
    }

    def of_confidence(least: float) -> Policy:
        return lambda course: first(
            course, lambda point: confidence.get(f"{course.run}/{point.event}", -1.0) >= least
        )

    makers: dict[str, Callable[[float], Policy]] = {
        "q": of_confidence,
        "step": by_steps,
        "tokens": by_tokens,
        "elapsed_s": by_seconds,
        "unchanged": lambda least: (
            lambda course: first(course, lambda point: unchanged(point) >= least)
        ),
    }
    return {
        name: _best_of(_spaced(tried[name]), make, courses, cost) for name, make in makers.items()
    }


def _estimated(course: Course, confidence: Mapping[str, float]) -> Course:
    """Return a run with an estimate where a point is not graded."""
    points = (
        point._replace(answer_now=confidence.get(f"{course.run}/{point.event}"))
        if point.answer_now is None
        else point
        for point in course.points
    )
    return course._replace(points=tuple(points))


def worth_of(course: Course, place: int | None, cost: float) -> float | None:
    """Return what stopping at `place` is worth, the log's end where it is None; None: ungraded."""
    point = course.points[-1 if place is None else place]
    return None if point.answer_now is None else point.answer_now - cost * point.step


def _best_of(
    tried: Iterable[float],
    make: Callable[[float], Policy],
    courses: Sequence[Course],
    cost: float,
) -> float | None:
    means: dict[float, float] = {}
    for parameter in tried:
        policy = make(parameter)
        values = [worth_of(course, policy(course), cost) for course in courses]
        known = [value for value in values if value is not None]
        if known:
            means[parameter] = math.fsum(known) / len(known)
    return max(means, key=means.__getitem__) if means else None


def _spaced(values: Sequence[float]) -> list[float]:
    """Return at most so many of the values, evenly spaced by rank, the last one among them."""
    if len(values) <= _MOST_TRIED:
        return list(values)
    last = len(values) - 1
    return [values[round(n * last / (_MOST_TRIED - 1))] for n in range(_MOST_TRIED)]


def _tuned(name: str, parameter: object, unit: str, make: Callable[[float], Policy]) -> Named:
    if not isinstance(parameter, (int, float)):
        return Named(name, None, "it was not tuned: no graded training run has what it looks at")
    return Named(name, make(parameter), f"{unit} {parameter:g}")


def _of_features(
    name: str, readings: Mapping[str, Reading], least: object, courses: Sequence[Course]
) -> Named:
    found = _reading(readings, courses)
    if found is None:
        return Named(name, None, f"the log has none of the features {', '.join(readings)}")
    feature, read = found
    if not isinstance(least, (int, float)):
        return Named(name, None, f"it was not tuned: {feature} was never above 0 in training")
    says = f"{feature} >= {least:g}" if least else feature
    return Named(name, by_reading(read, least), says)


def _reading(
    readings: Mapping[str, Reading], courses: Sequence[Course]
) -> tuple[str, Reading] | None:
    """Return the plainest feature that these courses have, and how it is read."""
    points = (point.features for course in courses for point in course.points)
    seen = next((features for features in points if features is not None), None)
    if seen is None:
        return None
    return next(((name, read) for name, read in readings.items() if name in seen), None)


def _read(point: Point, read: Reading) -> float:
    if point.features is None:
        return _UNKNOWN
    try:
        return read(point.features)
    except KeyError:
        return _UNKNOWN


def _says_stop(model: StopValue, point: Point) -> bool:
    return point.features is not None and model.advise(point.features).should_stop
