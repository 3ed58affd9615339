"""Input that is bad, missing or of others is told, and costs itself alone."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchtrace_otel.datasets import Group, Job, export
from orchtrace_otel.datasets import files as dataset_files
from orchtrace_otel.datasets.card import card
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Event, Trace
from orchtrace_otel.schema import dump
from tests.recorded import Recorder, write
from tests.unit.datasets.lines import Entry, Lines, exported, rows, run

pytestmark = pytest.mark.usefixtures("lines_is_installed")


def test_half_written_and_foreign_input_is_told_and_the_rest_written(recorder: Recorder) -> None:
    """By file and line; a run that no schema accepts costs itself alone."""
    good = run(recorder, 1)
    folder = recorder.folder / "in"
    write(folder, [good])
    (folder / "other.jsonl").write_bytes(
        b'{"trace_id": 1}\n' + dump(run(recorder, 2)) + b"\n" + dump(run(recorder, 3))[:-40]
    )
    (folder / "rewards.jsonl").write_text('{"run_id": "r"}\n')
    report = exported(recorder, folder)
    assert len(rows(recorder)) == 2
    assert report.bad_count == 3
    where = sorted(Path(bad.where).name for bad in report.bad)
    assert where == ["other.jsonl:1", "other.jsonl:3", "rewards.jsonl:1"]
    assert all("must" in bad.why for bad in report.bad)


def test_content_that_is_gone_costs_its_call_alone(recorder: Recorder) -> None:
    """A ref that the store does not know is no reason to stop."""
    kept, gone = run(recorder, 1), run(recorder, 2)
    document = gone.to_dict()
    document["events"][-1]["turn_records"][0]["content_ref"] = "0" * 32
    folder = write(recorder.folder / "in", [kept, Trace.from_dict(document)])
    report = exported(recorder, folder)
    assert len(rows(recorder)) == 1
    assert report.check.calls == {"content_missing": 1}


def test_without_a_store_a_format_of_content_refuses(recorder: Recorder) -> None:
    """The message says what to name."""
    folder = write(recorder.folder / "in", [run(recorder)])
    report = export(Job(format="lines"), [str(folder)], recorder.folder / "out")
    assert "1 no_content" in str(report.check.refusal)
    assert "--content" in str(report.check.refusal)
    assert not (recorder.folder / "out").exists()


def test_a_record_that_json_cannot_hold_is_dropped_alone(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a surrogate pair is no text; the other records are written."""

    class Odd(Lines):
        def records(self, group: Group) -> Any:
            for place, record in enumerate(super().records(group)):
                data = {"said": "\udc00"} if place == 0 else record.data
                yield replace(record, data=data)

    monkeypatch.setattr(Entry, "load", lambda _: Odd)
    folder = write(recorder.folder / "in", [run(recorder, number) for number in (1, 2)])
    report = exported(recorder, folder)
    assert (report.check.records, report.check.calls) == (1, {"unwritable": 1})


def test_no_runs_at_all_are_refused(tmp_path: Path) -> None:
    """With an empty folder nothing is written."""
    (tmp_path / "in").mkdir()
    report = export(Job(format="lines"), [str(tmp_path / "in")], tmp_path / "out")
    assert report.check.refusal == "lines needs runs, got none"


def test_a_full_disk_leaves_nothing_behind_and_names_the_file(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is full at a record or at the end."""
    folder = write(recorder.folder / "in", [run(recorder)])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for place, name in ((dataset_files.JsonLines, "write"), (dataset_files.os, "fsync")):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, full)
            with pytest.raises(OSError, match="No space left") as raised:
                exported(recorder, folder)
        assert raised.value.filename
        assert sorted(path.name for path in recorder.folder.iterdir()) == ["content", "in"]
    assert exported(recorder, folder).check.records == 1


def test_a_folder_that_cannot_be_made_is_told_by_its_own_name(recorder: Recorder) -> None:
    """Not by that of the draft, of which nobody has heard."""
    folder = write(recorder.folder / "in", [run(recorder)])
    (recorder.folder / "out").touch()
    job = Job(format="lines", content=str(recorder.store))
    out = recorder.folder / "out" / "set"
    must = f"--out must be a folder that can be written, got {str(out)!r} (Not a directory)"
    with pytest.raises(ConfigError, match=f"^{re.escape(must)}; choose another one$"):
        export(job, [folder], out)


def test_a_folder_that_holds_something_is_left_as_it_is(recorder: Recorder) -> None:
    """It must be new or empty."""
    folder = write(recorder.folder / "in", [run(recorder)])
    (recorder.folder / "out").mkdir()
    exported(recorder, folder)
    with pytest.raises(ConfigError, match="new or an empty folder"):
        exported(recorder, folder)
    assert len(rows(recorder)) == 1


def test_a_format_that_is_not_installed_is_told_with_those_that_are() -> None:
    """By their names."""
    with pytest.raises(ConfigError, match="one of the formats lines, got 'odd'"):
        export(Job(format="odd"), [], None)


def test_runs_of_others_without_turns_or_stop_do_no_harm(recorder: Recorder) -> None:
    """Foreign traces have no calls, and are counted as such where calls are needed."""
    foreign = Trace(
        "r", "q", (Event("e", 0, "spawn", "a"),), costs={"tokens": 0, "wall_clock_s": 0}
    )
    report = exported(recorder, write(recorder.folder / "in", [foreign]))
    assert report.check.runs == {"no_calls": 1}


def test_the_card_says_where_it_comes_from_and_under_which_licence(recorder: Recorder) -> None:
    """Counts, models, dates, seed, what was left out; not where the content lies."""
    folder = write(recorder.folder / "in", [run(recorder, 1, reward=1.0), run(recorder, 2)])
    job = Job(format="lines", content=str(recorder.store), validation=0.0, seed=5)
    out = recorder.folder / "out"
    export(job, [str(folder)], out, license_id="CC-BY-4.0")
    card = (out / "README.md").read_text()
    assert card.startswith("---\nlicense: CC-BY-4.0\n")
    for said in ("records, train | 2", "fake-1 (2 calls)", "2026-11-29", "| seed | 5 |"):
        assert said in card
    assert "| 1 | no_reward:" in card
    assert str(recorder.store) not in card + (out / "dataset.json").read_text()


def test_no_name_of_a_model_changes_the_card(recorder: Recorder) -> None:
    """A server says it, and hubs show the page."""
    folder = write(recorder.folder / "in", [run(recorder, 1, reward=1.0)])
    job = Job(format="lines", content=str(recorder.store), validation=0.0)
    export(job, [str(folder)], recorder.folder / "out")
    facts = json.loads((recorder.folder / "out" / "dataset.json").read_text())
    plain = card(facts).splitlines()
    facts["models"] = {"m-1|x\n\n# <img src=x>[y](http://h)": 1}
    changed = set(card(facts).splitlines()) - set(plain)
    assert changed == {"| models | m-1 x # img src=x y (http://h) (1 calls) |"}
