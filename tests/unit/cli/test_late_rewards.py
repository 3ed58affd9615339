"""Rewards that came after their runs lie beside them; verbs that ask for worth add them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.cli import convert, credit, export, rewards, show
from orchtrace_otel.cli._reading import Reading
from orchtrace_otel.rewards.stopping.points import read_course
from orchtrace_otel.tables.reading import Late, read


@orchtrace.team("research", task_id="q")
def team() -> str:
    orchtrace.decide("route", chosen="done")
    run = orchtrace.current_run()
    assert run is not None
    return run.id


@pytest.fixture(params=["folder", "folder[1]/runs.jsonl", "my-losses.20261130.jsonl"])
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


def test_what_is_converted_has_its_late_verdict(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So has a data set; of a file as of a folder."""
    target = tmp_path / "all.jsonl"
    given = [str(place), "--to", f"jsonl:{target}"]
    assert convert.command.main(given, standalone_mode=False) == 0
    said = capsys.readouterr().out
    assert "2 runs written" in said
    assert "2 late rewards, 0 faults" in said
    found = [json.loads(line) for line in target.read_text().splitlines()]
    assert sorted(run["rewards"].get("task", -1) for run in found) == [-1, 0.5]
    dry = ["--to", "trl-sft", "--reward", "task", "--dry-run", "--json"]
    export.command.main([str(place), *dry], standalone_mode=False)
    counts = json.loads(capsys.readouterr().out)["read"]
    assert (counts["late"] > 0, counts["orphans"]) == (True, 0)
    assert [one for one in read(str(place)) if isinstance(one, Late)]


@pytest.mark.parametrize("name", ["with-rewards.jsonl", "with-losses.jsonl", "rewards_v2.jsonl"])
def test_a_file_is_of_traces_whatever_word_its_name_ends_in(
    name: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what `jsonl:` calls so is of late rewards or of losses."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / name).write_bytes((place / "traces.jsonl" if place.is_dir() else place).read_bytes())
    given = [str(folder), "--to", f"jsonl:{tmp_path / 'all.jsonl'}"]
    assert convert.command.main(given, standalone_mode=False) == 0
    assert "2 runs written" in capsys.readouterr().out


def test_a_late_reward_that_is_none_is_told(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It costs itself alone, and the exit code says that it was there."""
    name = "rewards.jsonl" if place.is_dir() else f"{place.stem}.rewards.jsonl"
    beside = (place if place.is_dir() else place.parent) / name
    beside.write_text("{}\n" + beside.read_text())
    assert rewards.command.main([str(place), "--json"], standalone_mode=False) == 1
    told = capsys.readouterr()
    assert json.loads(told.out.splitlines()[0])["rewards"]["task"] == 0.5
    assert "must be a reward with its run_id" in told.err
