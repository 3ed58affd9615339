"""`orchtrace validate` says every fault with its place, and passes over what is no trace."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.cli.commands import document, run


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
