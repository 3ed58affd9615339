"""Records of stored tables on Ray Data: read, planned and made where the data is.

`records_of` goes further than `--engine ray`: workers read the parts of a lake too, so
that no machine sees all runs. Whole runs lie in a part, so reading is `map_batches`;
one shuffle brings the runs of a task, and of tasks that are nearly the same, together.
What comes out is what an export writes, as a Ray dataset, a row a record.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import orjson

from orchtrace_otel.content.folders import open_folder
from orchtrace_otel.datasets import engine
from orchtrace_otel.datasets.contents import Contents
from orchtrace_otel.datasets.exporting import asked, with_updates
from orchtrace_otel.datasets.ray_engine import absolute, from_anywhere, ray, records
from orchtrace_otel.datasets.tasks import clusters, split_of
from orchtrace_otel.datasets.writer import open_writer
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.schema import dump, load
from orchtrace_otel.spans import writable
from orchtrace_otel.tables.arrow import pyarrow
from orchtrace_otel.tables.joining import given, is_given
from orchtrace_otel.tables.lake import parts
from orchtrace_otel.tables.reading import Bad, read_late, read_one
from orchtrace_otel.tables.rows import rows_of
from orchtrace_otel.tables.spool import (
    in_columns,
    is_superseded,
    revision_of,
    storable,
    with_late,
)
from orchtrace_otel.tables.versions import began, versions_of

if TYPE_CHECKING:
    from orchtrace_otel.datasets.job import Job

_NUMBER: Final = "09"


def records_of(places: Sequence[str], job: Job) -> Any:
    """Make records of the runs in some lakes.

    Of several revisions of a run the highest counts, with the rewards that came later.
    Those rewards, and the clusters of tasks that are nearly the same, are held by this
    process and sent to the workers; runs are not.

    Args:
        places: Folders or URLs as `parquet:` and `orchtrace collect --tables parquet`
            write them, which workers can reach.
        job: What is asked for; workers must reach its content store.

    Returns:
        A Ray dataset with the columns of `engine.output_schema`, in no order. What could
        not be read is in it too, with the reason `unreadable` and, in `runs`, where and why.

    Raises:
        ConfigError: If there is no such format, or a place is no lake.
        MissingDependencyError: If Ray Data is not installed.
    """
    lib = ray()
    writer = open_writer(job.format, job)
    engine.try_settings(job, writer)
    job, places = from_anywhere(job), [absolute(place) for place in places]
    found = list(_listed(places))
    if not found:
        columns = engine.output_schema().empty_table()
        return lib.data.from_arrow(columns)
    listed = lib.data.from_items(found, override_num_blocks=len(found))
    together = dict(_clusters(listed, job))
    late, faults = _late(places)
    if job.reward is None or "current" in writer.settings:
        job = _informed(job, _newest(listed), late)
    runs = _on_parts(listed, _runs, job=job, together=together)
    made = runs.groupby("cluster").map_groups(
        _made,
        fn_kwargs={"job": job, "late": late, "export": uuid.uuid4().hex},
        batch_format="pyarrow",
    )
    return made.union(lib.data.from_arrow(_unreadable(faults))) if faults else made


def _on_parts(listed: Any, function: Any, **given: Any) -> Any:
    return listed.map_batches(function, fn_kwargs=given, batch_size=1, batch_format="pyarrow")


def _listed(places: Sequence[str]) -> Iterator[dict[str, str]]:
    """Name the parts, in an order that a run's later revisions of equal number go by."""
    for number, place in enumerate(places):
        for count, part in enumerate(parts(open_folder(place))):
            yield {"place": place, "part": part, "order": f"{number:{_NUMBER}}{count:{_NUMBER}}"}


def _late(places: Sequence[str]) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """Return the rewards that came after their runs, by run, and what could not be read."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    faults: list[str] = []
    for place in places:
        for item in read_late(open_folder(place)):
            if isinstance(item, Bad):
                faults.append(f"{item.where}: {item.why}")
            else:
                rewards = found.setdefault(storable(item.run_id), {})
                rewards[item.reward.id] = item.reward.to_dict()
    late = {run: [rewards[name] for name in sorted(rewards)] for run, rewards in found.items()}
    return late, faults


def _unreadable(faults: Iterable[str]) -> Any:
    pa: Any = pyarrow()
    rows = [
        {"cluster": "", "place": place, "runs": [fault], "reason": "unreadable"}
        for place, fault in enumerate(faults)
    ]
    return pa.Table.from_pylist(rows, schema=engine.output_schema())


# --- on workers -------------------------------------------------------------------------


def _read(table: Any) -> Iterator[tuple[str, Trace | Bad]]:
    for row in table.to_pylist():
        folder = open_folder(row["place"])
        for number, item in enumerate(read_one(folder, row["part"])):
            yield f"{row['order']}{number:{_NUMBER}}", item


def _questions(table: Any, job: Job) -> Any:
    """Return what each task of a part was first asked, by its first run there."""
    pa: Any = pyarrow()
    contents = Contents(job.content)
    first: dict[str, Trace] = {}
    for _, item in _read(table):
        if isinstance(item, Trace):
            task = storable(item.task_id)
            known = first.get(task)
            if known is None or _rank(item) <= _rank(known):
                first[task] = item
    rows = [
        {"task": task, "run": run, "revision": revision, "text": storable(text)}
        for task, trace in first.items()
        if (text := asked(trace, contents))
        for run, revision in [_rank(trace)]
    ]
    types = {"task": pa.string(), "run": pa.string(), "revision": pa.int64(), "text": pa.string()}
    return pa.Table.from_pylist(rows, schema=pa.schema(types))


def _rank(trace: Trace) -> tuple[str, int]:
    return storable(trace.trace_id), -revision_of(trace)


def _clusters(listed: Any, job: Job) -> Iterator[tuple[str, str]]:
    if job.content is None:
        return iter(())
    rows: list[dict[str, Any]] = _on_parts(listed, _questions, job=job).take_all()
    first: dict[str, str] = {}
    for row in sorted(rows, key=itemgetter("task", "run", "revision")):
        first.setdefault(row["task"], row["text"])
    return clusters(first.items(), job.alike)


def _told(table: Any) -> Any:
    """Return what each run of a part tells of rewards and policy versions, and when it began."""
    pa: Any = pyarrow()
    rows = [
        {
            "began": began(item),
            "run": storable(item.trace_id),
            "revision": revision_of(item),
            "order": order,
            "versions": orjson.dumps(versions_of(item)),
            "given": sorted(map(writable, given(item))),
            "is_gone": is_superseded(item),
        }
        for order, item in _read(table)
        if isinstance(item, Trace)
    ]
    numbers = {name: pa.int64() for name in ("began", "revision")}
    types = {**numbers, "run": pa.string(), "order": pa.string(), "versions": pa.binary()}
    schema = pa.schema({**types, "given": pa.list_(pa.string()), "is_gone": pa.bool_()})
    return pa.Table.from_pylist(rows, schema=schema)


def _newest(listed: Any) -> dict[str, dict[str, Any]]:
    """Return what the newest revision of each run tells, in order of their beginnings."""
    rows: list[dict[str, Any]] = _on_parts(listed, _told).take_all()
    newest = {row["run"]: row for row in sorted(rows, key=itemgetter("revision", "order"))}
    ordered = sorted(newest.values(), key=itemgetter("began", "run"))
    return {row["run"]: row for row in ordered if not row["is_gone"]}


def _informed(
    job: Job, newest: Mapping[str, dict[str, Any]], late: Mapping[str, list[dict[str, Any]]]
) -> Job:
    """Return a job that knows which rewards were given, and of updates."""
    found = {name for row in newest.values() for name in row["given"]}
    came = (reward for run in newest for reward in late.get(run, ()) if is_given(reward))
    found.update(writable(reward["component"]) for reward in came)
    job = replace(job, given=frozenset(found))
    versions = ((row["began"], orjson.loads(row["versions"])) for row in newest.values())
    return with_updates(job, versions)


def _runs(table: Any, job: Job, together: Mapping[str, str]) -> Any:
    """Return the runs of a part with their cluster and split."""
    pa: Any = pyarrow()
    rows: list[dict[str, Any]] = []
    for order, item in _read(table):
        if isinstance(item, Bad):
            why = storable(f"{item.where}: {item.why}")
            rows.append({"cluster": "", "run": why, "order": order, "revision": -1})
            continue
        task = storable(item.task_id)
        cluster = together.get(task, task)
        rows.append(
            {
                "cluster": cluster,
                "split": split_of(cluster, job.seed, job.validation),
                "run": storable(item.trace_id),
                "order": order,
                "revision": revision_of(item),
                "trace": dump(item),
            }
        )
    types = {name: pa.string() for name in ("cluster", "split", "run", "order")}
    schema = pa.schema({**types, "revision": pa.int64(), "trace": pa.binary()})
    return pa.Table.from_pylist(rows, schema=schema)


def _made(table: Any, job: Job, late: Mapping[str, list[dict[str, Any]]], export: str) -> Any:
    """Return the records of one cluster: of each run the highest revision goes to the seam."""
    pa: Any = pyarrow()
    rows = table.to_pylist()
    bad = [row["run"] for row in rows if row["trace"] is None]
    newest: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["revision"], row["order"])):
        if row["trace"] is not None:
            newest[row["run"]] = row
    read = ((run, load(in_columns(row["trace"]))) for run, row in newest.items())
    traces = [_amended(trace, late.get(run, ())) for run, trace in read if not is_superseded(trace)]
    writer = open_writer(job.format, job)
    tasks = sorted(traces, key=lambda trace: (trace.task_id, trace.trace_id))
    plan = (rows[0]["cluster"], next((row["split"] for row in rows if row["split"]), ""))
    groups = [
        (*plan, [rows_of(trace, writer.tables) for trace in runs])
        for _, runs in groupby(tasks, key=lambda trace: trace.task_id)
    ]
    made = [records(engine.planned(groups), job, export)] if groups else []
    return pa.concat_tables([*made, _unreadable(bad)])


def _amended(trace: Trace, late: Iterable[dict[str, Any]]) -> Trace:
    came = [Reward.from_dict(reward) for reward in late]
    return with_late(trace, came) if came else trace
