"""Options of `orchtrace export` as the job gets them, and what it says of them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from orchtrace_otel import schema
from orchtrace_otel.cli import export
from orchtrace_otel.model import Event, Trace


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01.5", 1_500_000_000),
        ("1970-01-01T01:00:00.000001+01:00", 1_000),
        ("2026-11-29T21:00:00.25", 1_795_986_000_250_000_000),
    ],
)
def test_a_time_counts_to_the_microsecond(text: str, nanoseconds: int) -> None:
    """Of no zone it is UTC; a part of a second is not cut off."""
    assert export._time(text, "--since") == nanoseconds


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("speed", "no run has a reward 'speed'; there are: flow, task"),
        ("task", ""),
        ("credit:flow", ""),
    ],
)
def test_a_reward_that_no_run_has_is_told(tmp_path: Path, name: str, said: str) -> None:
    """Those that there are stand beside it: it may be a slip of the pen."""
    event = Event("e", 0, "aggregate", "lead", {"credit": {"flow": 1.0}})
    costs = {"tokens": 0, "wall_clock_s": 1}
    trace = Trace("run", "question", (event,), rewards={"task": 1.0}, costs=costs)
    (tmp_path / "runs.jsonl").write_bytes(schema.dump(trace) + b"\n")
    options = ["--to", "trl-sft", "--reward", name, "--dry-run"]
    found = CliRunner().invoke(export.command, [str(tmp_path / "runs.jsonl"), *options])
    assert [line for line in found.output.splitlines() if "no run has" in line] == [said] * bool(
        said
    )
