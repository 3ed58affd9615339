"""The examples run offline, as a user runs them, and print what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchtrace_otel import schema

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("name", "promised", "stopped"),
    [
        ("langgraph_supervisor.py", "Lake Garda: 346 m", "information_complete"),
        ("langgraph_decorators.py", "water water", "quality_met"),
    ],
)
def test_an_example_runs_and_writes_a_valid_trace(name, promised, stopped, tmp_path):
    """In an empty folder: exit code 0, no complaint of ours, one valid trace in the file."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    # What an older LangGraph says of its own future is no matter of ours.
    assert "Warning" in done.stderr or done.stderr == ""
    assert "orchtrace failed" not in done.stderr
    assert promised in done.stdout
    (line,) = schema.read_lines(tmp_path / "orchtrace-data" / "traces.jsonl")
    assert not line.faults
    assert line.trace.stop["stop_reason"] == stopped
