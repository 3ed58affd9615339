"""`orchtrace demo` writes sound traces, whatever is missing beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.cli.commands import read, run


def test_the_demo_writes_sound_traces_of_all_teams(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """One run for each framework and one of plain functions, all valid and nothing lost."""
    folder, done = demo
    assert done.returncode == 0, done.stderr
    found = read(folder / "orchtrace-data" / "traces.jsonl")
    assert [line.faults for line in found] == [()] * len(found)
    traces = [line.trace for line in found if line.trace is not None]
    assert [trace.system for trace in traces] == ["autogen", "langgraph", "python"]
    assert [trace.flags for trace in traces] == [()] * 3
    for trace in traces:
        assert trace.task_id in done.stdout or trace.stop is not None
        assert f"  {trace.system} " in done.stdout
    assert "orchtrace show orchtrace-data/traces.jsonl --run 1" in done.stdout
    assert "\x1b" not in done.stdout


def test_the_demo_of_plain_functions_is_exact(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """What the plain team does is drawn as it is written, with its causes."""
    folder, _ = demo
    shown = run("show", "orchtrace-data", "--run", "-1", cwd=folder, COLUMNS="80").stdout
    outline = shown.partition("What happened")[2].partition("Rewards")[0].splitlines()[1:-1]
    assert [line[:58].rstrip() for line in outline] == [
        "newsroom begun by user",
        "├─ reporter#1 spawned · 1 turn · 58 tokens",
        "│  └─ tool archive",
        "├─ reporter#2 spawned · 1 turn · 60 tokens",
        "│  └─ tool archive",
        "├─ reporter#3 spawned · 1 turn · 58 tokens",
        "│  └─ tool archive",
        "├─ aggregate ← reporter#1 #2 #3",
        "├─ writer spawned · 1 turn · 76 tokens",
        "├─ checker spawned · 1 turn · 62 tokens ← writer",
        "├─ decide review → revise ← checker",
        "├─ writer delegated to · 1 turn · 85 tokens",
        "├─ checker delegated to · 1 turn · 63 tokens ← writer",
        "├─ decide review → publish ← checker",
        "└─ stop quality_met (checker misses nothing)",
    ]
    assert "  task           1  R1 team outcome" in shown


def test_a_second_demo_appends_the_same(
    demo: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Runs are added, not replaced, and do the same things as before."""
    folder, _ = demo
    first = folder / "orchtrace-data" / "traces.jsonl"
    (tmp_path / "once more").mkdir()
    (tmp_path / "once more" / "traces.jsonl").write_bytes(first.read_bytes())
    done = run("demo", "--out", "once more", cwd=tmp_path)
    assert "orchtrace show 'once more/traces.jsonl' --run 4" in done.stdout

    def told(trace: Any) -> list[tuple[str, str, str]]:
        # What works at once may end in another order, so order is left out.
        return sorted((event.agent, event.verb, str(event.get("to"))) for event in trace.events)

    runs = [told(line.trace) for line in read(tmp_path / "once more" / "traces.jsonl")]
    assert runs[:3] == runs[3:]


def test_the_demo_goes_on_without_a_collector(tmp_path: Path) -> None:
    """A collector that is down costs one line and the exit code, not the traces."""
    done = run("demo", "--otlp", "http://me:secret@127.0.0.1:9", cwd=tmp_path)
    assert done.returncode == 1
    assert "http://127.0.0.1:9: Connection refused" in done.stderr
    assert "spans went" not in done.stdout
    assert "secret" not in done.stderr
    assert len(read(tmp_path / "orchtrace-data" / "traces.jsonl")) == 3


def test_the_demo_says_where_it_cannot_write(tmp_path: Path) -> None:
    """A folder that cannot be made is told before anything runs."""
    (tmp_path / "file").write_text("")
    done = run("demo", "--out", "file/data", cwd=tmp_path)
    assert done.returncode == 2
    assert "must be able to write" in done.stderr


WITHOUT_FRAMEWORKS = """
import importlib.metadata as m
found = m.version
def version(name):
    if name.startswith(("langgraph", "autogen")):
        raise m.PackageNotFoundError(name)
    return found(name)
m.version = version
from orchtrace_otel.cli import main
main()
"""


def test_the_demo_leaves_out_what_is_not_installed(tmp_path: Path) -> None:
    """A missing framework is told with the line that installs it, and is no failure."""
    done = run("demo", cwd=tmp_path, prefix=("-c", WITHOUT_FRAMEWORKS))
    assert done.returncode == 0
    for name in ("autogen", "langgraph"):
        assert f"{name} is left out: " in done.stderr
        assert f"pip install 'orchtrace-otel[{name}]'" in done.stderr
    [line] = read(tmp_path / "orchtrace-data" / "traces.jsonl")
    assert line.trace is not None
    assert line.trace.system == "python"
