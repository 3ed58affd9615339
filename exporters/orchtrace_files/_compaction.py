"""Making few large parts of many small ones, beside readers and writers.

Parts of one date are joined into a new one, which is written whole before the old ones
are taken away, their `runs` first. Who reads in between sees a run twice, under the same
id and revision, and takes it once; who is killed in between leaves the same. Of several
revisions of a run the joined part has the highest.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orchtrace_files._parquet import new_name, put_part
from orchtrace_otel.content.folders import open_folder
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.tables.arrow import pyarrow
from orchtrace_otel.tables.columns import TABLES
from orchtrace_otel.tables.lake import SUFFIX, parts, read_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orchtrace_otel.content.folders import Folder

MAX_EVENTS: Final = 500_000


class Compacted(NamedTuple):
    """What a compaction did.

    Attributes:
        before: Parts that were joined.
        after: Parts that they became.
        bad: Parts that could not be read, and why; they stay as they are.
    """

    before: int
    after: int
    bad: tuple[str, ...]


def compact(target: str, max_events: int = MAX_EVENTS) -> Compacted:
    """Join the small parts of a lake, date by date.

    Args:
        target: The lake's folder or URL.
        max_events: Events that a part may have; larger ones are left as they are.

    Raises:
        OSError: If a part cannot be written; the parts that it would replace stay.
    """
    return compact_folder(open_folder(target), max_events)


def compact_folder(folder: Folder, max_events: int = MAX_EVENTS) -> Compacted:
    """Join the small parts of a lake; see `compact`."""
    before = after = 0
    bad: list[str] = []
    for date, names in groupby(list(parts(folder)), key=lambda part: part.partition("/")[0]):
        for group in _groups(folder, list(names), max_events, bad):
            if len(group) > 1:
                _join(folder, date, group)
                before += len(group)
                after += 1
    return Compacted(before, after, tuple(bad))


def _groups(
    folder: Folder, names: list[str], max_events: int, bad: list[str]
) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    held: list[tuple[str, dict[str, Any]]] = []
    size = 0
    for name in names:
        try:
            tables = read_part(folder, name)
        except TraceFormatError as error:
            bad.append(str(error))
            continue
        events = tables["events"].num_rows
        if held and size + events > max_events:
            yield held
            held, size = [], 0
        held.append((name, tables))
        size += events
    if held:
        yield held


def _join(folder: Folder, date: str, group: list[tuple[str, dict[str, Any]]]) -> None:
    pa: Any = pyarrow()
    kept = list(_each_run_once([tables for _, tables in group]))
    joined = {
        table: pa.concat_tables([tables[table] for tables in kept]).combine_chunks()
        for table in TABLES
    }
    put_part(folder, f"{date}/{new_name()}{SUFFIX}", joined)
    for name, _ in group:
        for table in TABLES:  # `runs` is the first of them
            with suppress(OSError):
                folder.delete(f"{table}/{name}")


def _each_run_once(parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Leave out of each part the runs of which another has a higher, or as late a, revision."""
    newest: dict[str, tuple[int, int]] = {}
    for place, tables in enumerate(parts):
        runs = tables["runs"]
        revisions = runs.column("revision").to_pylist()
        for run, revision in zip(runs.column("run_id").to_pylist(), revisions, strict=True):
            rank = (revision or 0, place)
            newest[run] = max(newest.get(run, rank), rank)
    for place, tables in enumerate(parts):
        older = {
            run for run in tables["runs"].column("run_id").to_pylist() if newest[run][1] != place
        }
        yield {name: _without(table, older) for name, table in tables.items()} if older else tables


def _without(table: Any, runs: set[str]) -> Any:
    pa: Any = pyarrow()
    return table.filter(pa.array([run not in runs for run in table.column("run_id").to_pylist()]))
