"""What `export` and `convert` read: traces as JSON lines or Parquet, and spans as OTLP JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from orchtrace_otel import otlp
from orchtrace_otel.cli._files import STDIN
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.tables.lake import is_lake
from orchtrace_otel.tables.reading import Bad, Item, line_files, read_file, read_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD: Final = 4_096

# click's parameter types are generic for type checkers only, until its newest releases.
if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType


class Place(_ParamType):
    """A file or folder of traces, `-` for standard input, or a URL of a folder of Parquet."""

    name = "in"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return where it is, or fail as a wrong usage."""
        text = str(value)
        if text == "-":
            return str(STDIN)
        if "://" not in text and not Path(text).exists():
            self.fail(f"there is no {text!r}; `orchtrace demo` makes a first file", param, ctx)
        return text


def read_place(place: str) -> Iterator[Item]:
    """Go through a file or folder of traces, a lake, or files of OTLP JSON among them."""
    path = Path(place)
    if "://" in place or (path.is_dir() and is_lake(path)):
        yield from read_lake(place)
    if "://" in place:
        return
    files = line_files(path) if path.is_dir() else [path]
    found = False
    for file in files:
        found = True
        yield from _read_spans(file) if _holds_spans(file) else read_file(file)
    if not found and not is_lake(path):
        yield Bad(place, "must hold *.jsonl, *.json or tables of Parquet, came one without")


def _holds_spans(file: Path) -> bool:
    """Whether a file is OTLP JSON, as the collector's file exporter writes it."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return b'"resourceSpans"' in opened.read(_HEAD)


def _read_spans(file: Path) -> Iterator[Item]:
    """Build the runs of a file of spans: those of a run may stand anywhere in it."""
    received: list[otlp.Received] = []
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                received += otlp.read_lines(line)
            except TraceFormatError as error:
                yield Bad(f"{file}:{number}", str(error))
    yield from otlp.traces(received)
