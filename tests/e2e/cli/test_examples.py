"""Examples of plain functions run offline and leave what they promise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.cli.commands import ROOT, read, run


@pytest.mark.parametrize(
    "name",
    [
        "plain_team",
        "plain_parallel",
        "plain_stream",
        "plain_late_reward",
        "plain_counterfactual",
    ],
)
def test_an_example_of_plain_functions_runs(name: str, tmp_path: Path) -> None:
    """Each runs offline and leaves a sound trace without flags."""
    done = run(cwd=tmp_path, prefix=(str(ROOT / "examples" / f"{name}.py"),))
    assert (done.returncode, done.stderr) == (0, "")
    [line] = read(tmp_path / "orchtrace-data" / "traces.jsonl")
    assert line.trace is not None
    assert (line.faults, line.trace.flags) == ((), ())
    rewards = tmp_path / "orchtrace-data" / "rewards.jsonl"
    assert rewards.exists() == (name == "plain_late_reward")


def test_the_example_of_training_data_makes_a_pair_with_its_lineage(tmp_path: Path) -> None:
    """The best answer beside the worst, and the two runs that they come from."""
    done = run(cwd=tmp_path, prefix=(str(ROOT / "examples" / "plain_training_data.py"),))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 pair; left out: {'no_margin': 1}")
    pair = json.loads((tmp_path / "orchtrace-dpo" / "train.jsonl").read_text())
    assert pair["chosen"][0]["content"] == "At noon, half a foot above the mark."
    assert pair["rejected"][0]["content"] == "The tide goes up and down every day."
    traces = [line.trace for line in read(tmp_path / "orchtrace-data" / "traces.jsonl")]
    good = next(trace.trace_id for trace in traces if trace and trace.rewards["task"] == 1)
    bad = next(trace.trace_id for trace in traces if trace and trace.rewards["task"] == 0)
    assert (pair["run_id"], pair["rejected_run_id"]) == (good, bad)
