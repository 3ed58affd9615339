"""A temporary database on disk, for what is too much for memory."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


class Scratch:
    """SQLite in a file that is gone when it is closed; what fails, fails as a file does.

    Where the system lets it, the file has no name from the start, so that nothing of it is
    left however the process ends.

    Args:
        script: Statements that make its tables.
        folder: Where the file lies; the system's place for temporary files unless given.

    Raises:
        OSError: From every method, if the file cannot be written or read.
    """

    def __init__(self, script: str, folder: Path | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="orchtrace-", dir=folder)
        self._path = Path(self._folder.name) / "scratch.sqlite"
        self._base = sqlite3.connect(self._path)
        try:
            with self._as_file():
                self._base.executescript(
                    "pragma journal_mode=off; pragma synchronous=off; pragma cache_size=-8192;"
                    + script
                )
        except OSError:
            self.close()
            raise
        if os.name == "posix":
            self._folder.cleanup()

    def execute(self, query: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Run a statement; rows are read as they are asked for."""
        with self._as_file():
            rows = self._base.execute(query, values)
        return self._read(rows)

    def one(self, query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Run a statement and return its first row; None where there is none."""
        return next(self.execute(query, values), None)

    def execute_many(self, query: str, values: Iterable[tuple[Any, ...]]) -> None:
        """Run a statement for each of several values."""
        with self._as_file():
            self._base.executemany(query, values)

    def _read(self, rows: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
        while True:
            with self._as_file():
                row = rows.fetchone()
            if row is None:
                return
            yield row

    def close(self) -> None:
        """Remove the file."""
        with suppress(sqlite3.Error):
            self._base.close()
        self._folder.cleanup()

    @contextmanager
    def _as_file(self) -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            why = f"a temporary file could not be used ({error}); set TMPDIR to a place with room"
            raise OSError(errno.EIO, why, str(self._path)) from error
