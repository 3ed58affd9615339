"""Which files a verb's arguments mean, and which of their lines others supersede."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from orchtrace_otel.collect import LOCK
from orchtrace_otel.errors import without_password

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STDIN: Final = Path("/dev/stdin")

_AMENDED: Final = re.compile(rb'"revision": ?[1-9]')


# click's parameter types are generic for type checkers only, until its newest releases.
if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType


class Traces(ParamType):
    """A file of traces, `-` for standard input, or a folder as `jsonl:` writes it."""

    name = "file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Path, ...]:
        """Return the files, oldest first, or fail as a wrong usage."""
        if value == "-":
            return (STDIN,)
        path = Path(str(value))
        if is_elsewhere(value):
            msg = (
                f"must be a file or folder of this machine, got {without_password(str(value))!r}; "
                f"`orchtrace convert` "
                f"makes lines of a folder of Parquet behind a URL"
            )
            self.fail(msg, param, ctx)
        if not path.exists():
            self.fail(f"there is no {str(path)!r}; `orchtrace demo` makes a first file", param, ctx)
        if not path.is_dir():
            return (path,)
        from orchtrace_otel.tables.reading import (  # noqa: PLC0415 - of folders alone
            by_age,
            holds_losses,
            holds_rewards,
        )

        # Unlike glob this raises where the folder may not be read.
        named = (file for file in path.iterdir() if file.suffix == ".jsonl" and file.is_file())
        found = sorted(named, key=by_age)
        files = tuple(file for file in found if not (holds_rewards(file) or holds_losses(file)))
        if not files:
            self.fail(f"no *.jsonl of traces in the folder {str(path)!r}; {_how(path)}", param, ctx)
        return files


class Target(click.Path):
    """A file or folder of this machine that is written."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """Return its path, or fail as a wrong usage."""
        if is_elsewhere(value):
            came = without_password(str(value))
            self.fail(f"must be a path of this machine, got {came!r}", param, ctx)
        return super().convert(value, param, ctx)


def known(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """Refuse NaN, which is neither below nor above anything."""
    if value is not None and math.isnan(value):
        msg = f"{value} is no number"
        raise click.BadParameter(msg)
    return value


def is_elsewhere(value: object) -> bool:
    """Whether a path is none of this machine: a URL, or nothing, as of a variable that is unset.

    Nothing would be the current folder, and of a URL a folder `s3:` would be made there.
    """
    return value == "" or "://" in str(value)


def _how(folder: Path) -> str:
    """Say how traces come into a folder that has none."""
    if (folder / LOCK).exists():
        return "`orchtrace collect` writes a run there --grace seconds after it ended"
    return "`orchtrace convert` makes them of Parquet and of spans"


def can_write(path: Path) -> bool:
    """Whether this process may write a file, make one that is not there, or fill a folder."""
    there = path if path.exists() else path.absolute().parent
    return os.access(there, os.W_OK | os.X_OK if there.is_dir() else os.W_OK)


def superseded(files: Iterable[Path]) -> set[tuple[Path, int]]:
    """Return the lines whose run has a higher revision in these files, by file and number.

    A collector writes a run again, under a higher revision, when more of it comes. The last
    one of a run that is another one now counts for nothing itself.
    """
    # What comes through a pipe can be read once.
    named = [file for file in files if file.is_file()]
    if not any(_is_amended(file) for file in named):
        return set()
    newest: dict[str, int] = {}
    found: list[tuple[str, int, tuple[Path, int]]] = []
    for file in named:
        for number, run_id, revision, is_gone in _revisions(file):
            newest[run_id] = max(revision + is_gone, newest.get(run_id, 0))
            found.append((run_id, revision, (file, number)))
    return {place for run_id, revision, place in found if revision < newest[run_id]}


def _is_amended(file: Path) -> bool:
    with file.open("rb") as lines:
        return any(_AMENDED.search(line) for line in lines)


def _revisions(file: Path) -> Iterator[tuple[int, str, int, bool]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                document = orjson.loads(line)
                stop = document["events"][-1]
                revision, is_gone = int(stop.get("revision", 0)), "superseded_by" in stop
                yield number, document["trace_id"], revision, is_gone
            except (ValueError, LookupError, TypeError, AttributeError):
                continue  # no trace: who reads it says so


def shown(path: Path) -> str:
    """Return the name of a file as people read it."""
    return "<stdin>" if path == STDIN else str(path)
