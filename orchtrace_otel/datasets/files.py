"""The files of a data set: written beside their place and put there when they are complete."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import orjson

from orchtrace_otel.datasets.drafts import Draft, clear_abandoned
from orchtrace_otel.datasets.runs import Record
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.tables.arrow import pyarrow
from orchtrace_otel.tables.scratch import Scratch

if TYPE_CHECKING:
    from orchtrace_otel.datasets.writer import Writer

_SEEN: Final = "create table seen (digest blob primary key) without rowid;"
_GATHERED: Final = 1_024
"""Rows that go into a Parquet file at a time."""


class Sink(Protocol):
    """Takes the records of one split."""

    def write(self, text: str) -> None:
        """Take a record, as JSON text."""
        ...

    def close(self) -> None:
        """Put everything down."""
        ...


class JsonLines:
    """A file of JSON lines, in UTF-8."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def write(self, text: str) -> None:
        """Write a line."""
        self._file.write(text.encode() + b"\n")

    def close(self) -> None:
        """Put everything down."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()


class ParquetRows:
    """A Parquet file with a row a record.

    Args:
        path: The file.
        schema: Its Arrow schema; a record's other keys are left out, missing ones are null.
    """

    def __init__(self, path: Path, schema: Any) -> None:

        self._schema = schema
        self._writer = pyarrow("parquet").ParquetWriter(path, schema, compression="zstd")
        self._rows: list[Any] = []

    def write(self, text: str) -> None:
        """Take a record."""
        self._rows.append(orjson.loads(text))
        if len(self._rows) >= _GATHERED:
            self._put()

    def close(self) -> None:
        """Put everything down."""
        try:
            self._put()
        finally:
            self._writer.close()

    def _put(self) -> None:
        pa: Any = pyarrow()
        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows = []


class Output:
    """The folder of a data set: splits, lineage, and what becomes of them at the end.

    Everything is written into a folder beside `out`, whose name begins with a dot, and
    renamed when it is complete. A failure, or a `with` that is left by an exception,
    leaves nothing.

    Args:
        out: The data set's folder; new or empty.
        writer: Whose records come.
        deduplicate: Whether a record with equal data is left out.

    Raises:
        ConfigError: If `out` is something else, or cannot be made.
    """

    def __init__(self, out: Path, writer: Writer, *, deduplicate: bool) -> None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            msg = f"--out must be a new or an empty folder, got {str(out)!r}; choose another one"
            raise ConfigError(msg)
        if out.exists() and (out.samefile(Path.cwd()) or out.is_mount()):
            msg = (
                "--out must be a folder that another can be put in place of, "
                f"got the current one or a mount point, {str(out)!r}; choose a folder inside it"
            )
            raise ConfigError(msg)
        self._out = out
        self._writer = writer
        self._sinks: dict[str, Sink] = {}
        self._hash = hashlib.sha256()
        self.counts: Counter[str] = Counter()
        clear_abandoned(out)
        try:
            self._draft = Draft(out)
        except OSError as error:
            msg = (
                f"--out must be a folder that can be written, got {str(out)!r} "
                f"({error.strerror}); choose another one"
            )
            raise ConfigError(msg) from error
        try:
            with _named(self.draft):
                self._lineage = JsonLines(self.draft / "lineage.jsonl")
            self._seen = Scratch(_SEEN) if deduplicate else None
        except OSError:
            self._draft.discard()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None or self.draft.exists():
            self.discard()

    @property
    def draft(self) -> Path:
        """The folder that it is written into, until it is in its place."""
        return self._draft.path

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all records with their split and lineage, in order: 64 hexadecimal digits."""
        return self._hash.hexdigest()

    def write(self, split: str, record: Record, text: str) -> bool:
        """Write a record; returns False for a duplicate that is left out.

        Raises:
            OSError: If it cannot be written; it names the file.
        """
        if self._seen is not None:
            digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
            if self._seen.one("select 1 from seen where digest = ?", (digest,)) is not None:
                return False
            self._seen.execute_many("insert into seen values (?)", [(digest,)])
        number = self.counts[split]
        lineage = _lineage(split, number, record)
        line = orjson.dumps(lineage).decode()
        if self._writer.is_open:
            text = _with_columns(text, record)
        with _named(self.draft):
            if split not in self._sinks:
                self._sinks[split] = self._writer.sink(self.draft, split)
            self._sinks[split].write(text)
            self._lineage.write(line)
        self._hash.update(f"{line}\n{text}\n".encode())
        self.counts[split] += 1
        return True

    def finish(self, pages: dict[str, str]) -> None:
        """Close all files, add pages of text by their name, and put the folder in its place."""
        with _named(self._out):
            for sink in (*self._sinks.values(), self._lineage):
                sink.close()
            for name, text in pages.items():
                (self.draft / name).write_text(text, encoding="utf-8")
            self._draft.put()
        self._let_go()

    def discard(self) -> None:
        """Leave nothing behind."""
        self._let_go()
        for sink in (*self._sinks.values(), self._lineage):
            with suppress(Exception):
                sink.close()
        self._draft.discard()

    def _let_go(self) -> None:
        if self._seen is not None:
            self._seen.close()
            self._seen = None


class _named:  # noqa: N801 - used as `with _named(path)`
    """Give an `OSError` inside it the name of a file, for some have none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(self._path)


def _lineage(split: str, number: int, record: Record) -> dict[str, Any]:
    return {
        "split": split,
        "row": number,
        "runs": list(record.runs),
        "turns": list(record.turns),
        "weight": record.weight,
        "label": record.label,
        "label_missing": record.missing,
        "group": record.group,
    }


def _with_columns(text: str, record: Record) -> str:
    """Add our columns to a record's JSON text, which has others."""
    columns = {
        "run_id": record.runs[0] if record.runs else None,
        "turn_id": record.turns[0] if record.turns else None,
        "weight": record.weight,
        "label_missing": record.missing,
    }
    return f"{text[:-1]},{orjson.dumps(columns).decode()[1:]}"
