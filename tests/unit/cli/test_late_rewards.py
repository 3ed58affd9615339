"""Rewards that came after their runs lie beside them; verbs that ask for worth add them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.cli import credit, rewards, show
from orchtrace_otel.cli._reading import Reading
from orchtrace_otel.rewards.stopping.points import read_course


@orchtrace.team("research", task_id="q")
def team() -> str:
    orchtrace.decide("route", chosen="done")
    run = orchtrace.current_run()
    assert run is not None
    return run.id


@pytest.fixture(params=["folder", "folder[1]/runs.jsonl"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two runs as `jsonl:` writes them, of which one was judged after it."""
    target = tmp_path / request.param
    orchtrace.configure(exporters=[f"jsonl:{target}"])
    with orchtrace.advise():
        first, _ = team(), team()
    orchtrace.flush()
    points = [point for trace in reading(target) for point in read_course(trace).points]
    orchtrace.record_reward("task", 0.5, run_id=first)
    orchtrace.record_reward("answer_now", 0.25, run_id=first, event_id=points[0].event)
    orchtrace.shutdown()
    return target


def reading(place: Path) -> Reading:
    return Reading((place,) if place.is_file() else (place / "traces.jsonl",))


def lines(command: Any, place: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    assert command.main([str(place), "--json"], standalone_mode=False) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_late_verdict_counts_for_its_run_alone(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a reward, and there is credit for it; the other run has neither."""
    judged, other = lines(rewards.command, place, capsys)
    assert judged["rewards"]["task"] == 0.5
    assert "task" not in other["rewards"]
    judged, other = lines(credit.command, place, capsys)
    assert sum(judged["credit"]["flow"].values()) == pytest.approx(0.5)
    assert (other["credit"], other["absent"]) == ({}, "no_outcome")


def test_a_late_verdict_is_drawn_with_its_run(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both in the list of runs and among the rewards of the one that it judges."""
    assert show.command.main([str(place), "--run", "1"], standalone_mode=False) == 0
    drawn = capsys.readouterr().out
    [verdict] = [line.split() for line in drawn.splitlines() if line.startswith("  task ")]
    assert verdict == ["task", "0.5", "R1", "team", "outcome"]
    assert show.command.main([str(place)], standalone_mode=False) == 0
    listed, _, other = capsys.readouterr().out.partition("The last of 2 runs")
    assert "reward task 0.5" in listed
    assert "  task " not in other


def test_a_late_grade_is_of_its_point(place: Path) -> None:
    """So that a stopping value learns from it."""
    judged, other = (read_course(trace) for trace in reading(place))
    assert [point.answer_now for point in judged.points] == [0.25, 0.25]
    assert [point.answer_now for point in other.points] == [None, None]


def test_a_late_reward_that_is_none_is_told(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It costs itself alone, and the exit code says that it was there."""
    name = "rewards.jsonl" if place.is_dir() else "runs.rewards.jsonl"
    beside = (place if place.is_dir() else place.parent) / name
    beside.write_text("{}\n" + beside.read_text())
    assert rewards.command.main([str(place), "--json"], standalone_mode=False) == 1
    told = capsys.readouterr()
    assert json.loads(told.out.splitlines()[0])["rewards"]["task"] == 0.5
    assert "must be a reward with its run_id" in told.err
