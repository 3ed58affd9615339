"""A folder of Parquet files: where each table's rows lie, and how they are read.

`<table>/date=YYYY-MM-DD/<part>.parquet`: a part holds some whole runs, under the same
name in each table, and counts once it stands in `runs`, which is written last. So a
writer that is killed leaves whole parts, and at most rows that nobody asks for. Names
that begin with `late-` hold rewards that came after their runs.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.content.folders import open_folder
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.tables.arrow import pyarrow, schema
from orchtrace_otel.tables.columns import TABLES, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from orchtrace_otel.content.folders import Folder

LATE: Final = "late-"
SUFFIX: Final = ".parquet"
MARK: Final = b"orchtrace.tables"


def is_lake(where: str | Path) -> bool:
    """Whether a folder or URL has parts of ours in it: of runs, or of rewards that came late."""
    folder = open_folder(where)
    found = chain(parts(folder), parts(folder, "rewards", late=True))
    return next(found, None) is not None


def parts(folder: Folder, table: str = "runs", *, late: bool = False) -> Iterator[str]:
    """Name the parts, `date=.../<name>.parquet`, oldest date first."""
    for date in folder.names(table):
        for name in folder.names(date):
            stem = name.rpartition("/")[2]
            if stem.endswith(SUFFIX) and not stem.startswith(".") and stem.startswith(LATE) == late:
                yield name.partition("/")[2]


def read_part(folder: Folder, part: str, only: Iterable[str] = tuple(TABLES)) -> dict[str, Any]:
    """Read the tables of a part, in the layout of today.

    Columns of a later release of the same layout are left out, those of an earlier one
    are null.

    Args:
        folder: The lake.
        part: What `parts` named.
        only: Tables that are wanted; the others are empty.

    Raises:
        TraceFormatError: If a file is missing, is no Parquet of ours, or of a later layout.
    """
    wanted = frozenset(only)
    return {
        table: _read(folder, table, part) if table in wanted else schema(table).empty_table()
        for table in TABLES
    }


def _read(folder: Folder, table: str, part: str) -> Any:
    pa: Any = pyarrow()

    name = f"{table}/{part}"
    try:
        found = pyarrow("parquet").read_table(pa.BufferReader(folder.read(name)))
    except FileNotFoundError as error:
        msg = f"{name} must lie beside runs/{part}, and is missing; its runs are left out"
        raise TraceFormatError(msg) from error
    except (pa.ArrowException, OSError) as error:
        why = str(error).partition("\n")[0]
        msg = f"{name} must be a whole Parquet file, came one that is not ({why})"
        raise TraceFormatError(msg) from error
    _check_version(found.schema, table, name)
    return evolved(found, table)


def _check_version(found: Any, table: str, name: str) -> None:
    about: dict[bytes, bytes] = found.metadata or {}
    mark = about.get(MARK, b"").decode().split()
    if len(mark) != 2 or mark[0] != table or not mark[1].isdecimal():  # noqa: PLR2004 - name, number
        msg = f"{name} must be the table {table} as orchtrace writes it, came another Parquet file"
        raise TraceFormatError(msg)
    if int(mark[1]) > VERSION:
        msg = f"{name} must be of layout {VERSION} or before, came {mark[1]}; update orchtrace-otel"
        raise TraceFormatError(msg)


def evolved(found: Any, table: str) -> Any:
    """Return a table with exactly the columns of today; those it lacks are null."""
    pa: Any = pyarrow()
    wanted = schema(table)
    names = set(found.column_names)
    columns = [
        found.column(field.name).cast(field.type)
        if field.name in names
        else pa.nulls(found.num_rows, field.type)
        for field in wanted
    ]
    return pa.table(columns, schema=wanted)
