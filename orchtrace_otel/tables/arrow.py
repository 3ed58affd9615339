"""The tables in Arrow: versioned schemas, rows to tables and back, one row a run.

pyarrow is loaded when it is first needed. `gathering.flat` makes the six tables, as they
lie in files; `nest` folds them into one table with a row a run, the other tables being lists
of structs in it: that is what engines pass around, for a row is a whole run.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import orjson

from orchtrace_otel.errors import MissingDependencyError, TraceFormatError
from orchtrace_otel.model import read_json
from orchtrace_otel.tables.columns import MAPS, MEANINGS, TABLES, VERSION, Column
from orchtrace_otel.tables.rows import ALL, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from orchtrace_otel.model import Json

_VERSION_KEY: Final = b"orchtrace.tables"


@cache
def pyarrow(part: str = "") -> Any:
    """Return pyarrow, or a part of it such as `parquet`.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    try:
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ImportError as error:
        msg = "tables and Parquet need pyarrow; run: pip install 'orchtrace-otel[files]'"
        raise MissingDependencyError(msg) from error


@cache
def arrow_types() -> Mapping[str, Any]:
    """Return the Arrow type of each kind of column."""
    pa: Any = pyarrow()
    text, number = pa.string(), pa.float64()
    return {
        "text": text,
        "whole": pa.int64(),
        "number": number,
        "yes/no": pa.bool_(),
        "texts": pa.list_(text),
        "ids": pa.list_(pa.int32()),
        "floats": pa.list_(pa.float32()),
        "numbers": pa.map_(text, number),
        "words": pa.map_(text, text),
        "json": text,
    }


@cache
def schema(table: str) -> Any:
    """Return the Arrow schema of one of the tables; its metadata has the layout's version."""
    pa: Any = pyarrow()
    fields = [
        pa.field(column.name, arrow_types()[column.kind], metadata=_about(column))
        for column in TABLES[table]
    ]
    about = {_VERSION_KEY: f"{table} {VERSION}".encode(), b"about": MEANINGS[table].encode()}
    return pa.schema(fields, metadata=about)


def _about(column: Column) -> dict[bytes, bytes]:
    unit = {b"unit": column.unit.encode()} if column.unit else {}
    return {b"about": column.meaning.encode(), **unit}


@cache
def nested_schema() -> Any:
    """Return the schema of one row a run: the runs table, the others as lists in it."""
    pa: Any = pyarrow()
    lists = [pa.field(name, pa.list_(pa.struct(list(schema(name))))) for name in ALL]
    about = {_VERSION_KEY: f"nested {VERSION}".encode()}
    return pa.schema([*_run_fields(), *lists], metadata=about)


def _run_fields() -> list[Any]:
    # The run's own rewards are a map; the table of all its rewards is a list.
    pa: Any = pyarrow()
    return [
        pa.field("own_rewards", field.type) if field.name == "rewards" else field
        for field in schema("runs")
    ]


# --- one row a run --------------------------------------------------------------------


def nest(tables: Mapping[str, Any]) -> Any:
    """Fold six tables into one with a row a run, in the order of the runs table.

    Rows of runs that the runs table does not have are left out: their writer was killed
    before it had written all.
    """
    pa: Any = pyarrow()
    runs = tables["runs"]
    names = runs.column("run_id").to_pylist()
    places = {run: place for place, run in enumerate(names)}
    if len(places) < len(names):
        twice = next(run for place, run in enumerate(names) if places[run] != place)
        msg = f"tables must have each run once, got several of {twice!r}; write them anew"
        raise TraceFormatError(msg)
    columns = dict(zip(nested_schema().names, runs.columns, strict=False))
    for name in ALL:
        columns[name] = _lists(tables[name], places)
    return pa.table(columns, schema=nested_schema())


def _lists(table: Any, places: Mapping[str, int]) -> Any:
    pa: Any = pyarrow()
    at = [places.get(run, -1) for run in table.column("run_id").to_pylist()]
    if at != sorted(at) or (at and at[0] < 0):
        order = [i for i in sorted(range(len(at)), key=at.__getitem__) if at[i] >= 0]
        table = table.take(pa.array(order, pa.int64()))
        at = [at[i] for i in order]
    counts = Counter(at)
    offsets = [0]
    for place in range(len(places)):
        offsets.append(offsets[-1] + counts[place])
    if table.num_rows == 0:  # which older releases cannot make structs of
        struct = pa.array([], pa.struct(list(table.schema)))
    else:
        struct = _one_array(table.to_struct_array())
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct)


def _one_array(column: Any) -> Any:
    """Return a column as one array; older releases give chunks even of one."""
    pa: Any = pyarrow()
    if not isinstance(column, pa.ChunkedArray):
        return column
    chunks = column.chunks
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def unnest(
    nested: Any,
    only: Iterable[str] = ALL,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> list[Rows]:
    """Return the rows of each run of a table with one row a run.

    Args:
        nested: What `nest` returned, or a part of it.
        only: Tables that are wanted besides `runs`; the others are empty.
        columns: Of tables that are wanted in part only, by name: the columns.
    """
    wanted = frozenset(only)
    chosen = columns or {}
    own = nested.select(range(len(schema("runs")))).rename_columns(schema("runs").names)
    runs = pylist(own, "runs")
    parts = {
        name: _parts(nested.column(name), name, chosen.get(name)) if name in wanted else None
        for name in ALL
    }
    return [
        Rows(run, *(_part(parts[name], place) for name in ALL)) for place, run in enumerate(runs)
    ]


def _part(parts: list[list[Json]] | None, place: int) -> list[Json]:
    return [] if parts is None else parts[place]


def _parts(column: Any, name: str, columns: Sequence[str] | None) -> list[list[Json]]:
    array = _one_array(column)
    counts = array.value_lengths().to_pylist()
    table = _table_of(array.flatten())
    rows = pylist(table if columns is None else table.select(list(columns)), name)
    parts: list[list[Json]] = []
    start = 0
    for count in counts:
        parts.append(rows[start : start + (count or 0)])
        start += count or 0
    return parts


def _table_of(structs: Any) -> Any:
    """Return a column of structs as a table; older releases forget where a part of one ends."""
    pa: Any = pyarrow()
    return pa.Table.from_arrays(structs.flatten(), names=[field.name for field in structs.type])


def pylist(table: Any, name: str) -> list[Json]:
    """Turn a table into rows, leaving out what is null."""
    kinds = {column.name: column.kind for column in TABLES[name]}
    rows: list[Json] = [{} for _ in range(table.num_rows)]
    for column in table.column_names:
        array = table.column(column)
        if array.null_count == len(array):
            continue
        values: list[Any] = array.to_pylist()
        kind = kinds.get(column, "text")
        if kind in MAPS or kind == "json":
            read: Callable[[Any], Any] = dict if kind in MAPS else read_document
            values = [None if value is None else read(value) for value in values]
        if array.null_count == 0:
            for row, value in zip(rows, values, strict=True):
                row[column] = value
            continue
        for row, value in zip(rows, values, strict=True):
            if value is not None:
                row[column] = value
    return rows


def read_document(text: str) -> Any:
    """Read what a `json` column holds.

    Raises:
        TraceFormatError: If it is no JSON.
    """
    if not _has_long_number(text):
        with suppress(ValueError):  # half a surrogate pair is for the slower reader
            return orjson.loads(text)
    try:
        return read_json(text)
    except ValueError as error:
        msg = f"a json column must hold JSON, got {text[:40]!r}"
        raise TraceFormatError(msg) from error


_LONG: Final = re.compile(r"\d{19}")


def _has_long_number(text: str) -> bool:
    """Whether an integer may be beyond 64 bits, which orjson would read as a float."""
    return _LONG.search(text) is not None
