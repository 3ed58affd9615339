"""Rows to the six tables of Arrow: into columns of values first, a few rows at a time.

Rows are many small objects. Where a few hundred of them are alive at a time, and no
more, Python's collector of garbage has next to nothing to look at, which saves more
time than anything else here does. Columns are few objects, however long.
"""

from __future__ import annotations

from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.tables.arrow import arrow_types, pyarrow, schema
from orchtrace_otel.tables.columns import MAPS, TABLES, Column
from orchtrace_otel.tables.misfits import dump_json, fits_all, keep_spelling, put_aside
from orchtrace_otel.tables.rows import ALL, Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orchtrace_otel.model import Json

_FEW: Final = 400
"""Rows after which they become values of columns: fewer than start the collector, which is 700."""


def flat(runs: Iterable[Rows]) -> dict[str, Any]:
    """Return the six tables of some runs, each in the order of the runs.

    Args:
        runs: Are let go of on the way; they need not be alive together.
    """
    tables = {name: _Values(TABLES[name]) for name in ("runs", *ALL)}
    few: list[Rows] = []
    size = 0
    for rows in runs:
        few.append(rows)
        size += 1 + sum(len(getattr(rows, name)) for name in ALL)
        if size >= _FEW:
            _take(few, tables)
            few.clear()
            size = 0
    _take(few, tables)
    return {name: table.made(name) for name, table in tables.items()}


def table_of(name: str, rows: list[Json]) -> Any:
    """Return some rows of one table as Arrow's."""
    values = _Values(TABLES[name])
    values.take(rows)
    return values.made(name)


def _take(runs: Sequence[Rows], tables: dict[str, _Values]) -> None:
    tables["runs"].take([rows.run for rows in runs])
    for name in ALL:
        tables[name].take([row for rows in runs for row in getattr(rows, name)])


class _Values:
    """The values of one table, column by column."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._known: dict[str, list[Any]] = {}
        self._count = 0

    def take(self, rows: list[Json]) -> None:
        """Add rows; what no row so far has is no column yet."""
        for name in set[str]().union(*rows) - self._known.keys():
            self._known[name] = [None] * self._count
        for name, values in self._known.items():
            try:
                found = list(map(itemgetter(name), rows))  # much the faster way
            except KeyError:
                found = list(map(dict[str, Any].get, rows, repeat(name)))
            values.extend(found)
        self._count += len(rows)

    def made(self, name: str) -> Any:
        """Return the table of all rows."""
        pa: Any = pyarrow()
        held = enumerate(self._known.get("extra", ()))
        extras: dict[int, Json] = {place: extra for place, extra in held if extra is not None}
        arrays = [
            _column(column, self._known[column.name], extras)
            if column.name in self._known
            else pa.nulls(self._count, arrow_types()[column.kind])
            for column in self._columns[:-1]
        ]
        texts: list[str | None] = [None] * self._count
        for place, extra in extras.items():
            texts[place] = dump_json(extra)
        arrays.append(pa.array(texts, pa.string()))
        return pa.Table.from_arrays(arrays, schema=schema(name))


def _column(column: Column, values: list[Any], extras: dict[int, Json]) -> Any:
    if not (column.is_derived and column.kind in MAPS):
        return _array(column, values, extras)
    # Rows of one run share what is computed for them: each mapping is made once.
    pa: Any = pyarrow()
    distinct = {id(value): value for value in values}
    places = {one: place for place, one in enumerate(distinct)}
    made = _array(column, list(distinct.values()), extras)
    return made.take(pa.array([places[id(value)] for value in values], pa.int32()))


def _array(column: Column, values: list[Any], extras: dict[int, Json]) -> Any:
    pa: Any = pyarrow()
    kind = column.kind
    of_type = arrow_types()[kind]
    held = set(map(type, values))
    if held <= _NOTHING:
        return pa.nulls(len(values), of_type)
    if kind == "json":
        values = [None if value is None else dump_json(value) for value in values]
        return pa.array(values, of_type)
    if kind in _NUMBERS and not column.is_derived and _may_be_respelled(kind, held):
        keep_spelling(column, values, extras)
        held = set(map(type, values))
    if fits_all(kind, values, held):
        try:
            return pa.array(_pairs(values) if kind in MAPS else values, of_type)
        except (pa.ArrowException, UnicodeError, OverflowError):
            pass
    put_aside(column, values, extras)
    return pa.array(_pairs(values) if kind in MAPS else values, of_type)


_NOTHING: Final = frozenset({type(None)})
_NUMBERS: Final = frozenset({"whole", "number", "numbers"})


def _may_be_respelled(kind: str, held: set[type]) -> bool:
    return kind == "numbers" or (float if kind == "whole" else int) in held


def _pairs(values: list[Any]) -> list[Any]:
    return [None if value is None else list(value.items()) for value in values]
