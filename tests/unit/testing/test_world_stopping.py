"""Runs that could have stopped elsewhere: what the log has, and what is true."""

from statistics import fmean

import pytest

from orchtrace_otel import schema
from orchtrace_otel.testing.world import StoppingRun, make_stopping_runs


@pytest.fixture(scope="module")
def runs() -> list[StoppingRun]:
    """Enough runs for shares to be near what they should be."""
    return make_stopping_runs(5, tasks=30, runs_per_task=4)


def test_traces_are_sound(runs: list[StoppingRun]) -> None:
    """Logged and full traces are as those of a host."""
    for run in runs[:10]:
        assert schema.check(run.trace.to_dict()) == []
        assert schema.check(run.full_trace.to_dict()) == []


def test_decision_points_say_what_was_seen_and_most_are_graded(runs: list[StoppingRun]) -> None:
    """An event a point, with features; the grade is the truth where there is one."""
    for run in runs:
        seen = [event for event in run.trace.events if event.get("decision_point")]
        assert len(seen) == run.stopped
        for event, point in zip(seen, run.points, strict=False):
            assert event["features"] == point.features
            assert event["stop_probability"] == point.hazard
            assert event.get("answer_now") == (point.quality if point.is_graded else None)
    points = [point for run in runs for point in run.points]
    assert fmean(point.is_graded for point in points) == pytest.approx(0.8, abs=0.05)


def test_the_log_stops_as_its_hazard_says(runs: list[StoppingRun]) -> None:
    """Over all points that the log reached, it stops as often as its hazards add up to."""
    reached = [point.hazard for run in runs for point in run.points[: run.stopped]]
    assert sum(reached) == pytest.approx(len(runs), rel=0.15)
    assert all(0 < hazard <= 1 for hazard in reached)


def test_the_best_stop_is_the_best_in_hindsight(runs: list[StoppingRun]) -> None:
    """No other point has more utility, and no earlier one as much."""
    for run in runs:
        best = run.best(0.03)
        assert all(run.utility(step, 0.03) < run.utility(best, 0.03) for step in range(1, best))
        assert max(run.utility(step, 0.03) for step in range(1, 13)) == run.utility(best, 0.03)


def test_tasks_differ_in_difficulty(runs: list[StoppingRun]) -> None:
    """Runs of one task are more alike than runs of all."""
    by_task: dict[str, list[float]] = {}
    for run in runs:
        by_task.setdefault(run.task_id, []).append(run.points[-1].quality)
    means = [fmean(values) for values in by_task.values()]
    spread = fmean((mean - fmean(means)) ** 2 for mean in means)
    within = fmean(fmean((v - fmean(vs)) ** 2 for v in vs) for vs in by_task.values())
    assert spread > within / 4
