"""The segment that a process writes: a file that lines are appended to, or an object in the making.

Each process writes segments of its own. On a local folder it holds a lock on the one it
writes, which the system takes away when the process ends, however it ends: who collects
leaves a segment alone whose lock is held.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from orchtrace_otel.content.folders import Folder, LocalFolder
from orchtrace_otel.content.store import DELETED, SEGMENTS

if TYPE_CHECKING:
    from orchtrace_otel.content.writer import Batch


class Output(Protocol):
    """Where a writer puts lines."""

    @property
    def is_open(self) -> bool:
        """Whether a segment is begun."""
        ...

    def is_new(self, ref: str) -> bool:
        """Whether the segment does not hold a document yet; from now on it does."""
        ...

    def is_full(self, most: int) -> bool:
        """Whether the segment has reached its size, or its age."""
        ...

    def write(self, lines: bytes, batches: Sequence[Batch]) -> None:
        """Add lines to the segment, all or none."""
        ...

    def roll(self) -> None:
        """End the segment."""
        ...

    def give_up(self) -> Sequence[Batch]:
        """Drop what could not be put down, and return it."""
        ...

    def leave(self) -> None:
        """Let go of the segment in the child of a fork: it is the parent's."""
        ...

    def deleted(self) -> frozenset[str] | None:
        """Return the runs whose content was deleted; None where that is as it was."""
        ...


def new_name() -> str:
    """Return the name of a new segment; names are in order of time."""
    now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return f"{SEGMENTS}/{now}-{secrets.token_hex(6)}.seg"


class LocalOutput:
    """A segment in a folder of this machine."""

    def __init__(self, folder: LocalFolder) -> None:
        self._folder = folder
        self._file: int | None = None
        self._size = 0
        self._refs: set[str] = set()
        self._seen: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether a segment is begun."""
        return self._file is not None

    def is_new(self, ref: str) -> bool:
        """Whether the segment does not hold a document yet; from now on it does."""
        if ref in self._refs:
            return False
        self._refs.add(ref)
        return True

    def is_full(self, most: int) -> bool:
        """Whether the segment has reached its size."""
        return self._size >= most

    def write(self, lines: bytes, batches: Sequence[Batch]) -> None:
        """Add lines to the segment; where that fails, none of them stays.

        Raises:
            OSError: If they cannot be written.
        """
        del batches
        try:
            if self._file is None:
                self._file = self._open()
            written = 0
            while written < len(lines):
                written += os.write(self._file, memoryview(lines)[written:])
        except OSError:
            if self._file is not None:
                with suppress(OSError):
                    os.ftruncate(self._file, self._size)
            self.roll()
            raise
        self._size += len(lines)

    def _open(self) -> int:
        path = self._folder.path / new_name()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        lock(file)
        return file

    def roll(self) -> None:
        """End the segment; the next write begins another one."""
        file, self._file = self._file, None
        self._size = 0
        self._refs.clear()
        if file is not None:
            os.close(file)  # gone whatever it raises: its number may be another file's by then

    def give_up(self) -> Sequence[Batch]:
        """Drop nothing: what was written is written."""
        return ()

    def leave(self) -> None:
        """Let go of the segment in the child of a fork; the parent's lock stays."""
        self.roll()

    def deleted(self) -> frozenset[str] | None:
        """Return the runs whose content was deleted; None where nothing changed.

        Raises:
            OSError: If they cannot be read, as where they are another user's.
        """
        try:
            changed = (self._folder.path / DELETED).stat().st_mtime_ns
        except OSError:
            return None
        if changed == self._seen:
            return None
        names = self._folder.names(DELETED)
        self._seen = changed
        return frozenset(name.rpartition("/")[2] for name in names)


class RemoteOutput:
    """A segment behind a URL: kept until it is full or old, then put down as a whole.

    Args:
        folder: Where it goes.
        most: Bytes of a segment.
        oldest: Seconds that a segment may wait.
    """

    def __init__(self, folder: Folder, most: int, oldest: float) -> None:
        self._folder = folder
        self._most = most
        self._oldest = oldest
        self._lines: list[bytes] = []
        self._batches: list[Batch] = []
        self._refs: set[str] = set()
        self._size = 0
        self._since = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a segment is begun."""
        return bool(self._lines)

    def is_new(self, ref: str) -> bool:
        """Whether the segment does not hold a document yet; from now on it does."""
        if ref in self._refs:
            return False
        self._refs.add(ref)
        return True

    def is_full(self, most: int) -> bool:
        """Whether the segment has reached its size, or its age."""
        is_old = self.is_open and time.monotonic() - self._since >= self._oldest
        return self._size >= most or is_old

    def write(self, lines: bytes, batches: Sequence[Batch]) -> None:
        """Keep lines for the segment."""
        if not self._lines:
            self._since = time.monotonic()
        self._lines.append(lines)
        self._batches += batches
        self._size += len(lines)

    def roll(self) -> None:
        """Put the segment down; it is kept where that fails."""
        if self._lines:
            self._folder.write(new_name(), b"".join(self._lines))
        self.leave()

    def give_up(self) -> Sequence[Batch]:
        """Drop what could not be put down, and return it."""
        left = self._batches
        self.leave()
        return left

    def leave(self) -> None:
        """Begin anew."""
        self._lines = []
        self._batches = []
        self._refs = set()
        self._size = 0

    def deleted(self) -> frozenset[str] | None:
        """Say nothing: to ask a store again and again costs, and a segment is never open there."""
        return None


def lock(file: int) -> bool:
    """Lock a file against whoever collects; False where somebody else holds it."""
    try:
        fcntl: Any = import_module("fcntl")
    except ModuleNotFoundError:  # Windows: there who collects must be alone
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
