"""`orchtrace content`: listing, collecting, deleting."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner, Result

import orchtrace_otel as orchtrace
from orchtrace_otel import content, spans
from orchtrace_otel.cli.content import command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def called(*args: object) -> Result:
    return CliRunner().invoke(command, [str(one) for one in args], standalone_mode=False)


def test_a_store_is_listed_and_a_run_deleted(turn_on: Callable[..., Any]) -> None:
    """By its trace_id; what another run uses stays, and the rest of the listing says so."""
    on = turn_on()
    runs = [spans.start_run("team"), spans.start_run("team")]
    for at, run in enumerate(runs):
        on.ask(run, [{"role": "user", "content": f"question {at}"}])
    on.recorder.shutdown(10)
    content.use(None)
    ids = [run.id for run in runs if run is not None]
    listed = called("ls", on.where)
    lines = [f"{run_id}  4" for run_id in sorted(ids)]
    assert listed.output.splitlines() == [*lines, "2 runs use 7 documents"]
    held = json.loads(called("ls", on.where, "--json").output)
    assert held == {"documents": 7, "runs": dict.fromkeys(ids, 4)}
    deleted = called("delete", on.where, ids[0])
    assert (deleted.return_value, deleted.output.split(",")[0]) == (0, "dropped 3 documents")
    assert json.loads(called("ls", on.where, "--json").output)["runs"] == {ids[1]: 4}
    assert json.loads(called("gc", on.where, "--json").output) == {
        "documents": 0, "bytes": 0, "segments": 1, "busy": 0}  # fmt: skip


def test_what_is_being_written_is_told(turn_on: Callable[..., Any]) -> None:
    """Another process holds its segment: exit code 1, and what to do."""
    on = turn_on()
    run = spans.start_run("team")
    assert run is not None
    on.ask(run, [{"role": "user", "content": "question"}])
    assert on.recorder.flush(30)
    content.use(None)  # as another process, which cannot end this one's segment
    deleted = called("delete", on.where, run.id)
    assert deleted.return_value == 1
    assert "1 of 1 segments are being written" in deleted.output
    assert called("ls", on.where).output == "0 runs use 0 documents\n"
    on.recorder.shutdown(10)
    assert called("gc", on.where).output.startswith("dropped 4 documents")


@pytest.mark.parametrize("verb", [("ls",), ("gc",), ("delete", "run")])
def test_a_store_that_is_not_there_is_told(
    verb: tuple[str, ...], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt folder is no empty store, whether typed or in the environment."""
    name, *rest = verb
    typed = called(name, tmp_path / "stor", *rest)
    assert isinstance(typed.exception, click.BadParameter)
    assert "there is no folder" in typed.exception.message
    monkeypatch.setenv("ORCHTRACE_STORE", str(tmp_path / "stor"))
    if not rest:
        assert isinstance(called(name).exception, click.BadParameter)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [("ls",), ("gc",), ("delete", "run")])
def test_a_folder_of_something_else_is_told(verb: tuple[str, ...], tmp_path: Path) -> None:
    """Of traces, say: an empty store would be a wrong answer, one made there litter."""
    (tmp_path / "traces.jsonl").touch()
    result = called(verb[0], tmp_path, *verb[1:])
    assert isinstance(result.exception, click.BadParameter)
    assert "is no store of content, which has segments/ or key in it" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["traces.jsonl"]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    """Nothing is written anywhere."""
    (tmp_path / "segments").mkdir()
    result = called("delete", tmp_path, "../x")
    assert isinstance(result.exception, orchtrace.ConfigError)
    with pytest.raises(orchtrace.ConfigError):
        raise result.exception
    assert [path.name for path in tmp_path.rglob("*")] == ["segments"]
