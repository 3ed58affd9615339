"""The store, its index and its archive: each run once, and again only when it changed."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from orchtrace_files import _parquet as parquet
from orchtrace_otel import schema
from orchtrace_otel.collect.archive import Archive
from orchtrace_otel.collect.index import Index, with_revision
from orchtrace_otel.collect.metrics import Metrics
from orchtrace_otel.collect.store import Store
from orchtrace_otel.collect.verdicts import Verdict
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.exporter import open_exporter
from orchtrace_otel.model import Reward, Trace
from tests.collecting import lines, recorded

TRACES, _ = recorded(6, random.Random(5))  # noqa: S311


ODD = (
    b"".join(
        orjson.dumps(
            {"trace_id": "t", "task_id": "q", "events": [], "edges": [], "rewards": {}, "costs": {}}
            | change
        )
        + b"\n"
        for change in (
            {"task_id": ["a list"]},
            {"trace_id": {}},
            {"rewards": {"a": [1]}, "trace_id": None},
            {"events": [1]},
            {"edges": 7},
        )
    )
    + b'{"trace_id": "half a pair \\ud800"}\n'
)


def changed(trace: Trace) -> Trace:
    """Return the run with a reward more."""
    return replace(trace, rewards={**trace.rewards, "style": 1.0})


def test_a_run_is_written_once_and_again_when_it_changed(tmp_path: Path) -> None:
    """Revisions count from 0; what changed back is a change as well."""
    store = Store(tmp_path)
    first = TRACES[0]
    assert store.put(first) == "new"
    assert store.put(first) == "unchanged"
    assert store.put(changed(first)) == "amended"
    assert store.put(changed(first)) == "unchanged"
    assert store.put(first) == "amended"
    store.settle()
    store.commit()
    entry = store.index.find(first.trace_id)
    assert entry is not None
    assert entry.revision == 2
    assert store.index.read(entry) == with_revision(first, 2)
    store.close()
    assert [line["events"][-1]["revision"] for line in lines(tmp_path)] == [0, 1, 2]


def test_the_index_answers_by_run_task_and_trace(tmp_path: Path) -> None:
    """Each entry leads to its line, over any number of files."""
    store = Store(tmp_path)
    for trace in TRACES:
        store.put(replace(trace, task_id="q-1" if trace is TRACES[2] else trace.task_id))
    store.commit()
    (entry,) = store.index.of_task("q-1")
    assert entry.run_id == TRACES[2].trace_id
    assert (entry.system, entry.stop_reason) == ("python", "information_complete")
    assert entry.rewards == dict(TRACES[2].rewards)
    assert entry.start_unix_nano == TRACES[2].events[0]["start_unix_nano"]
    assert store.index.of_trace(entry.run_id[:32]) == [entry]
    assert store.index.find("nobody") is None
    assert len(store.index) == len(TRACES)
    assert [one.run_id for one in store.index] == [trace.trace_id for trace in TRACES]
    store.close()


def test_lines_that_the_index_has_not_seen_are_read_at_the_next_start(tmp_path: Path) -> None:
    """As after a kill between the line and the index; half a line at the end is none."""
    store = Store(tmp_path)
    store.put(TRACES[0])
    store.commit()
    store.put(TRACES[1])
    store.put(changed(TRACES[0]))
    store.index.rollback()
    store.close()
    with (tmp_path / "traces.jsonl").open("ab") as file:
        file.write(schema.dump(TRACES[2])[:100])
    store = Store(tmp_path)
    assert {entry.run_id: entry.revision for entry in store.index} == {
        TRACES[0].trace_id: 1,
        TRACES[1].trace_id: 0,
    }
    assert store.put(TRACES[1]) == "unchanged"
    assert store.put(changed(TRACES[0])) == "unchanged"
    assert store.put(TRACES[2]) == "new"
    store.commit()
    entry = store.index.find(TRACES[2].trace_id)
    assert entry is not None
    assert store.index.read(entry) == TRACES[2]
    store.close()
    assert len(lines(tmp_path)) == 4


def test_a_line_that_was_written_before_the_index_failed_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the index cannot be written for a while longer."""
    store = Store(tmp_path)
    full = sqlite3.OperationalError("database or disk is full")

    def fail(*_: object) -> None:
        raise full

    monkeypatch.setattr(store.index, "put", fail)
    monkeypatch.setattr(store.index, "catch_up", fail)
    for _ in range(3):
        with pytest.raises(sqlite3.OperationalError):
            store.put(TRACES[0])
        store.doubt()
    monkeypatch.undo()
    assert store.put(TRACES[0]) == "unchanged"
    store.close()
    assert len(lines(tmp_path)) == 1


@pytest.mark.parametrize("tables", ["jsonl", "parquet"])
def test_what_cannot_be_written_is_not_told_as_lost(
    tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spool keeps it for another try, or another start: a full disk costs a collector none."""
    store = Store(tmp_path, tables)

    def write() -> None:
        store.put(TRACES[0])
        store.settle()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        patch.setattr(parquet, "put", full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                write()
            store.doubt()
        store.close()
    assert not (tmp_path / "losses.jsonl").exists()
    opened: Any = open_exporter(f"{tables}:{tmp_path}/")
    assert opened.complaints() == []


def test_a_file_that_is_renamed_away_is_found_under_its_new_name(tmp_path: Path) -> None:
    """Full files of the writer get a number; what the index knows of them stays true."""
    store = Store(tmp_path)
    store.put(TRACES[0])
    store.commit()
    (tmp_path / "traces.jsonl").rename(tmp_path / "traces.000001.jsonl")
    store.put(TRACES[1])
    store.commit()
    for trace in TRACES[:2]:
        entry = store.index.find(trace.trace_id)
        assert entry is not None
        assert store.index.read(entry) == trace
    store.close()


def test_what_others_write_to_the_folder_is_read_too(tmp_path: Path) -> None:
    """An application may write the same file; its runs are found, and not written again."""
    store = Store(tmp_path)
    store.put(TRACES[0])
    store.commit()
    with (tmp_path / "traces.jsonl").open("ab") as file:
        file.write(schema.dump(TRACES[1]) + b"\nno trace\n" + ODD)
    assert store.put(TRACES[2]) == "new"
    store.commit()
    assert {entry.run_id for entry in store.index} == {trace.trace_id for trace in TRACES[:3]}
    assert store.put(TRACES[1]) == "unchanged"
    store.close()


@pytest.mark.parametrize("sync", [True, False])
def test_lines_are_on_the_disk_before_they_count(
    sync: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is asked for: also those of a file that was full and renamed meanwhile."""
    synced: dict[int, int] = {}

    def fsync(descriptor: int) -> None:
        about = os.fstat(descriptor)
        synced[about.st_ino] = about.st_size

    monkeypatch.setattr(os, "fsync", fsync)
    store = Store(tmp_path, sync=sync)
    store.put(TRACES[0])
    (tmp_path / "traces.jsonl").rename(tmp_path / "traces.000001.jsonl")
    store.put(TRACES[1])
    store.settle()
    wanted = [*tmp_path.glob("traces*.jsonl"), tmp_path]
    assert len(wanted) == 3
    assert synced == ({path.stat().st_ino: path.stat().st_size for path in wanted} if sync else {})
    store.commit()
    store.close()


def test_an_index_is_read_while_another_process_writes_it(tmp_path: Path) -> None:
    """Readers see what was committed."""
    store = Store(tmp_path)
    reader = Index(tmp_path / "index.sqlite", tmp_path)
    store.put(TRACES[0])
    assert len(reader) == 0
    store.commit()
    assert len(reader) == 1
    reader.close()
    store.close()


def test_tables_nobody_knows_are_told(tmp_path: Path) -> None:
    """With the names that there are."""
    with pytest.raises(ConfigError, match="jsonl"):
        Store(tmp_path, "nowhere")


# --- the archive ----------------------------------------------------------------------------------


def test_spans_are_kept_for_as_long_and_as_much_as_was_said(tmp_path: Path) -> None:
    """The oldest go first, where they are too many bytes; all go with age."""
    archive = Archive(tmp_path / "a.sqlite", keep_s=3600, keep_bytes=25)
    for number in range(4):
        archive.keep(f"t{number}", bytes(10))
    archive.keep("t0", b"more")
    archive.commit()
    assert (archive.size, archive.spans("t0")) == (44, [bytes(10), b"more"])
    assert archive.forget(3) == 2
    archive.commit()
    assert [archive.has_spans(f"t{number}") for number in range(4)] == [False, False, True, True]
    assert archive.size == 20
    archive.keep("t3", b"more")
    archive.commit()
    archive.close()
    archive = Archive(tmp_path / "a.sqlite", keep_s=0, keep_bytes=25)
    assert archive.size == 24
    assert archive.forget() == 2
    assert archive.size == 0
    archive.rollback()
    assert archive.size == 24
    archive.close()


def test_a_clock_that_was_set_back_does_not_make_the_newest_spans_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late spans of what was just stored were refused, and those of old runs taken."""
    archive = Archive(tmp_path / "a.sqlite", keep_s=3600, keep_bytes=25)
    real = time.time
    archive.keep("before", bytes(10))
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() - 600)
        for number in range(2):
            archive.keep(f"after {number}", bytes(10))
        assert archive.forget() == 1
    assert not archive.has_spans("before")
    assert archive.size == 20
    archive.close()


def test_a_reward_is_kept_once_and_until_it_is_applied(tmp_path: Path) -> None:
    """Whoever sends it again."""
    archive = Archive(tmp_path / "a.sqlite", keep_s=3600, keep_bytes=25)
    verdict = Verdict("t", "t-1", "", Reward(id="v", component="style", value=1.0))
    assert archive.add(verdict)
    assert not archive.add(verdict)
    assert archive.rewards("t") == [verdict]
    assert archive.unapplied() == ["t"]
    archive.applied("t", ["t-2"])
    assert archive.unapplied() == ["t"]
    archive.applied("t", ["t-1", "t-2"])
    assert archive.unapplied() == []
    archive.close()


# --- its own numbers ----------------------------------------------------------------------------


def test_numbers_are_told_as_prometheus_reads_them() -> None:
    """A help and a type line for each, counters with their label, gauges read when asked."""
    metrics = Metrics()
    metrics.count("spans", "accepted", 2)
    metrics.count("spans", "rejected", 0)
    metrics.gauge("open_traces", lambda: 7)
    text = metrics.text().splitlines()
    assert "# TYPE orchtrace_collect_spans_total counter" in text
    assert 'orchtrace_collect_spans_total{what="accepted"} 2' in text
    assert not any("rejected" in line for line in text)
    assert text[-1] == "orchtrace_collect_open_traces 7"


def test_documents_in_a_store_are_traces(tmp_path: Path) -> None:
    """Whatever revision: the schema and our own rules hold for each line."""
    store = Store(tmp_path)
    for trace in TRACES:
        store.put(trace)
        store.put(changed(trace))
    store.close()
    for line in (tmp_path / "traces.jsonl").read_bytes().splitlines():
        assert schema.check(orjson.loads(line)) == []
