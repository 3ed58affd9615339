"""The seam between engines: `records`, from an Arrow table of whole runs to one of records.

The local engine calls it for a few groups at a time; an engine for a cluster gives it to
`map_batches` or `map_groups`. Nothing else crosses: a table in, a table out, and a `Job`,
which is plain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import orjson

from orchtrace_otel.datasets.choosing import choose
from orchtrace_otel.datasets.contents import Contents
from orchtrace_otel.datasets.runs import Dropped, Group, Record, Run
from orchtrace_otel.datasets.writer import Outcome, Writer, open_writer
from orchtrace_otel.tables.arrow import nest, nested_schema, pyarrow, unnest
from orchtrace_otel.tables.gathering import flat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchtrace_otel.datasets.job import Job
    from orchtrace_otel.tables.rows import Rows

PLAN: Final = ("cluster", "split")
"""Columns that a table of whole runs has beside those of `nested_schema`."""


@cache
def input_schema() -> Any:
    """Return the schema of what goes in: whole runs of whole tasks, with cluster and split."""
    pa: Any = pyarrow()
    return pa.schema([*nested_schema(), *(pa.field(name, pa.string()) for name in PLAN)])


@cache
def output_schema() -> Any:
    """Return the schema of what comes out: a row a record, or what was dropped.

    `record` is JSON text, and null for what was dropped; then `reason` says why.
    """
    pa: Any = pyarrow()
    texts = pa.list_(pa.string())
    return pa.schema(
        {
            "cluster": pa.string(),
            "task_id": pa.string(),
            "split": pa.string(),
            "place": pa.int64(),
            "record": pa.string(),
            "runs": texts,
            "turns": texts,
            "weight": pa.float64(),
            "label": pa.float64(),
            "group": pa.string(),
            "reason": pa.string(),
        }
    )


def planned(groups: Sequence[tuple[str, str, Sequence[Rows]]]) -> Any:
    """Make what goes in of some groups: cluster, split, and the rows of the task's runs."""
    pa: Any = pyarrow()
    rows = [one for _, _, runs in groups for one in runs]
    nested = nest(flat(rows))
    plan = {
        name: pa.array([group[place] for group in groups for _ in group[2]], pa.string())
        for place, name in enumerate(PLAN)
    }
    return pa.table([*nested.columns, *plan.values()], schema=input_schema())


_contents: dict[str | None, Contents] = {}


def begin() -> None:
    """Forget the content stores of earlier exports, so that what came since is seen."""
    _contents.clear()


def contents_of(job: Job) -> Contents:
    """Return the content that a job reads; its store is opened once an export."""
    return _contents.setdefault(job.content, Contents(job.content))


def records(table: Any, job: Job) -> Any:
    """Make records of whole runs: the seam.

    Args:
        table: Of `input_schema`; all runs of each task that is in it, in any order.
        job: What is asked for.

    Returns:
        A table of `output_schema`, in order of cluster, task and place.

    Raises:
        ConfigError: If there is no such format.
    """
    pa: Any = pyarrow()
    writer = open_writer(job.format, job)
    contents = contents_of(job)
    rows: list[dict[str, Any]] = []
    for group in groups_of(table, job, writer, contents):
        task = {"cluster": group.cluster, "task_id": group.task_id, "split": group.split}
        for place, outcome in enumerate(outcomes(group, writer)):
            rows.append({**task, "place": place, **_row(outcome)})
    return pa.Table.from_pylist(rows, schema=output_schema())


def groups_of(table: Any, job: Job, writer: Writer, contents: Contents) -> Iterator[Group]:
    """Return the groups of a table of whole runs, in order of cluster and task."""
    plan = zip(*(table.column(name).to_pylist() for name in PLAN), strict=True)
    runs = unnest(table.drop_columns(list(PLAN)), writer.tables, writer.columns)
    ordered = sorted(
        zip(plan, runs, strict=True),
        key=lambda one: (one[0][0], one[1].run["task_id"], one[1].run["run_id"]),
    )
    for (cluster, task), members in groupby(
        ordered, key=lambda one: (one[0][0], one[1].run["task_id"])
    ):
        held = list(members)
        found = [Run(rows, contents, job) for _, rows in held]
        yield Group(task, cluster, held[0][0][1], job, list(found))
        for run in found:
            run.let_go()


def outcomes(group: Group, writer: Writer) -> Iterator[Outcome]:
    """Return what becomes of one group: what is chosen goes to the writer."""
    yield from choose(group, writer)
    if group.runs:
        yield from writer.records(group)


def try_settings(job: Job, writer: Writer) -> None:
    """Say what is wrong with a format's settings before anything is read: try them on nothing.

    Raises:
        ConfigError: If one of them is not what it must be.
    """
    nothing = Group("", "", "", job)
    writer.needs_of(nothing)
    deque(writer.records(nothing), maxlen=0)


def _row(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Dropped):
        turns = [] if outcome.turn is None else [outcome.turn]
        return {"runs": [outcome.run], "turns": turns, "reason": outcome.reason}
    try:
        text = orjson.dumps(outcome.data).decode()
    except TypeError:  # half a surrogate pair, a number beyond 64 bits: no loader reads it
        turns = list(outcome.turns)
        return {"runs": list(outcome.runs), "turns": turns, "reason": "unwritable"}
    return {
        "record": text,
        "runs": list(outcome.runs),
        "turns": list(outcome.turns),
        "weight": outcome.weight,
        "label": outcome.label,
        "group": outcome.group,
        "reason": outcome.missing,
    }


def outcomes_of(table: Any) -> Iterator[tuple[str, Outcome, str | None]]:
    """Read what `records` returned: split, outcome, and the record's text."""
    for row in table.to_pylist():
        text = row["record"]
        if text is None:
            turn = row["turns"][0] if row["turns"] else None
            yield row["split"], Dropped(row["reason"], row["runs"][0], turn), None
        else:
            record = Record(
                {},
                row["runs"],
                row["turns"],
                row["weight"],
                row["reason"],
                row["label"],
                row["group"],
            )
            yield row["split"], record, text


def batches(
    groups: Iterable[tuple[str, str, list[Rows]]], most: int = 512
) -> Iterator[list[tuple[str, str, list[Rows]]]]:
    """Gather groups until they have `most` calls; a group is never parted."""
    held: list[tuple[str, str, list[Rows]]] = []
    size = 0
    for group in groups:
        held.append(group)
        size += sum(len(rows.turns) + len(rows.decisions) + 1 for rows in group[2])
        if size >= most:
            yield held
            held, size = [], 0
    if held:
        yield held
