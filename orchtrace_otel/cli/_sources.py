"""What is read beside traces: for `export` and `convert` Parquet and spans, and stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from orchtrace_otel import otlp
from orchtrace_otel.cli._files import STDIN, ParamType
from orchtrace_otel.content.folders import open_folder
from orchtrace_otel.errors import MissingDependencyError
from orchtrace_otel.sources import Unread, kind_of, log_lines, read_spans
from orchtrace_otel.tables.lake import is_lake
from orchtrace_otel.tables.reading import Bad, Item, late_files, line_files, read_file, read_lake

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import click


class Place(ParamType):
    """A file or folder of traces, `-` for standard input, or a URL of a folder of Parquet."""

    name = "in"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return where it is, or fail as a wrong usage."""
        text = str(value)
        if text == "-":
            return str(STDIN)
        if not text or ("://" not in text and not Path(text).exists()):
            self.fail(f"there is no {text!r}; `orchtrace demo` makes a first file", param, ctx)
        return text


_OF_A_STORE: Final = ("segments/", "key")


class Store(ParamType):
    """A folder of captured content, or a URL of one."""

    name = "store"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return where it is, or fail as a wrong usage: what is not there is no empty store."""
        text = str(value)
        folder = Path(text).expanduser()
        if not text or ("://" not in text and not folder.is_dir()):
            msg = f"there is no folder {text!r}; a run with content on makes a store"
            self.fail(msg, param, ctx)
        if "://" not in text and not any((folder / part).exists() for part in _OF_A_STORE):
            msg = f"{text!r} is no store of content, which has {' or '.join(_OF_A_STORE)} in it"
            self.fail(f"{msg}; a run with content on makes one", param, ctx)
        return text


def has_spans(places: Iterable[str]) -> bool:
    """Whether a file of spans is among files and folders; what comes through a pipe is gone."""
    here = (Path(place) for place in places if "://" not in place)
    return any(file.is_file() and kind_of(file) for path in here for file in _files(path))


def read_places(places: Iterable[str]) -> Iterator[Item]:
    """Go through files and folders of traces, lakes, and files of spans among them.

    The spans of a run may stand anywhere in all of them, so that they come last.
    """
    of_spans: list[Path] = []
    for place in places:
        yield from _read_place(place, of_spans)
    yield from _built(of_spans)


def _read_place(place: str, of_spans: list[Path]) -> Iterator[Item]:
    """Go through one place, and add to those before the files of spans that it has."""
    if "://" in place:
        yield from _read_url(place)
        return
    path = Path(place)
    is_of_parquet = path.is_dir() and is_lake(path)
    if is_of_parquet:
        yield from read_lake(path)
    kinds = {file: kind_of(file) for file in _files(path)}
    found = [file for file, kind in kinds.items() if kind is not None]
    of_spans += found
    files = line_files(path) if path.is_dir() else [path, *late_files(path)]
    for file in files:
        if file not in found:
            yield from read_file(file)
    for file in found:
        if kinds[file] == "otlp_json":
            yield from _late(file)
    if not (files or found or is_of_parquet):
        yield Bad(place, "must hold *.jsonl, *.json, spans or Parquet, came one without")


def _read_url(url: str) -> Iterator[Item]:
    if is_lake(url):
        yield from read_lake(url)
        return
    why = "must be a folder of Parquet as `parquet:` writes it, came a URL of none"
    yield Bad(repr(open_folder(url)), why)  # without the password it may hold


def _files(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


def _late(file: Path) -> Iterator[Item]:
    """Read the rewards that came later, in lines of log events."""
    for number, line in log_lines(file):
        try:
            from orchtrace_otel.collect.log_lines import late_rewards  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            msg = (
                "rewards in log events need opentelemetry-proto; "
                "run: pip install 'orchtrace-otel[collect]'"
            )
            raise MissingDependencyError(msg) from error
        yield from late_rewards(line, f"{file}:{number}")


def _built(files: list[Path]) -> Iterator[Item]:
    """Build the runs of files of spans."""
    received: list[otlp.Received] = []
    for file in files:
        for one in read_spans(file):
            if isinstance(one, Unread):
                yield Bad(*one)
            else:
                received.append(one)
    yield from otlp.traces(received)
