"""Files of spans as others write them, told apart by what is in them.

| kind | who writes it |
|---|---|
| `otlp_json` | the Collector's file exporter, a request a line, of any signal; any one |
| `otlp_messages` | the same with `format: proto`: requests in protobuf, each behind its length |
| `rows` | ClickHouse, `SELECT * FROM otel_traces FORMAT JSONEachRow` |
| `row_table` | the same, `FORMAT Parquet` |

Any of them but Parquet may be packed with gzip, and those of text begin with a byte-order mark.
Lines of metrics and profiles are passed over. Spans of a run may lie in several files,
as they do where the Collector rotates them: read all of them, then build.
"""

from __future__ import annotations

import gzip
import importlib
import io
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from orchtrace_otel.clickhouse import read_parquet, read_rows
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.otlp import Received, read_json, read_lines, read_messages

Kind: TypeAlias = Literal["otlp_json", "otlp_messages", "rows", "row_table"]

_HEAD: Final = 4096
_LOGS: Final = b'{"resourceLogs"'
_NO_SPANS: Final = (_LOGS, b'{"resourceMetrics"', b'{"resourceProfiles"')
_BOM: Final = b"\xef\xbb\xbf"
_GZIP: Final = b"\x1f\x8b"
_PARQUET: Final = b"PAR1"
_LENGTH: Final = 4
_FIRST_FIELD: Final = 0x0A
_ROW_KEYS: Final = (b'"TraceId"', b'"SpanId"', b'"Timestamp"')
_COLUMNS: Final = frozenset(("TraceId", "SpanId", "Timestamp", "SpanAttributes"))


class Unread(NamedTuple):
    """A place in a file that could not be read, and why; what is around it could."""

    where: str
    why: str


def kind_of(file: Path) -> Kind | None:
    """Return which kind of spans a file holds; None where it holds none."""
    if not file.is_file():
        return None
    try:
        with _opened(file) as opened:
            head = opened.read(_HEAD)
    except (OSError, EOFError):
        return None
    if head.startswith(_PARQUET):
        return "row_table" if _is_row_table(file) else None
    head = head.removeprefix(_BOM)
    if b'"resourceSpans"' in head or _holds_no_spans(head):
        return "otlp_json"
    if head.lstrip().startswith(b"{") and all(key in head for key in _ROW_KEYS):
        return "rows"
    is_message = len(head) > _LENGTH and head[_LENGTH] == _FIRST_FIELD
    return "otlp_messages" if is_message and head[0] == 0 else None


def read_spans(file: Path) -> Iterator[Received | Unread]:
    """Read the spans of one file; what cannot be read is said, and the rest of it read.

    Raises:
        MissingDependencyError: If a library that the kind needs is not installed.
    """
    try:
        yield from _read(file, kind_of(file))
    except (OSError, EOFError, zlib.error) as error:  # a packed file that ends too early
        yield Unread(str(file), f"must be a whole file: {error}")


def _read(file: Path, kind: Kind | None) -> Iterator[Received | Unread]:
    match kind:
        case "rows":
            yield from _by_line(file, rows=True)
        case "row_table":
            yield from _whole(file, read_parquet(file))
        case "otlp_messages":
            with _opened(file) as opened:
                data = opened.read()
            yield from _whole(file, read_messages(data))
        case "otlp_json":
            yield from _by_line(file, rows=False)
        case _ if not file.is_file():
            yield Unread(str(file), "must be a file that is there")
        case _:
            yield Unread(str(file), "must hold spans: OTLP, or rows of otel_traces")


def _whole(file: Path, received: Iterator[Received]) -> Iterator[Received | Unread]:
    try:
        yield from received
    except TraceFormatError as error:
        yield Unread(str(file), str(error))


def _by_line(file: Path, *, rows: bool) -> Iterator[Received | Unread]:
    """Read a file of lines, or one request that was written over many."""
    with _opened(file) as lines:
        first = lines.readline().removeprefix(_BOM)
        if not rows and not first.rstrip().endswith(b"}"):
            yield from _whole(file, iter(_request(first + lines.read())))
            return
        read = read_rows if rows else read_lines
        for number, line in enumerate(chain((first,), lines), 1):
            if not rows and _holds_no_spans(line):
                continue
            try:
                yield from read(line)
            except TraceFormatError as error:
                yield Unread(f"{file}:{number}", str(error))


def log_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Return the lines of a file that are requests of log events, each with its number.

    The Collector's file exporter writes them among those of spans, or into a file of their own.
    """
    with suppress(OSError, EOFError, zlib.error), _opened(file) as lines:
        for number, line in enumerate(lines, 1):
            text = line.removeprefix(_BOM).lstrip() if number == 1 else line.lstrip()
            if text.startswith(_LOGS):
                yield number, text


def _holds_no_spans(line: bytes) -> bool:
    """Whether a line is a request of another signal, which may share a file with spans."""
    return line.lstrip().startswith(_NO_SPANS)


def _request(text: bytes) -> Iterator[Received]:
    yield from read_json(text)


def _opened(file: Path) -> io.BufferedIOBase:
    """Open a file, unpacked."""
    with file.open("rb") as opened:
        is_packed = opened.read(len(_GZIP)) == _GZIP
    return gzip.open(file) if is_packed else file.open("rb")


def _is_row_table(file: Path) -> bool:
    """Whether a Parquet file has the columns of `otel_traces`."""
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
        return set(parquet.read_schema(file).names) >= _COLUMNS
    except (ImportError, OSError, ValueError):
        return False
