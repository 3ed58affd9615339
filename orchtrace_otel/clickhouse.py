"""Spans that a Collector keeps in ClickHouse, to the same traces as over OTLP.

Rows of the table `otel_traces` as the Collector's ClickHouse exporter lays it out, in
either of its layouts: attributes as a map of texts, the default, or as JSON. Rows come
as lines of JSON (`FORMAT JSONEachRow`) or as Parquet::

    clickhouse-client -q "SELECT * FROM otel_traces FORMAT JSONEachRow" > spans.jsonl

A map of texts forgets what was a number or an array. What the builder reads is put
back by what it must be; the rest is not read.
"""

from __future__ import annotations

import calendar
import importlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, cast

import orjson

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import SpanRecord, is_ours
from orchtrace_otel.builder.keys import CLOSING_KEYS, POINT_KEYS, TOOL_CLOSING_KEYS
from orchtrace_otel.dialects import NUMBERS
from orchtrace_otel.errors import MissingDependencyError, TraceFormatError
from orchtrace_otel.otlp import Received, hexadecimal, keep_foreign, lines_of, nanoseconds, root_of

_ARRAYS: Final = {a.EDGES, a.EDGES_CLOSE, a.TURNS, a.FLAGS, a.FINISH_REASONS}
_REALS: Final = {a.WEIGHT, a.PROBABILITY, a.STOP_PROBABILITY}
_WRAP: Final = 2**64
_NANO: Final = 10**9
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)?", re.ASCII
)
_UNIX_TIME: Final = re.compile(r"(\d{1,11})\.(\d{1,9})", re.ASCII)
_INTEGER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_ERRORS: Final = frozenset(("Error", "STATUS_CODE_ERROR"))
_EXCEPTION: Final = "exception"


def read_rows(text: str | bytes) -> Iterator[Received]:
    r"""Read lines of JSON, each a row of `otel_traces`; empty lines are left out.

    Raises:
        TraceFormatError: If a line is no such row.

    Example:
        >>> row = '{"Timestamp": "2026-01-01 00:00:00.5", "Duration": 7, "SpanName": "GET",' \\
        ...   '"TraceId": "0af7651916cd43dd8448eb211c80319c", "SpanId": "00f067aa0ba902b7"}'
        >>> ((trace_id, span),) = read_rows(row)
        >>> span.start, span.end - span.start
        (1767225600500000000, 7)
    """
    for line in lines_of(text):
        if line.strip():
            try:
                row = _json(line)
            except (ValueError, RecursionError) as error:
                msg = (
                    "a row of otel_traces must be a line of JSON, got "
                    f"{len(line)} characters that are none; use FORMAT JSONEachRow"
                )
                raise TraceFormatError(msg) from error
            yield read_row(row)


def read_parquet(source: str | Path | IO[bytes]) -> Iterator[Received]:
    """Read the rows of a Parquet file that holds `otel_traces`.

    Args:
        source: Path of the file, or the open file.

    Raises:
        MissingDependencyError: If pyarrow is not installed.
        TraceFormatError: If it is no such file.
    """
    try:
        pa: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        msg = "reading Parquet needs pyarrow; run: pip install 'orchtrace-otel[files]'"
        raise MissingDependencyError(msg) from error
    try:
        for batch in parquet.ParquetFile(source).iter_batches(batch_size=4096):
            yield from map(read_row, _rows(pa, batch))
    except (pa.ArrowException, OSError) as error:
        msg = f"otel_traces in Parquet must be a Parquet file, got {source!r}: {error}"
        raise TraceFormatError(msg) from error


def _rows(pa: Any, batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch, times as whole nanoseconds, which Python's own cannot hold."""
    table = pa.Table.from_batches([batch])
    place = table.schema.get_field_index("Timestamp")
    if place >= 0 and pa.types.is_timestamp(table.schema.field(place).type):
        exact = table.column(place).cast(pa.timestamp("ns")).cast(pa.int64())
        table = table.set_column(place, "Timestamp", exact)
    wanted = [name for name in table.column_names if name in _COLUMNS]
    yield from table.select(wanted).to_pylist()


_COLUMNS: Final = frozenset(
    (
        "Timestamp",
        "TraceId",
        "SpanId",
        "ParentSpanId",
        "TraceState",
        "SpanName",
        "SpanAttributes",
        "Duration",
        "StatusCode",
        "Events.Name",
        "Events.Attributes",
    )
)


def read_row(row: Any) -> Received:
    """Read one row.

    Args:
        row: Column to value, as JSONEachRow and Parquet give them.

    Raises:
        TraceFormatError: If it is none.
    """
    try:
        return _received(row)
    except TraceFormatError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        msg = (
            "a row of otel_traces must have the columns that the Collector's exporter writes, "
            f"got one that cannot be read ({type(error).__name__}: {str(error)[:80]})"
        )
        raise TraceFormatError(msg) from error


def _received(row: Mapping[str, Any]) -> Received:
    start = _time(row["Timestamp"])
    attributes = _attributes(row.get("SpanAttributes") or {})
    record = SpanRecord(
        hexadecimal(str(row["SpanId"]), 16),
        str(row.get("ParentSpanId") or "").lower() or None,
        nanoseconds(start),
        # The exporter subtracts without a sign, so a span that ended too early wraps around.
        nanoseconds((start + int(row["Duration"])) % _WRAP),
        attributes,
        row.get("StatusCode") in _ERRORS,
    )
    if is_ours(attributes):
        record.root_id = root_of(str(row.get("TraceState") or ""))
    else:
        keep_foreign(record, str(row.get("SpanName") or ""), _raised(row))
    return hexadecimal(str(row["TraceId"]), 32), record


def _time(given: Any) -> int:
    """Return nanoseconds since the epoch, exactly; times are in UTC."""
    if isinstance(given, int):
        return given
    found = _TIME.fullmatch(str(given))
    if found is not None:
        seconds = calendar.timegm(time.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S"))
        return seconds * _NANO + int((found[3] or "").ljust(9, "0"))
    found = _UNIX_TIME.fullmatch(str(given))
    if found is not None:
        return int(found[1]) * _NANO + int(found[2].ljust(9, "0"))
    msg = f"a Timestamp in otel_traces must be a time with nanoseconds in UTC, got {given!r:.40}"
    raise TraceFormatError(msg)


def _json(text: str | bytes) -> Any:
    """Read JSON in which a path may be a value and have more below it.

    ClickHouse writes such a path twice: `{"edges": [...], "edges": {"close": [...]}}`.
    """
    held: Any = orjson.loads(text)
    if isinstance(held, dict):
        row = cast("dict[str, Any]", held)
        found = row.get("SpanAttributes", row)
        if isinstance(found, dict) and dict in map(type, cast("dict[str, Any]", found).values()):
            row = json.loads(text, object_pairs_hook=_merged)
        return row
    return held


def _merged(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose doubled keys hold both: the value under no further name."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key not in made:
            made[key] = value
        elif isinstance(made[key], dict) and not isinstance(value, dict):
            made[key][""] = value
        elif isinstance(value, dict):
            before = made[key]
            made[key] = {**(before if isinstance(before, dict) else {"": before}), **value}
    return made


def _attributes(given: Any) -> dict[str, Any]:
    """Return the attributes of either layout, with the types that the builder reads."""
    if isinstance(given, str):
        given = _json(given)
    pairs = dict(cast("Iterable[tuple[str, Any]]", given) if isinstance(given, list) else given)
    return {key: _restored(key, value) for key, value in _flat(pairs, "")}


def _flat(given: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Yield keys as OpenTelemetry writes them; ClickHouse's JSON cuts them at their dots."""
    for key, value in given.items():
        name = f"{path}.{key}" if path and key else path or key
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), name)
        else:
            yield name, value


def _restored(key: str, value: Any) -> Any:
    if key in _REALS:
        return _real(value)
    if isinstance(value, list):
        return (*cast("Iterable[Any]", value),)
    if not isinstance(value, str):
        return value
    restore = _RESTORED.get(key)
    return value if restore is None else restore(value)


def _real(value: Any) -> Any:
    """Return the number that a text, or JSON without a point in it, is of."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _array(text: str) -> Any:
    """Return the array of texts that a text is the JSON of, else the text."""
    if text.startswith("["):
        try:
            held: list[Any] = orjson.loads(text)
        except ValueError:
            return text
        return tuple(held) if all(isinstance(one, str) for one in held) else text
    return text


def _number(text: str) -> Any:
    return int(text) if _INTEGER.fullmatch(text) else text


def _truth(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text)


def _restoring(kinds: type | tuple[type, ...]) -> Callable[[str], Any] | None:
    """Return how to put back a value that must be of these types."""
    if kinds is bool:
        return _truth
    if kinds is int:
        return _number
    return _array if isinstance(kinds, tuple) and list in kinds else None


_RESTORED: Final[Mapping[str, Callable[[str], Any]]] = {
    **{
        key: restore
        for table in (CLOSING_KEYS, TOOL_CLOSING_KEYS, POINT_KEYS)
        for key, (_, kinds) in table.items()
        if (restore := _restoring(kinds)) is not None
    },
    **dict.fromkeys(_ARRAYS, _array),
    **dict.fromkeys((a.INPUT_TOKENS, a.OUTPUT_TOKENS, *NUMBERS), _number),
}


def _raised(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of the exceptions that a span recorded."""
    names = row.get("Events.Name") or ()
    held = row.get("Events.Attributes") or ()
    for name, found in zip(names, held, strict=False):
        if name == _EXCEPTION:
            yield str(_attributes(found).get("exception.type", ""))
