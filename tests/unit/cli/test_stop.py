"""`orchtrace stop`: fit, eval and explain, their files, their JSON and their exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from orchtrace_otel import schema
from orchtrace_otel.cli.stop import command
from orchtrace_otel.errors import ConfigError, StoppingError
from orchtrace_otel.model import Trace
from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.testing.world import make_stopping_runs


def invoke(*arguments: object) -> Result:
    """Run the verb; what it raises is for `_group`, which makes exit codes of it."""
    return CliRunner().invoke(
        command, list(map(str, arguments)), standalone_mode=False, catch_exceptions=False
    )


def write(path: Path, traces: list[Trace]) -> Path:
    path.write_bytes(b"".join(schema.dump(trace) + b"\n" for trace in traces))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with training runs, a model fitted on them, and runs of other tasks."""
    found = tmp_path_factory.mktemp("stop")
    runs = make_stopping_runs(3, tasks=8, runs_per_task=2)
    write(found / "train.jsonl", [run.full_trace for run in runs])
    others = make_stopping_runs(4, tasks=4, runs_per_task=2)
    write(found / "other.jsonl", [run.trace for run in others])
    result = invoke(
        "fit", found / "train.jsonl", "--cost", 0.05, "--sweeps", 2, "--out", found / "model.json"
    )
    assert result.return_value == 0, result.output
    (found / "fit.txt").write_text(result.output)
    return found


def test_fit_writes_a_model_that_advises(folder: Path) -> None:
    """It says what it learned from, and its file is JSON that loads."""
    model = StopValue.load(folder / "model.json")
    seen = make_stopping_runs(4, tasks=1, runs_per_task=1)[0].points[0].features
    assert set(model.advise(seen)) == {"q", "g", "v_stop", "sd", "reason", "model", "provisional"}
    assert model.cost == 0.05
    said = (folder / "fit.txt").read_text().splitlines()
    assert said[0] == (
        f"{model.version}: 16 runs of 8 tasks, 192 decision points, {model.facts['graded']} graded"
    )
    assert said[2] == (
        f"Written to {folder / 'model.json'}. Runs that it has not seen say more: "
        f"orchtrace stop eval {folder / 'model.json'}"
    )


def test_eval_prints_the_policy_beside_every_baseline(folder: Path) -> None:
    """A row each, with why it is absent where it is."""
    result = invoke("eval", folder / "model.json", folder / "other.jsonl")
    assert result.return_value == 0
    names = ("fitted", "fixed step limit", "token budget", "time budget", "answer unchanged")
    names += ("confidence threshold", "self-report", "loop rule", "logged policy", "oracle")
    lines = result.output.splitlines()
    assert [line.strip().partition("  ")[0] for line in lines[2:12]] == list(names)
    assert "censored" in lines[1]
    assert re.search(r"fitted gains +95 % +in runs$", lines[1])
    document = json.loads(
        invoke("eval", folder / "model.json", folder / "other.jsonl", "--json").output
    )
    both = {row["name"]: row["gain"] for row in document["rows"]}
    assert f"{both['fixed step limit']['runs']} of 8 " in lines[3]
    assert "goes on past the log's stop" in result.output


def test_eval_writes_json_with_nothing_unknown_as_a_number(folder: Path) -> None:
    """Value, interval, ESS, censored share and why, for each policy."""
    result = invoke("eval", folder / "model.json", folder / "other.jsonl", "--json")
    document: dict[str, Any] = json.loads(result.output)
    assert (document["runs"], document["tasks"], document["cost"]) == (8, 4, 0.05)
    for row in document["rows"]:
        for one in (row["alone"], row["beside_log"]):
            if one is None:
                continue
            assert (one["value"] is None) == (one["why"] is not None)
            assert (one["value"] is None) == (one["censored"] > 0)
            assert 0 <= one["ess"] <= one["runs"] == 8


def test_explain_says_for_each_point_why(folder: Path) -> None:
    """A line a point with the features that moved it most; the same as JSON, a line a run."""
    result = invoke("explain", folder / "model.json", folder / "other.jsonl")
    assert result.return_value == 0
    assert "is worth more" in result.output
    lines = invoke(
        "explain", folder / "model.json", folder / "other.jsonl", "--json"
    ).output.splitlines()
    assert len(lines) == 8
    point = json.loads(lines[0])["points"][0]
    assert set(point) == {"event", "step", "t", "answer_now", "advice", "why"}
    assert point["why"][0].keys() == {"feature", "value", "adds"}
    shares = [abs(one["adds"]) for one in point["why"]]
    assert shares == sorted(shares, reverse=True)


def test_runs_without_decision_points_are_said_to_have_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is wrong with them."""
    bare = make_stopping_runs(4, tasks=1, runs_per_task=1)[0].trace
    events = tuple(
        replace(
            event,
            keys={
                key: value
                for key, value in event.keys.items()
                if key not in {"features", "decision_point", "answer_now"}
            },
        )
        for event in bare.events
    )
    path = write(folder / "bare.jsonl", [replace(bare, events=events)])
    assert invoke("explain", folder / "model.json", path).return_value == 0


def test_a_document_that_is_no_trace_costs_itself_alone(folder: Path) -> None:
    """The others are read, and the exit code tells."""
    path = folder / "mixed.jsonl"
    path.write_bytes(b"{}\n" + (folder / "other.jsonl").read_bytes())
    result = invoke("eval", folder / "model.json", path, "--json")
    assert result.return_value == 1


def test_nothing_to_learn_from_is_the_inputs_fault(folder: Path) -> None:
    """No model is written."""
    runs = make_stopping_runs(3, tasks=1, runs_per_task=2)
    path = write(folder / "one.jsonl", [run.trace for run in runs])
    with pytest.raises(StoppingError, match="at least two tasks"):
        invoke("fit", path, "--cost", 0.05, "--out", folder / "none.json")
    assert not (folder / "none.json").exists()


def test_a_price_that_is_none_is_the_usages_fault(folder: Path) -> None:
    """A step cannot cost less than nothing."""
    with pytest.raises(ConfigError, match="cost must be"):
        invoke("fit", folder / "train.jsonl", "--cost", -1, "--out", folder / "none.json")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["fit", "train.jsonl", "--out", "m.json"], 2, "Missing option '--cost'"),
        (["fit", "train.jsonl", "--cost", "0.1"], 2, "Missing option '--out'"),
        (["fit", "none.jsonl", "--cost", "0.1", "--out", "m"], 2, "there is no 'none.jsonl'"),
        (["eval", "train.jsonl", "train.jsonl"], 1, "error: train.jsonl must be a stopping model"),
        (["fit", "train.jsonl", "--cost", "nan", "--out", "m"], 2, "cost must be a finite number"),
        (["fit", "train.jsonl", "--cost", "0.1", "--out", "no/m"], 2, "a folder that is there"),
        (["explain", "model.json", "train.jsonl"], 0, ""),
    ],
)
def test_exit_codes_are_those_of_the_other_verbs(
    folder: Path, arguments: list[str], code: int, said: str
) -> None:
    """0 fine, 1 the input is at fault, 2 the usage is; no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "orchtrace_otel.cli", "stop", *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_could_not_be_written_is_not_fitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fitting may take long, and its end is a bad place to hear of a folder."""
    monkeypatch.setattr("orchtrace_otel.cli._files.os.access", lambda _, mode: not mode & os.W_OK)
    for name in ("new.json", "model.json"):
        with pytest.raises(click.BadParameter, match="needs a file that can be written, got"):
            invoke("fit", folder / "train.jsonl", "--cost", 0.05, "--out", folder / name)


def test_an_outcome_that_no_run_has_is_told(folder: Path) -> None:
    """The rewards that there are stand beside it."""
    runs = [schema.load(line) for line in (folder / "other.jsonl").read_bytes().splitlines()]
    rewarded = write(folder / "rewarded.jsonl", [replace(one, rewards={"task": 1}) for one in runs])
    note = "no run has a reward 'tsak'; there are: task\n"
    for name, said in (("tsak", note), ("task", "")):
        result = invoke("eval", folder / "model.json", rewarded, "--outcome", name)
        assert (note in result.output) == bool(said), result.output
