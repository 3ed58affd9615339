"""`orchtrace export` and `convert` as their user meets them: output, files and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchtrace_otel.datasets import known_writers
from orchtrace_otel.model import Trace
from tests.e2e.cli.commands import run
from tests.recorded import Recorder, many, siblings, write
from tests.unit.dialects.stories import Span, chat, request


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Recorder, list[Trace]]:
    """A dozen runs with content, in `in`."""
    recorder = Recorder(tmp_path)
    traces = [*many(recorder, 11, tasks=4), siblings(recorder, 50)]
    write(tmp_path / "in", traces)
    return recorder, traces


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the demo leaves behind while content is captured."""
    folder = tmp_path_factory.mktemp("demo")
    content = {
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY",
        "ORCHTRACE_STORE": "content",
    }
    assert run("demo", "--out", "data", cwd=folder, **content).returncode == 0
    return folder


@pytest.mark.parametrize("name", sorted(known_writers()))
def test_the_demos_runs_go_through_each_format(demo: Path, name: str) -> None:
    """Records, or a refusal that says why: the scripted models give no token ids, for one."""
    arguments = ("--to", name, "data", "--content", "content", "--dry-run", "--json")
    done = run("export", *arguments, cwd=demo)
    check = json.loads(done.stdout)["check"]
    assert done.returncode == int(check["refuses"] is not None)
    assert check["records"] > 0 or check["refuses"]
    if name == "trl-sft":
        assert check["records"] >= 18


def test_an_export_is_a_folder_and_says_what_is_in_it(recorded, tmp_path: Path) -> None:
    """The counts that it prints are those of the files."""
    done = run(
        *("export", "--to", "trl-sft", "in", "--content", "content", "--out", "out"),
        *("--license", "MIT", "--validation", "0.5"),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 runs of 5 tasks read" in done.stdout
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert {"README.md", "dataset.json", "lineage.jsonl"} <= set(names)
    facts = json.loads((tmp_path / "out" / "dataset.json").read_text())
    assert f"fingerprint {facts['fingerprint']}" in done.stdout
    assert (facts["license"], facts["check"]["records"]) == ("MIT", 36)


def test_a_dry_run_shows_the_check_and_writes_nothing(recorded, tmp_path: Path) -> None:
    """As text, and as JSON for a program; the store may come from the environment."""
    arguments = ("export", "--to", "trl-dpo", "in", "--dry-run")
    done = run(*arguments, cwd=tmp_path, ORCHTRACE_STORE="content")
    assert done.returncode == 0
    assert "records would be written" in done.stdout
    assert "calls left out: no_margin" in done.stdout
    done = run(*arguments, "--json", cwd=tmp_path, ORCHTRACE_STORE="content")
    check = json.loads(done.stdout)["check"]
    assert check["records"] > 0
    assert check["dropped_calls"]["no_margin"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["content", "in"]


def test_a_refusal_says_why_and_ends_with_1(recorded, tmp_path: Path) -> None:
    """Nothing is written."""
    done = run("export", "--to", "trl-sft", "in", "--out", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert "trl-sft cannot be made of these runs: 36 no_content" in done.stderr
    assert not (tmp_path / "out").exists()


def test_bad_lines_are_told_and_the_rest_is_written(recorded, tmp_path: Path) -> None:
    """The exit code says that some input was at fault."""
    (tmp_path / "in" / "cut.jsonl").write_text('{"trace_id": "r", "ev')
    done = run(
        *("export", "--to", "trl-sft", "in", "--content", "content", "--out", "out"), cwd=tmp_path
    )
    assert done.returncode == 1
    assert "in/cut.jsonl:1: $ must be a JSON document, written to its end" in done.stderr
    assert "36 records written" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--to", "odd", "--dry-run"), "must have one of the formats"),
        (("--to", "trl-sft"), "say where to with --out DIR, or --dry-run"),
        (("--to", "trl-sft", "--dry-run", "--since", "soon"), "needs a time such as"),
        (("--to", "trl-sft", "--dry-run", "-s", "x"), "needs NAME=VALUE"),
        (("--to", "trl-sft", "--dry-run", "-s", "x=1"), "must be left out, for it has none"),
        (("--to", "verl", "--dry-run", "-s", "x=1"), "settings of verl must be among agent_loop"),
        (("--to", "trl-dpo", "--dry-run", "-s", "cost_ratio=0.5"), "must be at least 1, or 0"),
        (("--to", "trl-dpo", "--dry-run", "--margin", "-1"), "margin must be at least 0"),
        (
            ("--to", "trl-sft", "--dry-run", "--min-reward", "2", "--max-reward", "1"),
            "--min-reward: must not be above --max-reward",
        ),
        (("--to", "trl-sft", "--dry-run", "--validation", "2"), "must be between 0 and 1"),
        (("--to", "trl-sft", "--dry-run", "--engine", "steam"), "--engine must be one of local"),
        (("--to", "trl-sft", "--out", "in"), "--out must be a new or an empty folder"),
    ],
)
def test_a_wrong_usage_says_what_must_hold(recorded, tmp_path: Path, arguments, says) -> None:
    """And ends with 2."""
    done = run("export", "in", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())


def test_a_folder_that_cannot_be_replaced_is_refused_before_anything_is_read(
    recorded, tmp_path: Path
) -> None:
    """The folder that somebody stands in keeps its place, and so does a mounted one."""
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run("export", "../in", "--to", "trl-sft", "--out", ".", cwd=empty)
    assert done.returncode == 2
    assert "choose a folder inside it" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert [*empty.iterdir()] == []


def test_late_rewards_of_no_run_are_told(recorded, tmp_path: Path) -> None:
    """They are rewards of runs that lie elsewhere, or of none: nobody gets them."""
    reward = {"run_id": "gone", "id": "x", "component": "task", "value": 1.0}
    words = {"family": "R1", "unit": "team", "estimator": "outcome", "provisional": False}
    (tmp_path / "in" / "rewards.jsonl").write_text(json.dumps({**reward, **words}) + "\n")
    arguments = ("--to", "trl-sft", "--content", "content", "--out", "out")
    done = run("export", "in", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 late reward (1 of no run here), 0 faults" in done.stdout
    assert "| late rewards of no run in it | 1 |" in (tmp_path / "out" / "README.md").read_text()


def test_runs_go_to_parquet_and_back_unchanged(recorded, tmp_path: Path) -> None:
    """Small files are joined on the way, and a data set of either is the same."""
    _, traces = recorded
    done = run(*("convert", "in", "--to", "parquet:lake?max_events=30", "--compact"), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 runs written to parquet:lake" in done.stdout
    assert "files joined into" in done.stdout
    done = run("convert", "lake", "--to", "jsonl:back.jsonl", cwd=tmp_path)
    assert done.returncode == 0
    back = [Trace.from_json(line) for line in (tmp_path / "back.jsonl").read_text().splitlines()]
    assert {one.trace_id: one for one in back} == {one.trace_id: one for one in traces}
    prints = []
    for number, source in enumerate(("in", "lake", "back.jsonl")):
        arguments = ("export", "--to", "trl-kto", source, "--content", "content")
        run(*arguments, "--out", f"out-{number}", cwd=tmp_path)
        facts = json.loads((tmp_path / f"out-{number}" / "dataset.json").read_text())
        prints.append(facts["fingerprint"])
    assert len(set(prints)) == 1


def test_runs_that_a_url_does_not_take_wait_and_are_told(recorded, tmp_path: Path) -> None:
    """Nobody listens: they are in the spool, and the command says so, to a script as well."""
    target = "http:http://127.0.0.1:9/runs#spool=spool"
    done = run("convert", "in", "--to", target, cwd=tmp_path)
    assert done.returncode == 1
    assert "12 runs given to http:" in done.stdout
    assert "bytes wait in" in " ".join(done.stderr.split())
    waiting = b"".join(path.read_bytes() for path in (tmp_path / "spool").rglob("*.jsonl"))
    assert waiting.count(b"\n") == 12


def test_what_others_lost_in_a_place_is_no_fault_of_who_writes_there(
    recorded, tmp_path: Path
) -> None:
    """`doctor` tells it."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "losses.jsonl").write_text('{"lost": 3, "why": "No space left"}\n')
    done = run("convert", "in", "--to", "parquet:lake", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "12 runs written" in done.stdout
    done = run("convert", "lake", "--to", "jsonl:back.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    done = run("doctor", cwd=tmp_path, ORCHTRACE_EXPORTERS="parquet:lake")
    assert done.returncode == 1
    assert "3 runs were lost (No space left)" in " ".join(done.stdout.split())


def test_a_file_that_holds_no_run_is_told(tmp_path: Path) -> None:
    """Nothing was converted, which whoever calls it in a script would not see otherwise."""
    (tmp_path / "empty.jsonl").touch()
    done = run("convert", "empty.jsonl", "--to", "jsonl:copy/", cwd=tmp_path)
    assert (done.returncode, "error: no run in empty.jsonl" in done.stderr) == (1, True)


def test_spans_of_which_no_run_came_are_told(tmp_path: Path) -> None:
    """They could be read: what they lack is somebody at work."""
    call = Span(1, None, "chat loaf-1", 0, 5, chat(1, 1))
    (tmp_path / "spans.json").write_bytes(request([call]))
    done = run("convert", "spans.json", "--to", "jsonl:copy/", cwd=tmp_path)
    why = "its spans tell of no agent, workflow or tool at work"
    assert (done.returncode, done.stderr) == (1, f"error: no run in spans.json; {why}\n")


def test_traces_come_from_standard_input_too(recorded, tmp_path: Path) -> None:
    """`-` is a file like others."""
    data = (tmp_path / "in" / "traces.jsonl").read_bytes()
    done = run("convert", "-", "--to", "jsonl:copy.jsonl", stdin=data, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "copy.jsonl").read_bytes() == data


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("in", "--to", "otlp:http://localhost:1"), "traces cannot be turned into spans again"),
        (("in", "--to", "odd:x"), "exporters need the form 'name:target'"),
        (("in", "--to", "jsonl:x.jsonl", "--compact"), "a target with files to join"),
        (("nothing", "--to", "jsonl:x.jsonl"), "there is no 'nothing'"),
        (("in", "--to", "jsonl:in/"), "must be another place than IN"),
        (("in/traces.jsonl", "--to", "jsonl:in?max_bytes=9"), "must be another place than IN"),
        (("in", "--to", "parquet:./in"), "must be another place than IN"),
        (("in", "--to", "jsonl:in/more.jsonl"), "must be another place than IN"),
    ],
)
def test_a_wrong_target_says_what_must_hold(recorded, tmp_path: Path, arguments, says) -> None:
    """And ends with 2, and nothing is written."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    done = run("convert", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")} == before
    assert says in " ".join(done.stderr.split())


def test_a_full_disk_ends_with_the_name_of_the_file(recorded, tmp_path: Path) -> None:
    """A limit on the size of files stands for it; nothing half-written is left."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "sys.argv[0] = 'orchtrace'; from orchtrace_otel.cli import main; main()"
    )
    arguments = ("export", "--to", "trl-sft", "in", "--content", "content", "--out", "out")
    done = run(*arguments, cwd=tmp_path, prefix=("-c", code))
    assert done.returncode == 1
    assert "set TMPDIR to a place with room" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["content", "in"]


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGKILL", -9)])
def test_an_export_that_is_ended_keeps_nothing_that_hinders_the_next(
    recorded, tmp_path: Path, name: str, code: int
) -> None:
    """Terminated it leaves nothing; killed a draft, which the next takes away, and no more."""
    ends = (
        "import os, signal, sys; from orchtrace_otel.datasets import engine;"
        f"engine.records = lambda *_: os.kill(os.getpid(), signal.{name});"
        "sys.argv[0] = 'orchtrace'; from orchtrace_otel.cli import main; main()"
    )
    arguments = ("export", "--to", "trl-sft", "in", "--content", "content", "--out", "out")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = run(*arguments, cwd=tmp_path, prefix=("-c", ends), TMPDIR=str(scratch))
    assert (done.returncode, [*scratch.iterdir()]) == (code, [])
    drafts = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert len(drafts) == (name == "SIGKILL")
    done = run(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
