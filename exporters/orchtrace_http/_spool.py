"""The spool: what was taken and not yet acknowledged, in files that outlive a crash.

Each process has a drawer, a folder of its own, that it holds locked while it lives.
A drawer holds batches, files of whole lines. A drawer that nobody holds is a dead
process's; whoever finds it takes it over. The kernel gives a lock up with the process
that held it, however it ended.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOCK: Final = "lock"
_SUFFIX: Final = ".jsonl"


class Batch:
    """Lines that are sent together.

    Args:
        path: Their file; None where they are in memory only.
        held: The lines that are in memory.
        records: How many lines they are; None where another process wrote them, and may
            have been killed in the middle of one.
        size: Bytes of these lines, behind which half a line may stand that could not be written.

    Attributes:
        damaged: Lines that are no record, though they end as one; known once it was read.
    """

    def __init__(
        self,
        path: Path | None,
        held: bytes = b"",
        records: int | None = None,
        size: int | None = None,
    ) -> None:
        self.path = path
        self.records = records
        self.damaged = 0
        self._held = held
        self._size = size

    def read(self) -> bytes:
        """Return its records; half a line at the end was not exported, and is left out.

        Raises:
            OSError: If the file cannot be read.
        """
        if self.path is None:
            return self._held
        data = self.path.read_bytes()
        if self.records is not None:
            return data[: self._size]
        whole, _, _ = data.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        sound = [line for line in lines if _is_record(line)]
        self.damaged = len(lines) - len(sound)
        return b"".join(line + b"\n" for line in sound)

    def remove(self) -> None:
        """Forget it; a file that cannot be removed is sent again by the next process."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)


def _is_record(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except ValueError:
        return False


def count(lines: bytes) -> int:
    """Return how many records some lines are."""
    return lines.count(b"\n")


class Drawer:
    """The batches of one process, dead or alive, while this one holds its lock.

    Args:
        folder: Where they are.
        lock: Descriptor of the locked file.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self._lock = lock

    def batches(self) -> list[Path]:
        """Return its batches, the oldest first."""
        return sorted(path for path in _entries(self.folder) if path.suffix == _SUFFIX)

    def close(self) -> None:
        """Give it up; it is removed where it is empty."""
        if not self.batches():
            with suppress(OSError):
                (self.folder / _LOCK).unlink(missing_ok=True)
                self.folder.rmdir()
        self.forget()

    def forget(self) -> None:
        """Let go of the lock; a fork's child does this with its copy, and its parent keeps it."""
        os.close(self._lock)


class Spool:
    """The drawers of one URL, this process's own among them.

    Args:
        folder: Where they are.
        max_bytes: Bytes that all drawers may have together, looked at when a batch begins.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._drawer: Drawer | None = None
        self._file: int | None = None
        self._path: Path | None = None
        self._size = self._records = 0

    @property
    def size(self) -> int:
        """Bytes of the batch that is being written."""
        return self._size

    def check(self) -> None:
        """Open what `append` will open, so that a wrong place shows at once.

        Raises:
            OSError: If it cannot be written.
        """
        self._mine()

    def append(self, line: bytes) -> None:
        """Add a line to the batch that is being written: all of it or nothing.

        Raises:
            OSError: If it could not be written.
        """
        descriptor = self._opened()
        try:
            # Over half a line that is left of one that could be neither written nor taken back.
            os.lseek(descriptor, self._size, os.SEEK_SET)
            _write_whole(descriptor, line)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._size)
            raise
        self._size += len(line)
        self._records += 1

    def seal(self) -> Batch | None:
        """End the batch that is being written, and return it, if there is one."""
        descriptor, path, records, size = self._file, self._path, self._records, self._size
        self._file, self._path, self._size, self._records = None, None, 0, 0
        if descriptor is not None:
            with suppress(OSError):  # it is closed all the same
                os.close(descriptor)
        if path is None:
            return None
        batch = Batch(path, records=records, size=size)
        if records == 0:
            batch.remove()
            return None
        return batch

    def lacks(self, wanted: int) -> bool:
        """Whether `wanted` bytes more are too many."""
        return self.bytes() + wanted > self._max_bytes

    def bytes(self) -> int:
        """Return the bytes of all drawers."""
        return sum(_size(path) for drawer in _entries(self.folder) for path in _entries(drawer))

    def abandoned(self) -> Iterator[Drawer]:
        """Take over the drawers of dead processes, one after another."""
        mine = None if self._drawer is None else self._drawer.folder
        for folder in sorted(_entries(self.folder)):
            if folder == mine or folder.name.startswith("."):
                continue
            drawer = _taken_over(folder)
            if drawer is not None:
                try:
                    yield drawer
                finally:
                    drawer.close()

    def close(self) -> None:
        """Give up this process's drawer; what is in it is the next process's to send."""
        drawer, self._drawer = self._drawer, None
        self.seal()
        if drawer is not None:
            drawer.close()

    def start_afresh(self) -> None:
        """Leave the drawer to the process that opened it: a fork's child takes one of its own."""
        drawer, self._drawer = self._drawer, None
        if self._file is not None:
            os.close(self._file)
        self._file, self._path, self._size, self._records = None, None, 0, 0
        if drawer is not None:
            drawer.forget()

    def _mine(self) -> Drawer:
        if self._drawer is None or not self._drawer.folder.exists():
            if self._drawer is not None:  # somebody removed it
                self._drawer.forget()
                self._drawer = None
            self._drawer = _new_drawer(self.folder)
        return self._drawer

    def _opened(self) -> int:
        if self._file is not None and os.fstat(self._file).st_nlink > 0:
            return self._file
        path = self._mine().folder / f"{time.time_ns():019}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
        new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if self._file is not None:  # somebody removed it, and it is there while it is open
            try:
                _write_whole(new, os.pread(self._file, self._size, 0))
            except OSError:
                os.close(new)
                Batch(path).remove()
                raise
            os.close(self._file)
        self._file, self._path = new, path
        return new


def _new_drawer(spool: Path) -> Drawer:
    """Make a drawer: under a name that nobody looks at until it is locked."""
    name = f"{time.time_ns():019}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    draft, folder = spool / f".{name}", spool / name
    draft.mkdir(parents=True, mode=0o700)
    try:
        lock = os.open(draft / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        with suppress(OSError):
            draft.rmdir()
        raise
    made = Drawer(draft, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        draft.rename(folder)
    except OSError:
        made.close()
        raise
    made.folder = folder
    return made


def _taken_over(folder: Path) -> Drawer | None:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return Drawer(folder, lock)


def _write_whole(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        written = os.write(descriptor, left)
        if written == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        left = left[written:]


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # sent, and gone meanwhile
        return 0
