"""The examples and the demo run offline and say what they promise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchtrace_otel import adapter, schema

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("name", "promised"),
    [
        ("autogen_team.py", "critic: Deep enough. DONE"),
        ("autogen_flow.py", "geologist return --aggregate--> GraphFlow aggregate"),
        ("autogen_selector.py", "chose technician among technician, lawyer, by 1 LLM turn"),
        (
            "autogen_swarm.py",
            "concierge hands over to waiter\nwaiter hands over to guest\n"
            "stopped: handoff by HandoffTermination\ngoes on from another run\n"
            "stopped: information_complete by TextMentionTermination",
        ),
        (
            "autogen_magentic.py",
            "coder: is_progress_being_made\nreplan: nothing is true\n"
            "reader: is_progress_being_made\n"
            "final_answer: is_request_satisfied, is_progress_being_made\n"
            "stopped: information_complete",
        ),
        (
            "autogen_counterfactual.py",
            "diver -> broadcast #1: +0.50, less its delay +0.50\n"
            "geographer -> broadcast #1: +0.50, less its delay +0.50\n"
            "gossip -> broadcast #1: +0.00, less its delay +0.00\n16 replays, 0 lost",
        ),
        ("autogen_nested.py", "  editorial spawn desk\n    desk spawn newsroom\n      newsroom"),
    ],
)
def test_example_runs(name, promised, tmp_path) -> None:
    """Each example runs in an empty folder and prints what its docstring promises."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert promised in done.stdout
    for file in (tmp_path / "orchtrace-data").glob("*.jsonl"):
        for line in file.read_text(encoding="utf-8").splitlines():
            assert list(schema.check(json.loads(line))) == []


def test_demo_is_the_same_each_time(traced, read) -> None:
    """The demo's team gives the same trace twice, with tools, tokens and a typed stop."""
    for _ in range(2):
        adapter.load("autogen").demo()
    first, second = traced.traces
    assert sorted(line.split(" ", 1)[1].split(" <- ")[0] for line in read.outline(first)) == sorted(
        line.split(" ", 1)[1].split(" <- ")[0] for line in read.outline(second)
    )
    assert first.costs["tokens"] == second.costs["tokens"] == 699
    assert first.costs["tool_calls"] == 3
    assert first.stop["stop_reason"] == "information_complete"
    assert read.triggers(first) == [
        ("planner", ("user",)),
        ("analyst", ("planner",)),
        ("reviewer", ("analyst",)),
        ("planner", ("reviewer",)),
        ("analyst", ("planner",)),
        ("reviewer", ("analyst",)),
    ]
