"""Lakes for tests of engines, and what the local engine makes of them, as one sorted table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from orchtrace_files import open_parquet
from orchtrace_otel.datasets import Job, Report, export
from orchtrace_otel.datasets.exporting import Engine, local
from orchtrace_otel.model import Reward, Trace
from tests.recorded import Recorder, many, siblings

KEYS = [(name, "ascending") for name in ("cluster", "task_id", "split", "place")]


def runs(recorder: Recorder, count: int = 12) -> list[Trace]:
    """Runs of four tasks, and one whose siblings were asked the same."""
    return [*many(recorder, count, tasks=4), siblings(recorder, 500)]


def lake(folder: Path, traces: Iterable[Trace], late: Iterable[tuple[str, Reward]] = ()) -> str:
    """A lake of many small parts, with late rewards."""
    exporter = open_parquet(f"{folder}?max_events=30")
    for trace in traces:
        exporter.export(trace)
    for run_id, reward in late:
        exporter.amend(run_id, reward)
    exporter.shutdown()
    return str(folder)


def again(recorder: Recorder, trace: Trace) -> Trace:
    """A later revision of a run: judged worse, and without its calls."""
    number = int(trace.trace_id[:32], 16)
    return recorder.run(number, [], task=trace.task_id, reward=0.1, revision=4)


def in_order(table: Any) -> Any:
    """A table sorted by what names a row, in one piece."""
    return table.sort_by(KEYS).combine_chunks()


def made_by(
    engine: Engine, job: Job, places: list[str], out: Path | None = None
) -> tuple[Report, Any]:
    """Export, and return the report and all that the engine made, sorted."""
    tables: list[Any] = []

    def kept(given: Iterable[Any], job: Job) -> Iterator[Any]:
        for table in engine(given, job):
            tables.append(table)
            yield table

    report = export(job, places, out, run_engine=kept)
    return report, in_order(pa.concat_tables(tables))


def local_table(job: Job, places: list[str]) -> Any:
    """What the local engine makes, sorted."""
    return made_by(local, job, places)[1]
