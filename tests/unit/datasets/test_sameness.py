"""The same runs make the same data set, in whatever order and through whatever engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from orchtrace_otel.datasets import Job, engine, export
from orchtrace_otel.datasets.exporting import local
from tests.recorded import Recorder, many, write

if TYPE_CHECKING:
    from pathlib import Path

    from orchtrace_otel.model import Trace

pytestmark = pytest.mark.usefixtures("lines_is_installed")


def test_the_same_runs_make_the_same_data_set_in_whatever_order_they_come(tmp_path) -> None:
    """The fingerprint says so, and it changes with the seed and the runs."""
    recorder = Recorder(tmp_path)
    traces = many(recorder, 40, tasks=8)

    def fingerprint(name: str, given: list[Trace], seed: int = 0) -> str:
        job = Job(format="lines", content=str(recorder.store), validation=0.5, seed=seed)
        source = write(tmp_path / f"in-{name}", given)
        report = export(job, [str(source)], tmp_path / f"out-{name}")
        written = json.loads((tmp_path / f"out-{name}" / "dataset.json").read_text())
        assert written["fingerprint"] == report.fingerprint
        return report.fingerprint

    first = fingerprint("first", traces)
    assert fingerprint("again", traces[::-1]) == first
    assert fingerprint("seed", traces, seed=1) != first
    assert fingerprint("fewer", traces[:-1]) != first


def test_an_engine_is_one_function_from_table_to_table(tmp_path: Path) -> None:
    """Given the groups one by one, or all at once, it makes the same rows."""
    recorder = Recorder(tmp_path)
    source = write(tmp_path / "in", many(recorder, 30, tasks=6))
    job = Job(format="lines", content=str(recorder.store))
    seen: list[Any] = []

    def spying(tables: Any, job: Job) -> Any:
        for table in tables:
            assert table.schema.equals(engine.input_schema())
            seen.append(table)
            made = engine.records(table, job)
            assert made.schema.equals(engine.output_schema())
            yield made

    export(job, [str(source)], None, run_engine=spying)
    (whole,) = seen
    tasks = sorted(set(whole.column("task_id").to_pylist()))
    column = whole.column("task_id").to_pylist()
    parts = [
        whole.take([place for place, one in enumerate(column) if one == task]) for task in tasks
    ]
    together = [row for table in local([whole], job) for row in table.to_pylist()]
    apart = [row for table in local(parts, job) for row in table.to_pylist()]
    assert together == apart
    assert len(together) == 90


def test_memory_holds_a_few_groups_however_many_runs_there_are(tmp_path: Path) -> None:
    """Batches end with a whole task and are not much larger than asked for."""
    recorder = Recorder(tmp_path)
    source = write(tmp_path / "in", many(recorder, 600, tasks=100, calls=1))
    sizes: list[int] = []

    def counting(tables: Any, job: Job) -> Any:
        for table in tables:
            sizes.append(table.num_rows)
            yield engine.records(table, job)

    job = Job(format="lines", content=str(recorder.store))
    export(job, [str(source)], None, run_engine=counting)
    assert sum(sizes) == 600
    assert max(sizes) <= 512 / 2 + 6
