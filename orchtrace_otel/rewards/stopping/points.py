"""Decision points: where a run could have stopped, what was seen there, what it was worth.

A trace that names its points (`decision_point`) has those; one that names none has
every event with `features`. An event with `answer_now` is always one. The price of
stopping at the n-th point is n steps; a stop of ours right behind a point costs none more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.model import Event, Trace
from orchtrace_otel.rewards.graph import find_stop
from orchtrace_otel.rewards.others import is_of_others

ANSWER_NOW: Final = "answer_now"
"""Event key, and component of a reward whose target is the event: success of stopping there."""

_GREATEST: Final = 1e30
"""Trees are grown in single precision, in which sums of many must be finite."""

LIMITS: Final = frozenset({"max_steps", "token_budget", "time_budget", "budget_exhausted"})
"""Stop reasons of runs that nobody could have let go on; the last is a word of others."""


class Point(NamedTuple):
    """One decision point.

    Attributes:
        event: Id of its event.
        step: Which point of its run it is, from 1 on; what stopping there costs, in steps.
        t: Seconds since the run began.
        tokens: Tokens known until then.
        features: What was seen; None where the log does not say.
        answer_now: Graded success of stopping there, 0 to 1; None where nobody graded it.
        stop_probability: How likely the logged policy was to stop there; None where unknown.
    """

    event: str
    step: int
    t: float
    tokens: float
    features: Mapping[str, float] | None = None
    answer_now: float | None = None
    stop_probability: float | None = None


class Course(NamedTuple):
    """One run as stopping sees it.

    Attributes:
        run: Its trace id.
        task: What was asked; runs of one task share it.
        points: Its decision points in order; the last one is where the log stopped.
        is_limited: Whether a limit ended it, so that no policy could have gone on.
        reason: Why it stopped; None where the trace does not say.
    """

    run: str
    task: str
    points: tuple[Point, ...]
    is_limited: bool = False
    reason: str | None = None


def read_course(trace: Trace, outcome: str | None = None) -> Course:
    """Return the decision points of a run.

    Args:
        trace: The run.
        outcome: Component of the team's reward that is the graded success of the answer
            that the run gave: the last point has it where nothing else grades it, and a
            point that the stop comes right behind as well.

    Raises:
        StoppingError: If a feature or a grade is no number, or a grade is not 0 to 1.

    Example:
        >>> seen = {"verb": "decide", "features": {"step": 1}, "answer_now": 0.5}
        >>> trace = Trace("run", "task", (Event("e1", 2, "orchestrator_decision", "lead", seen),))
        >>> read_course(trace).points[0].answer_now
        0.5
    """
    graded = _graded(trace)
    tokens = 0.0
    points: list[Point] = []
    key = _point_key(trace)
    latest = -1
    for place, event in enumerate(sorted(trace.events, key=_when)):  # others may list them anyhow
        spent = event.get("tokens")
        # Others write what they like: what no float holds is no count of tokens.
        tokens += spent if isinstance(spent, (int, float)) and abs(spent) <= _GREATEST else 0
        if key in event.keys or ANSWER_NOW in event.keys or event.id in graded:
            is_again = latest == place - 1 and points and _is_again(event, points[-1])
            step = points[-1].step + (not is_again) if points else 1
            points.append(_point(trace, event, step, tokens, graded))
            latest = place
    if outcome is not None and points and points[-1].answer_now is None:
        final = trace.rewards.get(outcome)
        points[-1] = points[-1]._replace(answer_now=_grade(trace, points[-1].event, final))
    if len(points) > 1 and points[-1].step == points[-2].step:
        _share_grade(points)
    stop = find_stop(trace.events)
    reason = None if stop is None else trace.events[stop].get("stop_reason")
    reason = reason if isinstance(reason, str) else None
    return Course(trace.trace_id, trace.task_id, tuple(points), reason in LIMITS, reason)


def _is_again(event: Event, before: Point) -> bool:
    """Whether a stop right behind a point is that point again: nothing was done in between.

    Others may list the points alone, and nothing of what is done; with them time tells.
    """
    return event.is_stop and (event.t == before.t or not is_of_others(event))


def _when(event: Event) -> tuple[float, bool]:
    return event.t, event.is_stop


def read_courses(traces: Iterable[Trace], outcome: str | None = None) -> list[Course]:
    """Return the courses of those runs that have decision points."""
    courses = (read_course(trace, outcome) for trace in traces)
    return [course for course in courses if course.points]


def once(course: Course) -> Course:
    """Return a run without a stop right behind a point, which is that point again.

    Chance decided once there, and nobody went on from the one to the other.
    """
    if len(course.points) < 2 or course.points[-1].step > course.points[-2].step:  # noqa: PLR2004 - two
        return course
    *before, point, stop = course.points
    kept = stop if point.features is None else point
    return course._replace(points=(*before, kept))


def feature_names(courses: Iterable[Course]) -> tuple[str, ...]:
    """Return the features that every point with features has, in the order of the first one.

    Raises:
        StoppingError: If no feature is at all of them.
    """
    first: Mapping[str, float] | None = None
    common: set[str] = set()
    for course in courses:
        for _, point, seen in seen_points(course):
            if first is None:
                first, common = seen, set(seen)
            elif not common <= seen.keys():
                common &= seen.keys()
                if not common:
                    _refuse_names(course, point, first)
    return tuple(name for name in first or () if name in common)


def partial_names(courses: Iterable[Course]) -> tuple[str, ...]:
    """Return the features that some points have and others lack, sorted."""
    seen = [found for course in courses for _, _, found in seen_points(course)]
    every = {name for found in seen for name in found}
    return tuple(sorted(name for name in every if not all(name in found for found in seen)))


def seen_points(course: Course) -> Iterator[tuple[int, Point, Mapping[str, float]]]:
    """Yield the points whose features are known, with their places."""
    for place, point in enumerate(course.points):
        if point.features is not None:
            yield place, point, point.features


def _share_grade(points: list[Point]) -> None:
    """Grade a stop and the point that it comes right behind alike: they are one point."""
    before, stop = points[-2:]
    if stop.answer_now is None:
        points[-1] = stop._replace(answer_now=before.answer_now)
    elif before.answer_now is None:
        points[-2] = before._replace(answer_now=stop.answer_now)


def _refuse_names(course: Course, point: Point, first: Mapping[str, float]) -> None:
    msg = (
        f"decision points must have a feature in common, but event {point.event!r} of run "
        f"{course.run!r} has {sorted(point.features or ())!r}, and the first one has "
        f"{sorted(first)!r}"
    )
    raise StoppingError(msg)


def _point_key(trace: Trace) -> str:
    """Return the key that makes an event of this trace a decision point."""
    names_them = any(event.get("decision_point") for event in trace.events)
    return "decision_point" if names_them else "features"


def _graded(trace: Trace) -> Mapping[str, float]:
    """Return the grades that came as rewards of events, such as those given later."""
    records = trace.reward_records
    return {
        record.target: record.value
        for record in records
        if record.component == ANSWER_NOW and record.target is not None
    }


def _point(
    trace: Trace, event: Event, step: int, tokens: float, graded: Mapping[str, float]
) -> Point:
    found = event.get(ANSWER_NOW)
    answer_now = _grade(trace, event.id, graded.get(event.id) if found is None else found)
    seen = event.get("features")
    return Point(
        event.id,
        step,
        event.t,
        tokens,
        None if seen is None else _features(trace, event.id, seen),
        answer_now,
        _grade(trace, event.id, event.get("stop_probability"), "stop_probability"),
    )


def _spelled(value: object) -> str:
    """Write what came, at a length that can be read: a number may have thousands of digits."""
    try:
        return f"{value!r:.60}"
    except ValueError:  # more digits than Python writes
        return f"an {type(value).__name__} of thousands of digits"


def _features(trace: Trace, event: str, seen: object) -> Mapping[str, float]:
    if not isinstance(seen, Mapping):
        msg = (
            f"features of event {event!r} of run {trace.trace_id!r} must be an object of "
            f"numbers, got {type(seen).__name__}"
        )
        raise StoppingError(msg)
    features: dict[str, float] = {}
    for name, value in cast("Mapping[str, Any]", seen).items():
        # NaN is below nothing.
        if not isinstance(value, (int, float)) or not abs(value) <= _GREATEST:
            msg = (
                f"feature {name!r} of event {event!r} of run {trace.trace_id!r} must be a "
                f"number from {-_GREATEST:g} to {_GREATEST:g}, "
                f"got {_spelled(value)}"
            )
            raise StoppingError(msg)
        features[name] = float(value)
    return features


def _grade(trace: Trace, event: str, value: Any, what: str = ANSWER_NOW) -> float | None:
    if value is None:
        return None
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        msg = (
            f"{what} of event {event!r} of run {trace.trace_id!r} must be a number from 0 to 1, "
            f"got {_spelled(value)}; leave it out where it is not known"
        )
        raise StoppingError(msg)
    return float(value)
