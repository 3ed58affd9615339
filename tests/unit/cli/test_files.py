"""Which files a folder's are, and which of their lines others supersede."""

from __future__ import annotations

import json
import os
import random
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from orchtrace_otel import schema
from orchtrace_otel.cli._files import Traces, superseded
from orchtrace_otel.cli._group import group
from orchtrace_otel.collect.index import with_revision
from tests.collecting import recorded

TRACES, _ = recorded(3, random.Random(9))  # noqa: S311


def lines(*revisions: tuple[int, int]) -> bytes:
    """Lines of some runs, each by its number, in some revisions."""
    found = [schema.dump(with_revision(TRACES[run], revision)) for run, revision in revisions]
    return b"".join(line + b"\n" for line in found)


def test_only_lower_revisions_are_superseded_in_whichever_file(tmp_path: Path) -> None:
    """Also where the newer one comes first; what is no trace supersedes nothing."""
    old, new = tmp_path / "traces.000001.jsonl", tmp_path / "traces.jsonl"
    old.write_bytes(lines((0, 0), (1, 2), (2, 0)) + b'{"revision":7}\nno json\n')
    new.write_bytes(lines((1, 1), (0, 1), (2, 0)))
    assert superseded([old, new]) == {(old, 1), (new, 1)}


def test_where_nothing_was_amended_nothing_is_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is there twice stays there twice: no revision says which one counts."""
    file = tmp_path / "traces.jsonl"
    file.write_bytes(lines((0, 0), (0, 0)))
    monkeypatch.setattr("orchtrace_otel.cli._files._revisions", lambda _: pytest.fail("was read"))
    assert superseded([file]) == set()


@pytest.mark.parametrize("verb", ["show", "rewards", "credit", "validate"])
def test_a_pipe_is_read_once(verb: str, tmp_path: Path) -> None:
    """As a shell's `<(...)` gives it: nothing looks ahead for newer revisions."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_bytes, args=(lines((0, 0), (1, 2)),))
    writing.start()
    done = CliRunner().invoke(group, [verb, str(pipe)], standalone_mode=False)
    writing.join()
    assert (done.return_value, done.exception) == (0, None)


def test_a_folder_within_is_no_file_of_traces(tmp_path: Path) -> None:
    """Whatever its name is."""
    (tmp_path / "traces.jsonl").write_bytes(lines((0, 0)))
    (tmp_path / "more.jsonl").mkdir()
    done = CliRunner().invoke(group, ["validate", str(tmp_path)], standalone_mode=False)
    assert (done.return_value, done.output) == (0, "1 trace in 1 file: 1 sound\n")


def test_show_and_validate_take_the_newest_revision_of_a_folder(tmp_path: Path) -> None:
    """Each run is listed once, drawn as it is now, and counted once."""
    (tmp_path / "traces.jsonl").write_bytes(lines((0, 0), (1, 0), (0, 1), (0, 2)))
    (tmp_path / "rewards.jsonl").write_bytes(b"{}\n")
    validated = CliRunner().invoke(group, ["validate", "--json", str(tmp_path)])
    told = json.loads(validated.output)
    assert (told["ok"], told["traces"], told["files"][0]["superseded"]) == (True, 2, 2)
    plain = CliRunner().invoke(group, ["validate", str(tmp_path)]).output
    assert "2 older revisions left out: a newer one is there" in plain
    shown = CliRunner().invoke(group, ["show", str(tmp_path)], env={"COLUMNS": "120"}).output
    assert "The last of 2 runs" in shown
    assert f"run {TRACES[0].trace_id}" in shown


def test_a_folder_without_traces_says_how_some_come_into_it(tmp_path: Path) -> None:
    """In a collector's store by waiting, elsewhere by converting."""
    with pytest.raises(click.BadParameter, match="`orchtrace convert` makes them of Parquet"):
        Traces().convert(str(tmp_path), None, None)
    (tmp_path / ".collect.lock").touch()
    with pytest.raises(click.BadParameter, match="writes a run there --grace seconds after it"):
        Traces().convert(str(tmp_path), None, None)


@pytest.mark.parametrize("elsewhere", ["", "s3://bucket/runs"])
@pytest.mark.parametrize(
    ("words", "must"),
    [
        ("show @", "must be a file or folder of this machine"),
        ("validate @", "must be a file or folder of this machine"),
        ("demo --out @", "must be a path of this machine"),
        ("export . --to hf --out @", "must be a path of this machine"),
        ("stop fit traces.jsonl --cost 1 --out @", "must be a path of this machine"),
    ],
)
def test_what_is_no_place_of_this_machine_is_refused(
    elsewhere: str, words: str, must: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing, as of a variable that is unset, is not the current folder; a URL is none in it."""
    (tmp_path / "traces.jsonl").write_bytes(lines((0, 0)))
    monkeypatch.chdir(tmp_path)
    given = [elsewhere if word == "@" else word for word in words.split()]
    done = CliRunner().invoke(group, given)
    assert done.exit_code == 2
    assert f"{must}, got {elsewhere!r}" in done.output
    assert [file.name for file in tmp_path.iterdir()] == ["traces.jsonl"]


@pytest.mark.parametrize(
    "words",
    [
        "show s3://key:secret@bucket/runs",
        "export . --to hf --out s3://key:secret@bucket/runs",
        "collect --store s3://key:secret@bucket/runs",
        "convert . --to parquet:memory://key:secret@bucket/runs",
        "convert . --to parquet:memory://key:secret@bucket/runs --compact",
        "convert memory://key:secret@bucket/runs --to parquet:memory://key:secret@bucket/runs",
    ],
)
def test_no_password_of_a_url_is_shown(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What commands say goes into logs."""
    (tmp_path / "traces.jsonl").write_bytes(lines((0, 0)))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(group, words.split())
    told = done.output + str(done.exception)
    assert "bucket/runs" in told
    assert "secret" not in told


@pytest.mark.parametrize("words", ["convert @ --to jsonl:more/", "content ls @"])
def test_nothing_is_no_place(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a URL may be given, too."""
    (tmp_path / "traces.jsonl").write_bytes(lines((0, 0)))
    (tmp_path / "key").write_bytes(b"k")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(group, [word.replace("@", "") for word in words.split()])
    assert done.exit_code == 2
    assert "there is no" in done.output
