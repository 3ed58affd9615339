"""Going through files of traces, of whatever kind: what is a trace, what came late, what is bad.

A bad line or file is told and passed over; the rest is read.
"""

from __future__ import annotations

import re
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import orjson

from orchtrace_otel.content.folders import open_folder
from orchtrace_otel.errors import OrchtraceError
from orchtrace_otel.model import Json, Reward, Trace
from orchtrace_otel.schema import is_unfinished, read_lines
from orchtrace_otel.tables.arrow import nest, pylist, unnest
from orchtrace_otel.tables.lake import is_lake, parts, read_part
from orchtrace_otel.tables.restore import trace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from orchtrace_otel.content.folders import Folder


class Late(NamedTuple):
    """A reward that came after its run."""

    run_id: str
    reward: Reward


class Bad(NamedTuple):
    """What could not be read, and why."""

    where: str
    why: str


Item: TypeAlias = Trace | Late | Bad

_NUMBER: Final = re.compile(r"\.\d{6,}$")
"""What `jsonl:` puts behind the name of a file that is full."""

_PIECE: Final = 256
"""Runs of a part that are rows of Python at a time, which take ten times as much as in Arrow."""

LINES: Final = (".jsonl", ".json")
"""How the names of files of traces end."""


def read(place: str) -> Iterator[Item]:
    """Go through a file of traces, a folder of them, or a lake of Parquet.

    A folder is as `jsonl:` or `parquet:` write it, or both; a URL is a lake. Beside a file of
    traces lie the rewards that came later.

    Raises:
        MissingDependencyError: If it is Parquet and pyarrow is not installed.
        ConfigError: If fsspec does not know the URL.
    """
    if "://" in place:
        yield from read_lake(place)
        return
    path = Path(place)
    if not path.is_dir():
        yield from read_file(path)
        for file in late_files(path):
            yield from read_file(file)
        return
    if is_lake(path):
        yield from read_lake(path)
    for file in line_files(path):
        yield from read_file(file)


def read_all(places: Iterable[str]) -> Iterator[Item]:
    """Go through several places, one after another; raises as `read` does."""
    for place in places:
        yield from read(place)


def line_files(folder: Path) -> list[Path]:
    """Return the files of JSON lines in a folder, the oldest first; losses aside."""
    found = [file for file in folder.iterdir() if file.suffix in LINES and file.is_file()]
    return sorted((file for file in found if not holds_losses(file)), key=by_age)


def by_age(file: Path) -> tuple[str, bool, str]:
    """Sort `traces.000001.jsonl` before `traces.jsonl`, which is the one in use."""
    stem, _, number = file.stem.partition(".")
    return stem, not number, number


def holds_losses(path: Path) -> bool:
    """Whether a file is one of what could not be written, or an older part of it.

    Example:
        >>> holds_losses(Path("losses.000001.jsonl")), holds_losses(Path("with-losses.jsonl"))
        (True, False)
    """
    return path.name.startswith("losses.") or ".losses." in path.name


def holds_rewards(path: Path) -> bool:
    """Whether a file is one of rewards that came late, by its name.

    Example:
        >>> holds_rewards(Path("rewards.000001.jsonl")), holds_rewards(Path("with-rewards.jsonl"))
        (True, False)
    """
    return path.name.startswith("rewards.") or ".rewards." in path.name


def late_files(file: Path) -> list[Path]:
    """Return the files of rewards that came after the runs in a file, the oldest first.

    As `jsonl:` writes them: `rewards.jsonl` beside `traces.jsonl`, `X.rewards.jsonl` beside
    `X.jsonl`, and the older parts of either.
    """
    if not file.is_file() or holds_rewards(file):
        return []
    found: dict[Path, None] = {}
    # What looks like the number of an older part may be a part of the name.
    for name in dict.fromkeys((file.stem, _NUMBER.sub("", file.stem))):
        patterns = [f"{escape(name)}.rewards.jsonl", f"{escape(name)}.rewards.*.jsonl"]
        if name == "traces":
            patterns += ["rewards.jsonl", "rewards.*.jsonl"]
        for pattern in patterns:
            found.update(dict.fromkeys(sorted(file.parent.glob(pattern), key=by_age)))
    return list(found)


def read_file(path: Path) -> Iterator[Item]:
    """Go through a file of traces, or one of late rewards as `jsonl:` writes it."""
    if holds_rewards(path):
        yield from _read_rewards(path)
        return
    try:
        for line in read_lines(path):
            if line.trace is not None:
                yield line.trace
            else:
                yield Bad(f"{path}:{line.number}", str(line.faults[0]))
    except OSError as error:
        yield Bad(str(path), f"must be a file that can be read, got {error.strerror!r}")


def _read_rewards(path: Path) -> Iterator[Item]:
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip() and not is_unfinished(path, number, line):
                    yield _reward(line, f"{path}:{number}")
    except OSError as error:
        yield Bad(str(path), f"must be a file that can be read, got {error.strerror!r}")


def _reward(line: bytes, where: str) -> Item:
    try:
        record: Any = orjson.loads(line)
        reward = Reward.from_dict(record)
        run_id = record["run_id"]
    except (ValueError, TypeError, LookupError, AttributeError):
        return Bad(where, f"must be a reward with its run_id, came {line[:60]!r}")
    if not isinstance(run_id, str) or not reward.is_sound:
        return Bad(where, f"must be a sound reward with its run_id, came {line[:60]!r}")
    return Late(run_id, reward)


def read_lake(where: str | Path) -> Iterator[Item]:
    """Go through a lake of Parquet, part by part; a part is held in memory at a time."""
    folder = open_folder(where)
    for part in parts(folder):
        yield from read_one(folder, part)
    yield from read_late(folder)


def read_one(folder: Folder, part: str) -> Iterator[Trace | Bad]:
    """Go through one part of a lake."""
    try:
        nested = nest(read_part(folder, part))
        for start in range(0, nested.num_rows, _PIECE):
            for rows in unnest(nested.slice(start, _PIECE)):
                yield trace_of(rows)
    except (OrchtraceError, LookupError, TypeError, ValueError) as error:
        yield Bad(f"{folder!r}/runs/{part}", str(error))


def read_late(folder: Folder) -> Iterator[Late | Bad]:
    """Go through the rewards in a lake that came after their runs."""
    for part in parts(folder, "rewards", late=True):
        where = f"{folder!r}/rewards/{part}"
        try:
            rows = pylist(read_part(folder, part, ["rewards"])["rewards"], "rewards")
            found = [_late_of({**row, **row.get("extra", {})}) for row in rows]
        except (OrchtraceError, LookupError, TypeError, ValueError) as error:
            yield Bad(where, str(error))
            continue
        yield from found


def _late_of(row: Json) -> Late:
    return Late(row["run_id"], Reward.from_dict(row))
