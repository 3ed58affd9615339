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
    ("option", "word", "said"),
    [
        ("--reward", "speed", "no run has a reward 'speed'; there are: flow, task"),
        ("--reward", "task", ""),
        ("--reward", "credit:flow", ""),
        ("--agent", "laed", "no run has an agent 'laed'; there are: lead"),
        ("--agent", "lead", ""),
        ("--stop-reason", "done", "no run has a stop reason 'done'; there are: verified"),
        ("--stop-reason", "verified", ""),
        ("--topology", "swram", "no run has a topology 'swram'; there are: swarm"),
        ("--topology", "swarm", ""),
        # Nobody has a role here, and there is nothing to name.
        ("--role", "critic", ""),
    ],
)
def test_what_no_run_has_is_told(tmp_path: Path, option: str, word: str, said: str) -> None:
    """What there is stands beside it: it may be a slip of the pen."""
    event = Event("e", 0, "aggregate", "lead", {"credit": {"flow": 1.0}})
    keys = {"verb": "stop", "stop_reason": "verified"}
    stop = Event("s", 1, "orchestrator_decision", "lead", keys)
    costs = {"tokens": 0, "wall_clock_s": 1}
    rewards = {"task": 1.0}
    trace = Trace("run", "question", (event, stop), rewards=rewards, costs=costs, topology="swarm")
    (tmp_path / "runs.jsonl").write_bytes(schema.dump(trace) + b"\n")
    options = ["--to", "trl-sft", option, word, "--dry-run"]
    found = CliRunner().invoke(export.command, [str(tmp_path / "runs.jsonl"), *options])
    told = [line for line in found.output.splitlines() if "no run has" in line]
    assert told == [said] * bool(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "--min-reward 2 --max-reward 1",
            "--min-reward: must not be above --max-reward, got 2.0 and 1.0",
        ),
        ("--since 2026-12 --until 2026-11-01", "--since: needs a time such as 2026-11-29"),
        ("--since 2026-12-01 --until 2026-11-01", "--until, got 2026-12-01 and 2026-11-01"),
        ("--max-reward nan", "nan is no number"),
    ],
)
def test_what_is_wrong_with_options_is_said_in_their_words(options: str, said: str) -> None:
    """Not in those of the job that is made of them."""
    found = CliRunner().invoke(export.command, [".", "--to", "hf", "--dry-run", *options.split()])
    assert found.exit_code == 2
    assert said in found.output
