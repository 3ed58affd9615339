"""The command line as its user meets it: a process, its output and its exit code."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchtrace_otel import schema

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT.parent / "shared" / "schema" / "example_trace.json"
SCRIPT = Path(sys.executable).with_name("orchtrace")

BARE = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("OTEL_", "ORCHTRACE_", "COLUMNS", "NO_COLOR", "FORCE_COLOR"))
}


def run(
    *arguments: object,
    stdin: str | bytes | None = None,
    cwd: Path | None = None,
    prefix: tuple[str, ...] = ("-m", "orchtrace_otel.cli"),
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing of this process's settings; no traceback may ever show."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, *prefix, *map(str, arguments)],
        input=given,
        capture_output=True,
        cwd=cwd,
        env={**BARE, "PYTHONUTF8": "1", **environ},
        timeout=60,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in out + err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def document(**keys: Any) -> dict[str, Any]:
    """Return a trace of one event."""
    return {
        "trace_id": "r-1",
        "task_id": "q",
        "events": [{"id": "e1", "t": 0, "type": "spawn", "agent": "lead", "to": "scout"}],
        "edges": [],
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 1},
        **keys,
    }


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Run the demo once; return where it ran and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, run("demo", cwd=folder)


def read(file: Path) -> list[schema.Line]:
    """Read a file of traces."""
    return list(schema.read_lines(file))


# --- the command itself ---------------------------------------------------------------


def test_help_names_the_verbs() -> None:
    """A user finds every verb, and each has help of its own."""
    done = run("--help")
    assert done.returncode == 0
    for verb in ("demo", "doctor", "show", "validate"):
        assert f"\n  {verb} " in done.stdout
        told = run(verb, "--help")
        assert (told.returncode, f"Usage: orchtrace {verb}" in told.stdout) == (0, True)


def test_the_script_is_the_module() -> None:
    """`orchtrace` and `python -m orchtrace_otel.cli` are the same."""
    done = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == run("--version").stdout
    assert done.stdout.startswith("orchtrace 0.")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("draw",),
        ("show",),
        ("show", "nowhere.jsonl"),
        ("validate", "nowhere.jsonl"),
        ("demo", "--otlp", "localhost:4318"),
        ("demo", "--out"),
    ],
)
def test_wrong_usage_is_2(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """What was typed wrongly is told on standard error, with exit code 2."""
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr


def test_a_verb_that_is_misspelt_is_told_with_those_like_it() -> None:
    """Whichever release of click is there."""
    said = [run(verb).stderr.splitlines()[-1] for verb in ("shwo", "reward", "xyzzy")]
    assert said[0] == "Error: No such command 'shwo'. Did you mean 'show'?"
    assert said[1] == "Error: No such command 'reward'. Did you mean 'rewards'?"
    assert said[2] == "Error: No such command 'xyzzy'."


@pytest.mark.parametrize("absent", ["click", "rich"])
def test_without_its_extra_the_command_says_how_to_get_it(absent: str) -> None:
    """The line that installs it, exit code 2, and nothing else."""
    hide = f"import sys; sys.modules[{absent!r}] = None"
    code = f"{hide}; from orchtrace_otel.cli import main; main()"
    done = run(prefix=("-c", code))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.rstrip().endswith("run: pip install 'orchtrace-otel[cli]'")


def test_an_impatient_user_gets_no_traceback() -> None:
    """Ctrl-C ends the command with 130, also while it still loads."""
    interrupt = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'rich.console': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from orchtrace_otel.cli import main; main()"
    )
    done = run(prefix=("-c", interrupt))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`orchtrace validate ... | head -1` ends quietly."""
    (tmp_path / "bad.jsonl").write_text("{}\n" * 20_000)
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m orchtrace_otel.cli validate bad.jsonl | head -1"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=BARE,
        check=True,
    )
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


# --- demo -----------------------------------------------------------------------------


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


# --- rewards --------------------------------------------------------------------------


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


# --- show -----------------------------------------------------------------------------


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


# --- validate -------------------------------------------------------------------------


def test_validate_takes_rewards_that_came_late_for_what_they_are(tmp_path: Path) -> None:
    """`validate folder/*.jsonl` names them too; their older parts as well."""
    sound = {"run_id": "r-1", "id": "x", "component": "task", "value": 1.0}
    (tmp_path / "traces.jsonl").write_text(json.dumps(document()) + "\n")
    for name in ("rewards.jsonl", "rewards.000001.jsonl"):
        (tmp_path / name).write_text(json.dumps(sound) + "\n")
    files = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    done = run("validate", *files, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 trace in 3 files: 1 sound\n  2 rewards that came late: sound" in done.stdout
    (tmp_path / "rewards.jsonl").write_text(json.dumps(sound) + '\n{"run_id": "r-1"}\n')
    done = run("validate", *files, cwd=tmp_path)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "rewards.jsonl:2: $ must be a reward with its run_id, came" in said
    assert "1 fault [orchtrace]" in said


def test_a_folder_is_its_traces_whatever_else_jsonl_keeps_there(tmp_path: Path) -> None:
    """Late rewards and what was lost, their older parts as well, are no traces."""
    late = {"run_id": document()["trace_id"], "id": "x", "component": "late", "value": 1.0}
    (tmp_path / "traces.jsonl").write_text(json.dumps(document()) + "\n")
    (tmp_path / "rewards.000001.jsonl").write_text(json.dumps(late) + "\n")
    for name in ("losses.jsonl", "losses.000001.jsonl"):
        (tmp_path / name).write_text('{"lost": 1, "why": "No space left on device"}\n')
    done = run("validate", tmp_path)
    assert (done.returncode, done.stdout) == (0, "1 trace in 1 file: 1 sound\n")
    done = run("show", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "late" in done.stdout
    done = run("convert", tmp_path, "--to", f"jsonl:{tmp_path / 'all'}")
    assert done.returncode == 0
    assert "1 run written" in done.stdout
    assert "1 late reward, 0 faults" in done.stdout


def test_validate_says_every_fault_with_its_place(tmp_path: Path) -> None:
    """File, line, path, what must hold, what came, and who refuses it; then the counts."""
    negative = document(costs={"tokens": -1, "wall_clock_s": 1})
    dangling = document(edges=[{"src": "e1", "dst": "e9", "type": "causal"}])
    stop = {"id": "s", "t": 0, "type": "orchestrator_decision", "agent": "a", "verb": "stop"}
    stops = document(events=[stop, {**stop, "id": "s2"}])
    texts = [document(), negative, dangling, stops]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    done = run("validate", "t.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "t.jsonl:2: $.costs.tokens must be a number, at least 0, came -1 [schema]",
        "t.jsonl:3: $.edges[0].dst must be the id of an event, came 'e9' [artifact]",
        "t.jsonl:4: $.events[1].verb must be the only stop; $.events[0] is one, came 'stop'"
        " [orchtrace]",
        "4 traces in 1 file: 1 sound",
        "  1 fault [schema]: the published schema refuses it",
        "  1 fault [artifact]: the published artifact's checker refuses it",
        "  1 fault [orchtrace]: only orchtrace refuses it",
    ]


def test_validate_reads_standard_input() -> None:
    """`-` stands for standard input."""
    done = run("validate", "-", stdin=json.dumps(document()))
    assert (done.returncode, done.stdout) == (0, "1 trace in 1 file: 1 sound\n")
    for wrong, says in ((b'\xff{"', "must be a JSON document"), (b"\xff\xfe{", "text of UTF-16")):
        done = run("validate", "-", stdin=wrong)
        assert done.returncode == 1
        assert done.stdout.startswith("<stdin>:1: $ must be")
        assert says in done.stdout


def test_validate_writes_json(tmp_path: Path) -> None:
    """A program gets the same in one document."""
    (tmp_path / "bad.jsonl").write_text("{}\n")
    (tmp_path / "good.json").write_text(json.dumps(document(), indent=2))
    done = run("validate", "bad.jsonl", "good.json", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["traces"], report["sound"]) == (1, False, 2, 1)
    assert report["faults"] == {"schema": 6, "artifact": 0, "orchtrace": 0}
    assert [(file["file"], len(file["faults"])) for file in report["files"]] == [
        ("bad.jsonl", 6),
        ("good.json", 0),
    ]
    assert report["files"][0]["faults"][0] == {
        "line": 1,
        "path": "$.trace_id",
        "must": "must be a string of at least 1 character",
        "came": "nothing",
        "rule": "schema",
    }


def test_validate_goes_through_a_folder(tmp_path: Path) -> None:
    """A folder of the exporter means its traces, oldest first, and not its other files."""
    for name in ("traces.jsonl", "traces.000001.jsonl", "traces.000002.jsonl"):
        (tmp_path / name).write_text("{}\n")
    (tmp_path / "rewards.jsonl").write_text('{"run_id": "r"}\n')
    (tmp_path / "losses.jsonl").write_text('{"lost": 1}\n')
    report = json.loads(run("validate", tmp_path, "--json").stdout)
    assert [Path(file["file"]).name for file in report["files"]] == [
        "traces.000001.jsonl",
        "traces.000002.jsonl",
        "traces.jsonl",
    ]


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    """A check in a build must not pass because nothing was written."""
    (tmp_path / "t.jsonl").write_text("")
    done = run("validate", "t.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("t.jsonl: $ must hold a trace, came an empty file")


# --- doctor ---------------------------------------------------------------------------


def test_the_doctor_finds_nothing_wrong_here() -> None:
    """In the environment of these tests everything is found, and nothing is wrong."""
    done = run("doctor")
    assert done.returncode == 0
    for told in ("Python", "opentelemetry-sdk", "langgraph", "autogen", "jsonl", "NO_CONTENT"):
        assert told in done.stdout
    assert "Nothing is wrong." in done.stdout


def test_the_doctor_says_what_is_wrong_and_what_to_do() -> None:
    """What costs data is counted, told in words, and makes the exit code 1."""
    environ = {
        "OTEL_SPAN_LINK_COUNT_LIMIT": "4",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
    }
    done = run("doctor", "--json", **environ)
    report = json.loads(done.stdout)
    wrong = [one for one in report["findings"] if one["level"] == "wrong"]
    assert (done.returncode, report["ok"]) == (1, False)
    assert [(one["name"], one["advice"]) for one in wrong] == [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "start the collector, or correct the address"),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "set it to 128 or more, or unset it"),
    ]
    assert "2 things are wrong" in run("doctor", **environ).stdout


def test_advice_can_be_copied_whole() -> None:
    """However narrow the screen is, no line of the report is cut or broken."""
    done = run("doctor", COLUMNS="40")
    advice = "to send them, set OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318"
    assert f"\n         {advice}\n" in done.stdout


def test_a_setting_of_ours_that_is_wrong_is_told() -> None:
    """A variable that configure() would refuse is told, not raised."""
    done = run("doctor", ORCHTRACE_MAX_SPANS="many")
    assert done.returncode == 1
    assert "ORCHTRACE_MAX_SPANS must be a whole number above 0, got 'many'" in done.stdout


# --- examples -------------------------------------------------------------------------


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
