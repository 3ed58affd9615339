"""`orchtrace show` and `rewards` find runs, and draw them on any screen."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli.commands import BARE, ROOT, document, read, run

EXAMPLE = ROOT.parent / "shared" / "schema" / "example_trace.json"


def test_rewards_prints_a_line_a_run_and_says_whose_fault_it_is(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """A folder gives one document a run; 1 is the input's fault, 2 that of the usage."""
    folder, _ = demo
    done = run("rewards", "orchtrace-data", "--json", cwd=folder)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [sorted(one) for one in documents]) == (
        0,
        [["metrics", "rewards", "trace_id"]] * 3,
    )
    assert documents[2]["rewards"]["task"] == 1
    assert run("rewards", "-", stdin=json.dumps(document())).returncode == 0
    assert run("rewards", "-", stdin="{}").returncode == 1
    assert run("rewards", "orchtrace-data", "--explain", "odd", cwd=folder).returncode == 2


def test_show_lists_runs_and_draws_the_last(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """Without --run a file of several runs is listed, and its last one drawn."""
    folder, _ = demo
    shown = run("show", "orchtrace-data/traces.jsonl", cwd=folder).stdout
    assert "The last of 3 runs; another one: --run N" in shown
    assert "\nnewsroom · python · planner_executor_critic · task demo-harbour-town\n" in shown


def test_a_run_is_chosen_by_number_or_id(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """A number counts from either end; an id may be cut short; neither may be wrong."""
    folder, _ = demo
    file = folder / "orchtrace-data" / "traces.jsonl"
    ids = [line.trace.trace_id for line in read(file) if line.trace is not None]
    for wanted, run_id in (("2", ids[1]), ("-3", ids[0]), (ids[2], ids[2]), (ids[2][:9], ids[2])):
        done = run("show", file, f"--run={wanted}")
        assert f"\nrun {run_id}\n" in done.stdout
    for wanted in ("4", "-4", "0", "no-such-id", ""):
        done = run("show", file, f"--run={wanted}")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"'{wanted}' is " in done.stderr


def test_a_zero_is_no_number_of_a_run_and_no_beginning_of_its_id(tmp_path: Path) -> None:
    """Though every sixteenth id begins with one."""
    (tmp_path / "t.json").write_text(json.dumps(document(trace_id="0123456789")))
    done = run("show", "t.json", "--run=0", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'0' is none of them" in done.stderr


def test_a_trace_of_others_is_drawn() -> None:
    """The published example, which has instants and edges alone, is drawn whole."""
    if not EXAMPLE.exists():
        pytest.skip("the published example lies beside this repository, not in it")
    shown = run("show", EXAMPLE, COLUMNS="80")
    assert shown.returncode == 0
    for told in ("executor_1 calls browser.search", "planner_1 sends to executor_1 ← e2", "◆"):
        assert told in shown.stdout


@pytest.mark.parametrize("columns", ["40", "80", "120"])
def test_no_line_is_wider_than_the_screen(
    columns: str, demo: tuple[Path, subprocess.CompletedProcess[str]]
) -> None:
    """COLUMNS is obeyed where the output is no terminal."""
    folder, _ = demo
    for number in "123":
        shown = run("show", "orchtrace-data", "--run", number, cwd=folder, COLUMNS=columns).stdout
        assert max(map(len, shown.splitlines())) <= int(columns)


def test_ascii_is_enough(demo: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """Where the output takes no Unicode the drawing is made of ASCII."""
    folder, _ = demo
    environ = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = run("show", "orchtrace-data", cwd=folder, **environ)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "\n`- stop quality_met" in done.stdout
    assert "\\u" not in done.stdout


def on_a_terminal(*arguments: str, cwd: Path) -> str:
    """Run the command with a terminal as its output."""
    ours, theirs = pty.openpty()
    environ = {**BARE, "TERM": "xterm-256color", "COLUMNS": "100", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "orchtrace_otel.cli", *arguments]
    process = subprocess.Popen(command, stdout=theirs, cwd=cwd, env=environ)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 65_536):
            shown += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return shown.decode()


def test_a_terminal_gets_colour_and_a_pipe_none(
    demo: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    """Colour is for terminals; the words are the same."""
    folder, _ = demo
    assert "\x1b[" in on_a_terminal("show", "orchtrace-data", cwd=folder)
    assert "\x1b" not in run("show", "orchtrace-data", cwd=folder).stdout


def test_names_of_strangers_are_only_text(tmp_path: Path) -> None:
    """Markup and control characters in a trace neither colour nor move anything."""
    bad = "[red]x[/red]\x1b[2J\x07\u202e\nline"
    event = {"id": bad, "t": 0, "type": "spawn", "agent": bad, "to": bad, "verb": "stop"}
    event |= {"stop_reason": bad, "stop_detail": bad, "flags": [bad], "activation": bad}
    trace = document(trace_id=bad, task_id=bad, system=bad, events=[event], rewards={bad: 1})
    (tmp_path / "t.json").write_text(json.dumps({**trace, "metrics": {bad: 2}}))
    done = run("show", "t.json", cwd=tmp_path, COLUMNS="120")
    assert done.returncode == 0
    assert "[red]x[/red][2J line" in done.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)


def test_show_passes_over_what_is_no_trace(tmp_path: Path) -> None:
    """A torn line is told, with exit code 1, and the traces beside it are drawn."""
    (tmp_path / "t.jsonl").write_text(json.dumps(document()) + '\n{"trace_id": "r-2", "ev')
    done = run("show", "t.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "run r-1\n" in done.stdout
    assert "t.jsonl:2: $ must be a JSON document" in done.stderr


@pytest.mark.parametrize("text", ["", "\n\n", "nonsense", "{}", "[1]", "\x00\xff", "{" * 100_000])
def test_show_needs_a_trace(text: str, tmp_path: Path) -> None:
    """A file without a trace is told in words, with exit code 1."""
    (tmp_path / "t.jsonl").write_text(text)
    done = run("show", "t.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "t.jsonl" in done.stderr


def test_a_large_run_is_cut_unless_all_is_asked_for(tmp_path: Path) -> None:
    """Thousands of events do not flood the screen."""
    events = [
        {"id": f"e{n}", "t": n, "type": "message", "agent": f"a{n % 300}", "to": "b"}
        for n in range(3000)
    ]
    rewards = {f"r{n}": n for n in range(500)}
    (tmp_path / "t.json").write_text(json.dumps(document(events=events, rewards=rewards)))
    short = run("show", "t.json", cwd=tmp_path).stdout
    assert "and 2,800 lines more: --all" in short
    assert "and 460 lines more: --all" in short
    assert len(short.splitlines()) < 310
    assert len(run("show", "t.json", "--all", cwd=tmp_path).stdout.splitlines()) > 3300


def test_a_file_of_spans_says_what_to_do_with_it(tmp_path: Path) -> None:
    """The verbs that read traces name the one that builds them; a folder without any, too."""
    (tmp_path / "spans").mkdir()
    file = tmp_path / "spans" / "data.json"
    file.write_text('{"resourceSpans": []}')
    for verb in ("show", "rewards", "credit"):
        done = run(verb, file)
        assert (done.returncode, done.stdout) == (1, "")
        assert "these are spans, of which `orchtrace convert` builds runs" in done.stderr
        packed = tmp_path / "traces.jsonl.gz"
        packed.write_bytes(gzip.compress(json.dumps(document()).encode()))
        assert "packed with gzip; unpack it first" in run(verb, packed).stderr
        done = run(verb, file.parent)
        assert (done.returncode, done.stdout) == (2, "")
        assert "`orchtrace convert` makes them" in done.stderr
