"""The seam between engines: a table in, a table out, wherever it is called."""

from __future__ import annotations

import gc
import pickle
import random
import sys
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from orchtrace_otel.cli.export import command
from orchtrace_otel.datasets import Job, engine, known_writers, ray_engine, ray_lake
from orchtrace_otel.datasets.exporting import local
from orchtrace_otel.errors import ConfigError, MissingDependencyError
from orchtrace_otel.model import Reward
from orchtrace_otel.tables.rows import rows_of
from tests.lakes import again, in_order, lake, local_table, made_by, runs
from tests.recorded import Call, Recorder, siblings, text, write

if TYPE_CHECKING:
    from pathlib import Path


class FakeDataset:
    """As much of a Ray dataset as is used, on Arrow: blocks in no order, functions pickled."""

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks

    def map_batches(self, function, *, fn_kwargs, batch_size, batch_format) -> FakeDataset:
        """Call a function for each block, or for each row."""
        assert batch_format == "pyarrow"
        sent = pickle.dumps((function, fn_kwargs))
        if batch_size is not None:
            self.blocks = [
                block.slice(start, batch_size)
                for block in self.blocks
                for start in range(0, block.num_rows, batch_size)
            ]
        made = []
        for block in self.blocks:
            called, given = pickle.loads(sent)  # noqa: S301 - made above
            made.append(called(_sent(block), **given))
        return FakeDataset(made)

    def groupby(self, key: str) -> FakeDataset:
        """Bring rows of equal keys together, in an order that nobody chose."""
        table = pa.concat_tables(self.blocks)
        rows = list(range(table.num_rows))
        random.Random(1).shuffle(rows)  # noqa: S311 - no secret
        groups: dict[str, list[int]] = {}
        for row in rows:
            groups.setdefault(table.column(key)[row].as_py(), []).append(row)
        return FakeDataset([table.take(places) for places in groups.values()])

    def map_groups(self, function, *, fn_kwargs, batch_format) -> FakeDataset:
        """Call a function for each group."""
        return self.map_batches(
            function, fn_kwargs=fn_kwargs, batch_size=None, batch_format=batch_format
        )

    def union(self, other: FakeDataset) -> FakeDataset:
        """Add blocks."""
        return FakeDataset([*self.blocks, *other.blocks])

    def take_all(self) -> list[Any]:
        """All rows."""
        return [row for block in self.blocks for row in block.to_pylist()]

    def iter_batches(self, *, batch_size, batch_format):
        """The blocks, one after another."""
        assert (batch_size, batch_format) == (None, "pyarrow")
        return iter(self.blocks)

    @property
    def table(self) -> Any:
        """All of it, sorted."""
        return in_order(pa.concat_tables(self.blocks))


def _sent(table: Any) -> Any:
    """A table as it is after it went to another process."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


class FakeRay:
    """As much of Ray as is used, and whether it is up."""

    def __init__(self) -> None:
        options = SimpleNamespace(preserve_order=False)
        self.context = SimpleNamespace(execution_options=options, enable_progress_bars=True)
        self.is_up = False
        self.seen: list[tuple[bool, bool]] = []
        self.data = SimpleNamespace(
            from_arrow=self._from_arrow,
            from_items=lambda items, override_num_blocks: FakeDataset(
                [pa.Table.from_pylist([item]) for item in items]
            ),
            DataContext=SimpleNamespace(get_current=lambda: self.context),
        )

    def _from_arrow(self, tables: Any) -> FakeDataset:
        self.seen.append((self.is_up, self.context.execution_options.preserve_order))
        return FakeDataset(tables if isinstance(tables, list) else [tables])

    def is_initialized(self) -> bool:
        return self.is_up

    def init(self, **_: Any) -> None:
        self.is_up = True

    def shutdown(self) -> None:
        self.is_up = False


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Ray, made of Arrow."""
    lib = FakeRay()
    monkeypatch.setattr(ray_engine, "ray", lambda: lib)
    monkeypatch.setattr(ray_lake, "ray", lambda: lib)
    return lib


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A content store."""
    return Recorder(tmp_path)


def job_of(name: str, recorder: Recorder, **choices: Any) -> Job:
    """A job over a recorder's content."""
    return Job(**{"format": name, "content": str(recorder.store), "validation": 0.4, **choices})


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table for every few runs, so that there are several."""
    gather = engine.batches
    monkeypatch.setattr(engine, "batches", lambda groups: gather(groups, 8))


@pytest.mark.parametrize("name", sorted(known_writers()))
def test_ray_and_local_make_the_same_table(
    fake: FakeRay, small_batches: None, recorder: Recorder, tmp_path: Path, name: str
) -> None:
    """Of each format, sorted as Arrow tables; in order even before that."""
    traces = write(tmp_path / "in", runs(recorder))
    job = job_of(name, recorder)
    wanted, table = made_by(local, job, [str(traces)])
    report, came = made_by(ray_engine.run, job, [str(traces)])
    assert came.equals(table)
    assert report.to_dict() == wanted.to_dict()


def test_a_data_set_made_with_ray_has_the_same_fingerprint(
    fake: FakeRay, small_batches: None, recorder: Recorder, tmp_path: Path
) -> None:
    """The order of records is part of it. Ray is up meanwhile, and only then."""
    traces = write(tmp_path / "in", runs(recorder))
    job = job_of("trl-sft", recorder)
    wanted, _ = made_by(local, job, [str(traces)], tmp_path / "local")
    report, _ = made_by(ray_engine.run, job, [str(traces)], tmp_path / "ray")
    assert report.fingerprint == wanted.fingerprint
    assert fake.seen == [(True, True)]
    assert not fake.is_up
    assert not fake.context.execution_options.preserve_order
    assert fake.context.enable_progress_bars


def test_a_cluster_that_was_joined_before_stays_joined(fake: FakeRay) -> None:
    """It is the program's, whatever happens."""
    fake.init()
    with pytest.raises(ConfigError):
        list(ray_engine.run([engine.input_schema().empty_table()], Job(format="odd")))
    assert fake.is_up


def test_a_worker_has_another_folder(
    fake: FakeRay, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places that are told from here are found from there."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in", runs(recorder))
    lake(tmp_path / "lake", runs(recorder))
    job = Job(format="trl-sft", content="content")
    _, wanted = made_by(local, job, ["in"])
    sent = FakeDataset.map_batches

    def elsewhere(self: FakeDataset, *given: Any, **named: Any) -> FakeDataset:
        monkeypatch.chdir("/")
        try:
            return sent(self, *given, **named)
        finally:
            monkeypatch.chdir(tmp_path)

    monkeypatch.setattr(FakeDataset, "map_batches", elsewhere)
    assert made_by(ray_engine.run, job, ["in"])[1].equals(wanted)
    assert ray_lake.records_of(["lake"], job).table.equals(wanted)


def test_a_worker_sees_content_that_came_since(recorder: Recorder) -> None:
    """Though it worked for an export of the same store before."""
    job = job_of("trl-sft", recorder)
    found = []
    for number in (1, 2):
        trace = siblings(recorder, number)
        table = engine.planned([("tide", "train", [rows_of(trace)])])
        found.append(ray_engine.records(table, job, f"export {number}").column("record"))
    assert [column.null_count for column in found] == [0, 0]


def test_few_tables_are_with_ray_at_a_time() -> None:
    """Windows end when they have their bytes; none is lost, none is parted."""
    tables = [pa.table({"x": [number] * 100}) for number in range(7)]
    found = list(ray_engine.windows(iter(tables), 2 * tables[0].nbytes))
    assert [len(window) for window in found] == [2, 2, 2, 1]
    assert [table for window in found for table in window] == tables


def test_a_run_that_became_another_one_is_none_on_ray_either(
    fake: FakeRay, recorder: Recorder, tmp_path: Path
) -> None:
    """Its last revision says so: nothing of it is made, on either engine."""
    first, second = runs(recorder)[:2]
    stop = first.events[-1]
    keys = {**stop.keys, "revision": 1, "superseded_by": second.trace_id}
    gone = replace(first, events=(*first.events[:-1], replace(stop, keys=keys)))
    place = lake(tmp_path / "lake", [first, second, gone])
    job = job_of("trl-sft", recorder)
    made = ray_lake.records_of([place], job).table
    assert made.equals(local_table(job, [place]))
    assert {run for row in made.to_pylist() for run in row["runs"]} == {second.trace_id}


@pytest.mark.parametrize("name", ["trl-sft", "trl-dpo", "trl-rollout"])
def test_stored_tables_make_the_same_records_on_ray(
    fake: FakeRay, recorder: Recorder, tmp_path: Path, name: str
) -> None:
    """Read part by part, with revisions, late rewards and tasks that are nearly the same."""
    traces = runs(recorder)
    late = [
        (traces[0].trace_id, Reward(id="judged", component="task", value=0.25)),
        (traces[0].trace_id, Reward(id="judged", component="task", value=0.75)),
        (traces[1].trace_id, Reward(id="other", component="style", value=0.5)),
    ]
    first = lake(tmp_path / "first", traces, late)
    second = lake(tmp_path / "second", [again(recorder, traces[3]), traces[2]])
    job = job_of(name, recorder, reward="task")
    made = ray_lake.records_of([first, second], job).table
    assert made.equals(local_table(job, [first, second]))


def test_all_labels_are_of_one_reward_on_ray_too(
    fake: FakeRay, recorder: Recorder, tmp_path: Path
) -> None:
    """Whichever part a run lies in, and whenever its reward came."""
    call = Call("scout", [text("user", "how high?")], [text("assistant", "3 m")])
    traces = [recorder.run(number, [call], task=f"task {number}") for number in (1, 2, 3)]
    late = [(trace.trace_id, Reward(id="x", component="style", value=0.5)) for trace in traces]
    judged = (traces[0].trace_id, Reward(id="y", component="task", value=1.0))
    first, second = lake(tmp_path / "1", traces[:2], late), lake(tmp_path / "2", traces[2:])
    third = lake(tmp_path / "3", [], [judged])
    for places, labels in (([first, second], [0.5] * 3), ([first, second, third], [1, None, None])):
        job = job_of("trl-sft", recorder)
        made = ray_lake.records_of(places, job).table
        assert made.equals(local_table(job, places))
        found = {row["runs"][0]: row["label"] for row in made.to_pylist()}
        assert [found[trace.trace_id] for trace in traces] == labels


def test_parts_that_cannot_be_read_are_rows_of_their_own(
    fake: FakeRay, recorder: Recorder, tmp_path: Path
) -> None:
    """With where and why; the rest is there."""
    place = lake(tmp_path / "lake", runs(recorder), [("r", Reward(id="a", component="b", value=1))])
    broken = next(iter((tmp_path / "lake" / "turns").rglob("*.parquet")))
    broken.write_bytes(b"no parquet")
    (late,) = (tmp_path / "lake" / "rewards").rglob("late-*.parquet")
    late.write_bytes(b"nor this")
    job = job_of("trl-sft", recorder)
    rows = ray_lake.records_of([place], job).table.to_pylist()
    told = [row["runs"][0] for row in rows if row["reason"] == "unreadable"]
    assert len(told) == 2
    assert all("must be a whole Parquet file" in one for one in told)
    rest = local_table(job, [place]).to_pylist()
    assert [row for row in rows if row["reason"] != "unreadable"] == rest
    assert rest


def test_no_lake_is_no_record(fake: FakeRay, tmp_path: Path) -> None:
    """The columns are there; a format that nobody has is told at once."""
    found = ray_lake.records_of([str(tmp_path)], Job(format="trl-sft")).table
    assert found.equals(engine.output_schema().empty_table())
    with pytest.raises(ConfigError, match="must have one of the formats"):
        ray_lake.records_of([str(tmp_path)], Job(format="odd"))


def test_without_ray_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder, tmp_path: Path
) -> None:
    """By the function, and by the command."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"orchtrace-otel\[ray\]"):
        ray_engine.ray()
    traces = write(tmp_path / "in", runs(recorder, 2))
    arguments = [str(traces), "--to", "trl-sft", "--dry-run", "--engine", "ray"]
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, MissingDependencyError)


def test_calls_are_gone_with_their_group(tmp_path: Path) -> None:
    """Without Python's collector, though calls and their run name one another."""
    recorder = Recorder(tmp_path)
    writer = known_writers()["trl-sft"].load()()
    job = Job(format="trl-sft", content=str(recorder.store))
    table = engine.planned([("tide", "train", [rows_of(siblings(recorder))])])
    gc.disable()
    try:
        groups = engine.groups_of(table, job, writer, engine.contents_of(job))
        seen = weakref.ref(next(groups).runs[0])
        assert seen() is not None
        assert next(groups, None) is None
        assert seen() is None
    finally:
        gc.enable()
