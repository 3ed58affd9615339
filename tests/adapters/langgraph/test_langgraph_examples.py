"""The examples run offline, as a user runs them, and print what they promise."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchtrace_otel import schema
from tests.needs import lacking

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("name", "promised", "stopped"),
    [
        ("langgraph_supervisor.py", "Lake Garda: 346 m", "information_complete"),
        ("langgraph_decorators.py", "water water", "quality_met"),
        ("langgraph_map_reduce.py", "the lake is deep: 820 times", "information_complete"),
        (
            "langgraph_counterfactual.py",
            "diver -> writer #1: +0.50\ngeographer -> writer #1: +0.50\n"
            "gossip -> writer #1: +0.00\n8 replays, 0 lost",
            "information_complete",
        ),
        ("langgraph_handoff.py", "The boat leaves at 9:40.", "information_complete"),
    ],
)
def test_an_example_runs_and_writes_a_valid_trace(name, promised, stopped, tmp_path):
    """In an empty folder: exit code 0, no complaint of ours, one valid trace in the file."""
    if lacking(name):
        pytest.skip(f"{name} needs a newer {' and '.join(lacking(name))}, and says so")
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


@pytest.mark.parametrize(
    ("name", "module", "needs"),
    [
        ("langgraph_handoff.py", "langgraph_swarm", "'langchain>=1' langgraph-swarm"),
        (
            "langgraph_human_in_the_loop.py",
            "langgraph.checkpoint.sqlite",
            "langgraph-checkpoint-sqlite",
        ),
    ],
)
def test_an_example_says_what_it_needs(name, module, needs, tmp_path):
    """Where it is not installed: one line that names the command, no traceback and no trace."""
    hide = f"import runpy, sys; sys.modules[{module!r}] = None; runpy.run_path(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", hide, str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"This example needs `pip install {needs}`: ")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_example_of_a_person_in_the_loop_links_its_two_processes(tmp_path):
    """Asked in one process, answered in another: two traces, the second linked to the first."""
    pytest.importorskip("langgraph.checkpoint.sqlite")
    told = []
    for answer in ([], ["yes, but shorter"]):
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / "langgraph_human_in_the_loop.py"), *answer],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert "orchtrace failed" not in done.stderr
        told.append(done.stdout)
    assert told[0].startswith("Asked.")
    assert told[1] == "Sent: Dear council, please build the bridge.\n"
    lines = list(schema.read_lines(tmp_path / "orchtrace-data" / "traces.jsonl"))
    assert not any(line.faults for line in lines)
    asked, answered = (line.trace for line in lines)
    assert [t.stop["stop_reason"] for t in (asked, answered)] == ["paused", "information_complete"]
    assert answered.events[0]["links"] == [{"run": asked.trace_id, "event": asked.events[0].id}]
