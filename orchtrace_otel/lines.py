"""A file of whole lines that several processes append to.

What holds, whoever is killed when: a line once written is never changed, two lines
are never joined, and half a line is at most the last thing in the file, until the
next writer takes it away.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import orjson

from orchtrace_otel.schema import writers_lock

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_CHUNK: Final = 65_536

# A lock of fcntl belongs to the process: it does not keep threads apart, and closing
# any descriptor of the locked file gives it up. Hence one mutex for the process, and a
# lock file beside the data that nobody but this module opens. In exchange a fork does
# not inherit it, as it would inherit a lock of flock, and so cannot hold it for ever.
_mutex = threading.Lock()


def _renew_mutex() -> None:
    global _mutex  # noqa: PLW0603 (a child's copy may be held by a thread it does not have)
    _mutex = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_mutex)


class LineFile:
    """Appends lines to `path`, and renames the file away when it is full.

    The file in use always has the name `path`; full ones are `<stem>.000001<suffix>`
    and so on, oldest first. Nothing is kept open between two lines, so a fork, a
    rename or a removed folder needs no care.

    Args:
        path: Where to append; its folder is made anew where it is gone.
        max_bytes: Size that a file does not exceed, unless one line alone does.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._lock = writers_lock(path)

    def check(self) -> None:
        """Open what `append` will open, so that a wrong place shows at once.

        Raises:
            OSError: If the place cannot be written.
        """
        with self._locked():
            if self.path.exists():
                with self._open():
                    pass

    def append(self, line: bytes) -> int:
        """Write `line`, which holds no line feed, and the line feed: all of it or nothing.

        Returns:
            Where in the file it begins.

        Raises:
            OSError: If it could not be written; the file is as it was.
        """
        record = line + b"\n"
        with self._locked():
            with self._open() as descriptor:
                size = _mend(descriptor)
                full = size > 0 and size + len(record) > self._max_bytes
                if not full:
                    _write_whole(descriptor, record, size)
                    return size
            with suppress(FileNotFoundError):  # who rotates such files has taken it away meanwhile
                self.path.rename(self._next_full())
            with self._open() as descriptor:
                _write_whole(descriptor, record, 0)
        return 0

    @contextmanager
    def _locked(self) -> Generator[None, None, None]:
        import fcntl  # noqa: PLC0415 - where there is none, what may write lines still loads

        with _mutex:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            try:
                descriptor = os.open(self._lock, flags, 0o666)
            except FileNotFoundError:  # somebody cleared the folder away
                self._lock.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self._lock, flags, 0o666)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)

    @contextmanager
    def _open(self) -> Generator[int, None, None]:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o666)
        try:
            yield descriptor
        except OSError as error:
            # What a descriptor is of is not known to the system's own message.
            error.filename = error.filename or str(self.path)
            raise
        finally:
            os.close(descriptor)

    def _next_full(self) -> Path:
        stem, suffix = self.path.stem, self.path.suffix
        pattern = re.compile(re.escape(stem) + r"\.(\d{6,})" + re.escape(suffix))
        names = (pattern.fullmatch(other.name) for other in self.path.parent.iterdir())
        last = max((int(match[1]) for match in names if match), default=0)
        return self.path.with_name(f"{stem}.{last + 1:06}{suffix}")


def _mend(descriptor: int) -> int:
    """Take away half a line that a killed writer left; return the size that remains."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    start = _last_line_start(descriptor, size)
    if _is_json(os.pread(descriptor, size - start, start)):
        # A whole document whose writer (an editor, say) ended it without a line feed.
        os.write(descriptor, b"\n")
        return size + 1
    os.ftruncate(descriptor, start)
    return start


def _last_line_start(descriptor: int, size: int) -> int:
    end = size
    while end > 0:
        begin = max(0, end - _CHUNK)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except ValueError:
        return False
    return True


def _write_whole(descriptor: int, record: bytes, size: int) -> None:
    rest = memoryview(record)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        # The disk is full, or a limit was hit, somewhere inside the line. Where even
        # this fails, the next writer mends the file.
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise
