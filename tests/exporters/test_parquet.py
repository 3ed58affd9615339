"""Parquet: whole runs in complete files, whoever writes, dies, joins them or runs out of disk."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchtrace_files import ParquetExporter, compact, open_parquet
from orchtrace_files import _parquet as parquet
from orchtrace_otel import _guard
from orchtrace_otel.content.folders import LocalFolder
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.settings import Settings
from orchtrace_otel.tables import reading
from orchtrace_otel.tables.lake import parts, read_part
from orchtrace_otel.tables.reading import Bad, Late, read
from orchtrace_otel.tables.spool import Spool
from orchtrace_otel.testing.conformance_exporters import ExporterConformance
from tests.recorded import Recorder, many


class TestParquet(ExporterConformance):
    """The exporter of tables keeps every promise that an exporter makes."""

    can_break = True

    def open(self, folder):
        return open_parquet(f"{folder}/")

    def read(self, folder):
        items = list(read(str(folder)))
        assert not [item for item in items if isinstance(item, Bad)]
        return [item.to_dict() for item in items if isinstance(item, Trace)]

    def read_rewards(self, folder):
        late = [item for item in read(str(folder)) if isinstance(item, Late)]
        return [{"run_id": item.run_id, **item.reward.to_dict()} for item in late]

    def break_target(self, folder):
        for name in ("events", "runs"):
            (folder / name).exists() and (folder / name).rmdir()
            (folder / name).touch()


@pytest.fixture
def traces(tmp_path: Path) -> list[Trace]:
    """A dozen runs of three calls each."""
    return many(Recorder(tmp_path / "recorded"), 12, tasks=4)


def filled(folder: Path, traces: list[Trace], query: str = "") -> Path:
    """A lake with these runs."""
    exporter = open_parquet(f"{folder}{query}")
    for trace in traces:
        exporter.export(trace)
    exporter.shutdown()
    return folder


def found(folder: Path) -> dict[str, Trace]:
    """The runs that a lake gives back."""
    return {item.trace_id: item for item in read(str(folder)) if isinstance(item, Trace)}


def by_id(traces: list[Trace]) -> dict[str, Trace]:
    """Runs by their id."""
    return {trace.trace_id: trace for trace in traces}


def failing(number: int) -> Callable[..., None]:
    """Return a write that fails, with an error of the system's."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


def test_duckdb_polars_and_pandas_read_every_table(tmp_path: Path, traces: list[Trace]) -> None:
    """Each finds the same rows, joins them by run, and sees the date as a column."""
    lake = filled(tmp_path / "lake", traces)
    for table in ("runs", "events", "edges", "turns", "rewards", "decisions"):
        files = f"{lake}/{table}/**/*.parquet"
        counted = "select count(*), count(distinct run_id), min(date) from read_parquet(?)"
        rows, runs, date = duckdb.execute(counted, [files]).fetchone()
        lazy = pl.scan_parquet(files, hive_partitioning=True).collect()
        frame = pd.read_parquet(lake / table)
        assert (lazy.height, len(frame)) == (rows, rows)
        assert (runs, frame["run_id"].nunique()) == (12, 12)
        assert str(date) == str(lazy["date"][0]) == str(frame["date"][0])
    query = """
        select turns.agent, count(*), bool_and(map_extract(runs.rewards, 'task')[1] <= 1)
        from read_parquet(?) turns join read_parquet(?) runs using (run_id)
        group by all order by all
    """
    files = [f"{lake}/{table}/**/*.parquet" for table in ("turns", "runs")]
    answer = duckdb.execute(query, files).fetchall()
    assert answer == [("critic", 12, True), ("planner", 12, True), ("worker", 12, True)]


def test_the_files_hold_no_type_that_spark_lacks(tmp_path: Path, traces: list[Trace]) -> None:
    """Spark reads no unsigned integers, no nanoseconds, no null columns and no large lists."""

    def flat(kind: pa.DataType) -> list[pa.DataType]:
        if pa.types.is_map(kind):
            return [kind.key_type, kind.item_type]
        return [kind.value_type] if pa.types.is_list(kind) else [kind]

    lake = filled(tmp_path / "lake", traces)
    kinds = {
        str(kind)
        for file in lake.rglob("*.parquet")
        for field in pq.read_schema(file)
        for kind in flat(field.type)
    }
    assert kinds <= {"string", "int64", "int32", "double", "float", "bool"}


def test_content_is_in_the_turns_only_where_it_was_asked_for(tmp_path: Path, traces) -> None:
    """By default a row refers to content; `?content=` copies it in, token ids too."""
    lake = filled(tmp_path / "lake", traces)
    frame = pl.read_parquet(f"{lake}/turns/**/*.parquet")
    assert frame["messages"].null_count() == frame.height
    assert frame["content_ref"].null_count() == 0

    store = tmp_path / "recorded" / "content"
    full = filled(tmp_path / "full", traces, f"?content={store}")
    frame = pl.read_parquet(f"{full}/turns/**/*.parquet")
    assert frame["messages"].null_count() == 0
    assert json.loads(frame["messages"][0])[0]["role"] == "system"
    assert frame["response_ids"].list.len().to_list() == frame["logprobs"].list.len().to_list()
    assert found(full) == by_id(traces)


def test_runs_lie_under_the_day_on_which_they_began(tmp_path: Path, traces: list[Trace]) -> None:
    """In UTC; those that do not say it lie under `unknown`."""
    begun = traces[0].events[0].keys
    late = {**begun, "start_unix_nano": begun["start_unix_nano"] + 86_400 * 10**9}
    bare = {key: value for key, value in begun.items() if key != "start_unix_nano"}
    first = traces[0].events[0]
    changed = [
        Trace(
            f"{number}",
            "q",
            (type(first)(first.id, first.t, first.type, first.agent, keys),),
            costs={"tokens": 0, "wall_clock_s": 0},
        )
        for number, keys in enumerate((begun, late, bare))
    ]
    lake = filled(tmp_path / "lake", changed)
    days = sorted(path.name for path in (lake / "runs").iterdir())
    assert days == ["date=2026-11-29", "date=2026-11-30", "date=unknown"]


def test_parts_are_written_when_they_are_large_and_when_they_are_old(
    tmp_path: Path, traces: list[Trace]
) -> None:
    """Nobody has to flush for it."""
    exporter = ParquetExporter(LocalFolder(tmp_path / "large"), max_events=20)
    for trace in traces:
        exporter.export(trace)
    assert len(list(parts(LocalFolder(tmp_path / "large")))) >= 5

    exporter = ParquetExporter(LocalFolder(tmp_path / "old"), max_seconds=0.01)
    exporter.export(traces[0])
    exporter._timer.join(60)
    assert found(tmp_path / "old") == by_id(traces[:1])


def test_where_no_thread_can_start_a_run_is_no_loss(
    tmp_path: Path, traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter on its way out starts none to wait for the next part: the end writes."""

    def refuse(self: threading.Thread) -> None:
        msg = "can't create new thread at interpreter shutdown"
        raise RuntimeError(msg)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    exporter = open_parquet(str(tmp_path))
    for trace in traces:
        exporter.export(trace)
    exporter.shutdown()
    assert found(tmp_path) == by_id(traces)


def test_a_killed_writer_leaves_whole_runs_only(tmp_path: Path, traces: list[Trace]) -> None:
    """Killed between any two files of a part, its runs are not there at all, and nothing is bad."""
    lake = filled(tmp_path / "lake", traces[:3])
    code = f"""
        import os, signal, sys
        sys.path[:0] = {sys.path!r}
        from orchtrace_files import _parquet as parquet, open_parquet
        from orchtrace_otel.schema import read_lines
        puts, real = [], parquet.put
        def put(folder, name, data):
            if len(puts) == int(sys.argv[1]):
                os.kill(os.getpid(), signal.SIGKILL)
            puts.append(name)
            real(folder, name, data)
        parquet.put = put
        exporter = open_parquet({str(lake)!r})
        puts.clear()
        for line in read_lines({str(tmp_path / "in.jsonl")!r}):
            exporter.export(line.trace)
        exporter.flush()
    """
    (tmp_path / "in.jsonl").write_text("".join(f"{one.to_json()}\n" for one in traces[3:]))
    for files in (2, 4, 5):
        command = [sys.executable, "-c", textwrap.dedent(code), str(files)]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        items = list(read(str(lake)))
        assert not [item for item in items if isinstance(item, Bad)]
        assert found(lake) == by_id(traces[:3])


def revised(trace: Trace, revision: int) -> Trace:
    """The same run with a change."""
    stop = trace.events[-1]
    keys = {**stop.keys, "revision": revision, "flags": [f"change-{revision}"]}
    return replace(trace, events=(*trace.events[:-1], replace(stop, keys=keys)))


@pytest.mark.parametrize("query", ["", "?max_events=1"], ids=["one-part", "compacted"])
def test_of_a_run_that_changed_a_part_has_the_highest_revision(
    tmp_path: Path, traces: list[Trace], query: str
) -> None:
    """In whatever order they came, written together or joined later; other runs stay whole."""
    lake = tmp_path / "lake"
    first, second, third = traces[:3]
    given = [first, revised(first, 2), second, revised(first, 1), third, revised(third, 1)]
    filled(lake, given, query)
    wanted = by_id([revised(first, 2), second, revised(third, 1)])
    with Spool() as spool:
        assert not list(spool.take(read(str(lake))))
        assert by_id(list(spool.runs())) == wanted
    compact(str(lake))
    assert len([*lake.glob("runs/*/*.parquet")]) == 1
    assert found(lake) == wanted


def test_several_processes_write_one_lake(tmp_path: Path, traces: list[Trace]) -> None:
    """Each part has a name of its own, and nothing is overwritten."""
    lake = tmp_path / "lake"
    children = []
    for part in (traces[:4], traces[4:8], traces[8:]):
        child = os.fork()
        if child == 0:
            filled(lake, part, "?max_events=10")
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert found(lake) == by_id(traces)


def test_a_forked_child_does_not_write_what_its_parent_gathered(tmp_path: Path, traces) -> None:
    """Each run is written once, by who took it."""
    exporter = open_parquet(str(tmp_path / "lake"))
    exporter.export(traces[0])
    child = os.fork()
    if child == 0:
        exporter.export(traces[1])
        exporter.shutdown()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    exporter.shutdown()
    with Spool() as spool:
        assert not list(spool.take(read(str(tmp_path / "lake"))))
        assert (spool.counts.runs, spool.counts.superseded) == (2, 0)


def test_what_a_parent_lost_is_noted_by_it_alone(tmp_path: Path) -> None:
    """A child of a fork begins with no losses, as it does with nothing gathered."""
    exporter = open_parquet(str(tmp_path / "lake"))
    exporter.losses.note("No space left on device", 2)
    exporter.dropped["runs_unwritten"] += 2
    child = os.fork()
    if child == 0:
        exporter.shutdown()
        exporter.losses.own_up()
        os._exit(exporter.dropped.total())
    assert os.waitpid(child, 0)[1] == 0
    exporter.losses.own_up()
    [told] = exporter.complaints()
    assert told.startswith("2 runs were lost (No space left on device); ")


def test_late_rewards_that_fit_no_column_hold_up_no_others(tmp_path: Path) -> None:
    """Numbers for truth and truth for numbers come back as they were."""
    rewards = [
        Reward(id="a", component="c", value=1, provisional=1),  # type: ignore[arg-type]
        Reward(id="b", component="c", value=0.5, n=True, se=2),
        Reward(id="c", component="c", value=0.5, n=2**62, version="v1"),
    ]
    assert all(reward.is_sound for reward in rewards)
    exporter = open_parquet(str(tmp_path / "lake"))
    for run_id in ("r-1", "caf\ud83d"):
        for reward in rewards:
            exporter.amend(run_id, reward)
    exporter.shutdown()
    late = [item for item in read(str(tmp_path / "lake")) if isinstance(item, Late)]
    assert [item.run_id for item in late] == ["r-1"] * 3 + ["caf\\ud83d"] * 3
    assert [repr(item.reward) for item in late] == [repr(reward) for reward in rewards] * 2


def test_a_full_disk_leaves_nothing_half_written_and_is_tried_again(
    tmp_path: Path, traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the file; what waits is written once there is room."""
    lake = tmp_path / "lake"
    exporter = open_parquet(str(lake))
    exporter.export(traces[0])
    real = os.fsync

    def full(descriptor: int) -> None:
        if "decisions" in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(parquet.os, "fsync", full)
        with pytest.raises(OSError, match="No space left") as raised:
            exporter.flush()
    assert "decisions" in raised.value.filename
    assert not [path for path in lake.rglob("*") if path.is_file()]
    assert "1 runs wait" in exporter.complaints()[0]
    exporter.flush()
    assert found(lake) == by_id(traces[:1])
    assert exporter.complaints() == []


def test_what_cannot_be_written_for_long_is_lost_oldest_first_and_told(
    tmp_path: Path, traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded, and the pipeline hears of it."""
    exporter = ParquetExporter(LocalFolder(tmp_path / "lake"), max_events=12)

    with monkeypatch.context() as patched:
        patched.setattr(parquet, "put", failing(errno.EACCES))
        with pytest.raises(OSError, match="runs are lost"):
            deque(map(exporter.export, traces), maxlen=0)
    exporter.flush()
    kept = found(tmp_path / "lake")
    lost = exporter.dropped["runs_unwritten"]
    assert len(kept) + lost < len(traces)
    assert traces[0].trace_id not in kept
    assert f"{lost} runs were lost (Permission denied)" in exporter.complaints()[0]


def test_a_run_that_is_given_again_takes_no_others_place(
    tmp_path: Path, traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told that a flush failed may give once more what it keeps, as a collector does."""
    exporter = ParquetExporter(LocalFolder(tmp_path / "lake"), max_events=12)

    with monkeypatch.context() as patched:
        patched.setattr(parquet, "put", failing(errno.EACCES))
        for _ in range(20):
            exporter.export(traces[0])
            exporter.export(traces[1])
    exporter.flush()
    assert found(tmp_path / "lake") == by_id(traces[:2])
    assert exporter.complaints() == []


def test_late_rewards_that_cannot_be_written_for_long_are_lost_oldest_first_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have a bound too, and are written without waiting for it where that goes."""
    lake = tmp_path / "lake"
    exporter = ParquetExporter(LocalFolder(lake), max_events=3)

    def amend(numbers: range) -> None:
        for number in numbers:
            exporter.amend("r", Reward(id=str(number), component="correctness", value=1.0))

    def written() -> list[str]:
        files = sorted(lake.glob("rewards/*/late-*.parquet"))
        return sorted(row["id"] for file in files for row in pq.read_table(file).to_pylist())

    with monkeypatch.context() as patched:
        patched.setattr(parquet, "put", failing(errno.EACCES))
        amend(range(12))
        for number in (12, 13):
            with pytest.raises(OSError, match="1 late rewards are lost"):
                amend(range(number, number + 1))
    assert exporter.dropped == {"rewards_unwritten": 2}
    assert "2 late rewards were lost (Permission denied)" in exporter.complaints()[0]
    exporter.flush()
    assert written() == sorted(map(str, range(2, 14)))
    amend(range(14, 17))
    assert written() == sorted(map(str, range(2, 17)))


def test_what_cannot_be_written_at_the_end_is_counted_and_told_to_who_comes_later(
    tmp_path: Path, traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no next try: so many runs are lost, and another process's doctor says so."""
    lake = tmp_path / "lake"
    exporter = open_parquet(str(lake))

    for one in traces[:3]:
        exporter.export(one)
    with monkeypatch.context() as patched:
        patched.setattr(parquet, "put", failing(errno.ENOSPC))
        with pytest.raises(OSError, match="3 runs are lost: No space left on device"):
            exporter.shutdown()
    assert exporter.dropped == {"runs_unwritten": 3}
    later = open_parquet(str(lake))
    [told] = later.complaints()
    assert told.startswith("3 runs were lost (No space left on device); ")
    later.export(traces[4])
    later.shutdown()
    assert found(lake) == by_id(traces[4:5])


def test_late_rewards_that_cannot_be_written_at_the_end_are_counted_too(
    tmp_path: Path, traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were lost as nothing at all where no run waited beside them."""
    lake = tmp_path / "lake"
    exporter = open_parquet(str(lake))

    exporter.amend("r", Reward(id="a", component="correctness", value=1.0))
    with monkeypatch.context() as patched:
        patched.setattr(parquet, "put", failing(errno.ENOSPC))
        with pytest.raises(OSError, match="0 runs and 1 late rewards are lost: No space left"):
            exporter.shutdown()
    assert exporter.dropped == {"rewards_unwritten": 1}
    [told] = open_parquet(str(lake)).complaints()
    assert told.startswith("1 late rewards were lost (No space left on device); ")


def test_a_flush_that_fails_is_told_as_what_it_is(
    tmp_path: Path,
    traces: list[Trace],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The runs are kept and written once there is room: nothing was lost, and nothing says so."""
    monkeypatch.setattr(_guard, "_told", set())
    lake = tmp_path / "lake"
    exporter = open_parquet(str(lake))
    pipeline = Pipeline(Settings())
    pipeline.replace([exporter], [], None)

    exporter.export(traces[0])
    with monkeypatch.context() as patched:
        patched.setattr(parquet, "put", failing(errno.ENOSPC))
        pipeline._delivery.put(("r", Reward(id="a", component="correctness", value=1.0)))
        assert not pipeline.force_flush()
    assert caplog.messages == [
        "orchtrace could not put down everything (flush_failed:ParquetExporter, OSError: No space "
        f"left on device: 1 runs and 1 late rewards wait in memory to be written to {lake}); it is "
        "tried again, and counted as lost only if that fails to the end"
    ]
    assert pipeline.losses == {}
    pipeline.shutdown()
    assert found(lake) == by_id(traces[:1])
    assert (pipeline.losses, exporter.dropped, len(caplog.messages)) == ({}, {}, 1)


def test_joining_small_parts_loses_nothing_and_leaves_large_ones(tmp_path, traces) -> None:
    """Readers see the same runs before and after; a part that is bad stays as it is."""
    lake = filled(tmp_path / "lake", traces, "?max_events=10")
    before = list(parts(LocalFolder(lake)))
    (lake / "runs" / "date=2026-11-29" / "cut.parquet").write_bytes(b"PAR1")
    done = compact(str(lake), max_events=60)

    assert done.before == len(before)
    assert 1 < done.after < len(before)
    assert "cut.parquet must be a whole Parquet file" in done.bad[0]
    assert found(lake) == by_id(traces)
    sizes = [
        read_part(LocalFolder(lake), part)["events"].num_rows
        for part in parts(LocalFolder(lake))
        if "cut" not in part
    ]
    assert all(size <= 60 for size in sizes)


def test_reading_a_part_takes_memory_for_some_of_its_runs_alone(
    tmp_path, traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that were joined hold ten times as much as a process has in memory."""
    monkeypatch.setattr(reading, "_PIECE", 10)
    peaks: list[int] = []
    for size in (40, 320):
        runs = [replace(traces[0], trace_id=f"run-{number}") for number in range(size)]
        lake = filled(tmp_path / f"{size}", runs)
        tracemalloc.start()
        assert sum(isinstance(item, Trace) for item in read(str(lake))) == size
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 3 * peaks[0]
    assert found(lake) == by_id(runs)


def test_a_lake_behind_a_url_is_written_and_read(traces: list[Trace]) -> None:
    """Any URL that fsspec knows."""
    exporter = open_parquet("memory://lake-of-a-test")
    for trace in traces:
        exporter.export(trace)
    exporter.amend(traces[0].trace_id, Reward(id="x", component="late", value=1.0))
    exporter.shutdown()
    items = list(read("memory://lake-of-a-test"))
    assert {item.trace_id: item for item in items if isinstance(item, Trace)} == by_id(traces)
    assert [item.run_id for item in items if isinstance(item, Late)] == [traces[0].trace_id]


def test_what_the_library_behind_a_url_raises_is_as_good_as_a_full_disk(
    traces: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of object stores have errors of their own: runs wait within the bound, then count."""
    files = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("AccessDenied: key AKIA-SECRET")

    exporter = open_parquet(f"memory://refusing?max_events={len(traces[0].events)}")
    with monkeypatch.context() as patched:
        patched.setattr(files, "pipe_file", refuse)
        for trace in traces[:4]:
            exporter.export(trace)
        for trace in traces[4:]:
            with pytest.raises(OSError, match="1 runs are lost") as lost:
                exporter.export(trace)
            assert "(RuntimeError of what reads and writes memory://refusing)" in str(lost.value)
            assert "SECRET" not in str(lost.value)
    assert exporter.dropped == {"runs_unwritten": 8}
    exporter.shutdown()
    items = list(read("memory://refusing"))
    assert {item.trace_id: item for item in items if isinstance(item, Trace)} == by_id(traces[8:])
    monkeypatch.setattr(files, "cat_file", refuse)
    told = list(read("memory://refusing"))
    assert {type(item) for item in told} == {Bad}
    assert "RuntimeError of what reads" in str(told[0])


def test_what_is_no_part_of_this_layout_is_told_and_passed_over(tmp_path, traces) -> None:
    """A missing table, another program's file, and a later layout each cost that part alone."""
    lake = filled(tmp_path / "lake", traces[:2])
    day = "date=2026-11-29"
    for name in ("gone", "other", "newer"):
        filled(tmp_path / name, [traces[5]])
        (part,) = parts(LocalFolder(tmp_path / name))
        for table in ("runs", "events", "edges", "turns", "rewards", "decisions"):
            file = tmp_path / name / table / part
            content = pq.read_table(file)
            if name == "newer":
                mark = {b"orchtrace.tables": f"{table} 99".encode()}
                content = content.replace_schema_metadata(mark)
            elif name == "other":
                content = content.replace_schema_metadata({})
            pq.write_table(content, lake / table / day / f"{name}.parquet")
    (lake / "turns" / day / "gone.parquet").unlink()

    why = sorted(item.why for item in read(str(lake)) if isinstance(item, Bad))
    assert [one.partition(";")[0] for one in why] == [
        f"runs/{day}/newer.parquet must be of layout 1 or before, came 99",
        f"runs/{day}/other.parquet must be the table runs as orchtrace writes it, came another "
        "Parquet file",
        f"turns/{day}/gone.parquet must lie beside runs/{day}/gone.parquet, and is missing",
    ]
    assert found(lake) == by_id(traces[:2])


def test_columns_that_came_later_are_null_in_older_files(tmp_path: Path, traces) -> None:
    """A file of the same layout with a column less, or one more, is read."""
    lake = filled(tmp_path / "lake", traces[:1])
    (part,) = parts(LocalFolder(lake))
    file = lake / "turns" / part
    older = pq.read_table(file).drop_columns(["response_id"])
    newer = older.append_column("of_the_future", pa.array([1] * older.num_rows))
    pq.write_table(newer.replace_schema_metadata(older.schema.metadata), file)
    assert found(lake) == by_id(traces[:1])


def test_a_store_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    """And not with the first part, whose runs would never be written."""
    with pytest.raises(ConfigError, match="URL that fsspec knows, got 'nowhere://x'"):
        open_parquet(f"{tmp_path / 'lake'}?content=nowhere://x")


@pytest.mark.parametrize("target", ["", "runs?max_events=0", "runs?color=red"])
def test_a_wrong_target_says_what_must_hold(target: str) -> None:
    """It is refused when it is opened."""
    with pytest.raises(ConfigError, match="takes a folder or a URL"):
        open_parquet(target)


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """The message names the place and the reason."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"must be able to write .*file"):
        open_parquet(str(tmp_path / "file"))
