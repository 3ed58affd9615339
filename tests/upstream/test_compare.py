"""The comparison of a suite with itself, traced: what it finds, and what it takes for sound."""

import subprocess
import sys
from pathlib import Path

from tests.upstream.compare import ROOT

SUITE = """
import os

import pytest
from langgraph.graph import END, START, StateGraph


def app():
    graph = StateGraph(dict)
    graph.add_node("a", lambda state: {"x": 1})
    graph.add_edge(START, "a")
    graph.add_edge("a", END)
    return graph.compile()


def test_passes():
    assert app().invoke({}) == {"x": 1}


def test_fails():
    assert app().invoke({}) == {"x": 2}


def test_is_skipped():
    pytest.skip("not here")


def test_notices():
    assert "SUITE_TRACED" not in os.environ


def test_leaves_a_span_open():
    from orchtrace_otel import spans

    spans.start_run("lost") if "SUITE_TRACED" in os.environ else None
"""


def compare(folder: Path, suite: str) -> tuple[int, list[str]]:
    tests = folder / "suite"
    tests.mkdir()
    (tests / "test_graphs.py").write_text(suite)
    command = [sys.executable, "-m", "tests.upstream.compare", "langgraph", str(tests)]
    command += ["--repeats", "1", "--pytest=-p no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_what_notices_us_and_what_is_left_open_is_told(tmp_path: Path) -> None:
    """By the test's name; what fails or is skipped without us may do so traced as well."""
    code, lines = compare(tmp_path, SUITE)
    assert (code, lines[:2]) == (
        1,
        [
            "suite/test_graphs.py::test_notices: passed, traced failed",
            "suite/test_graphs.py::test_leaves_a_span_open: open: invoke_workflow lost",
        ],
    )
    assert lines[-1].endswith("1 end otherwise when traced; 7 spans, 2 traces, 1 faults")


def test_a_folder_without_tests_is_told(tmp_path: Path) -> None:
    """Nothing compared is not soundness."""
    code, lines = compare(tmp_path, "")
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith("no test was run in ")


def test_a_suite_that_cannot_be_traced_is_told_at_once(tmp_path: Path) -> None:
    """As where ours is not installed beside it; no test is run again for that."""
    code, lines = compare(
        tmp_path,
        "import os\nassert 'SUITE_TRACED' not in os.environ\ndef test_passes(): pass\n",
    )
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith("no test was run when traced; is orchtrace-otel installed in ")
