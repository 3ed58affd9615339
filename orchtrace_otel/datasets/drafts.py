"""The folder that a data set is written into before it is put in its place.

Its owner holds a lock on a file in it, which the system takes away when the process ends,
however it ends: whoever writes the same data set next takes a draft away that nobody holds.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_LOCK: Final = ".lock"
_MOST: Final = 1_024


class Draft:
    """A folder beside `out`, whose name begins with a dot, that becomes `out`.

    Args:
        out: The folder to be.

    Attributes:
        path: The folder by now.

    Raises:
        OSError: If it cannot be made.
    """

    def __init__(self, out: Path) -> None:
        # A killed process leaves its draft, and the next one may well have its process id.
        self.path = out.with_name(f".{out.name}.{os.getpid()}-{os.urandom(4).hex()}")
        self._out = out
        self._file: int | None = None
        self.path.mkdir(parents=True)
        try:
            self._hold()
        except OSError:
            self.discard()
            raise

    def _hold(self) -> None:
        """Lock the draft; where there are no locks nobody will take it for abandoned."""
        self._file = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        # Whose it is, once it is held: a file without is no abandoned draft, but a new one.
        if _lock(self._file, is_patient=True):
            os.write(self._file, _machine())

    def put(self) -> None:
        """Put the folder in its place.

        Raises:
            OSError: If it cannot be put there.
        """
        # The lock goes last: a draft without one stays when its process is killed.
        if self._out.exists():
            self._out.rmdir()
        (self.path / _LOCK).unlink()
        self.path.rename(self._out)
        self._let_go()

    def discard(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def clear_abandoned(out: Path) -> None:
    """Take away the drafts of `out` whose processes are gone, as far as that is sure.

    A lock tells it. One of another machine may not be seen here on some network's disks, so
    drafts of others stay, and so do those that were made where there are no locks.
    """
    named = re.compile(rf"\.{re.escape(out.name)}\.\d+-[0-9a-f]{{8}}")
    with suppress(OSError), os.scandir(out.parent) as entries:
        for entry in entries:
            if named.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                _clear(Path(entry.path))


def _clear(folder: Path) -> None:
    try:
        file = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return
    try:
        if _lock(file, is_patient=False) and os.read(file, _MOST) == _machine() != b"":
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(file)


def _machine() -> bytes:
    return platform.node().encode()[:_MOST]


def _lock(file: int, *, is_patient: bool) -> bool:
    """Lock a file; False where somebody else holds it, or where there are no locks."""
    try:
        fcntl: Any = import_module("fcntl")
        fcntl.flock(file, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
    except (ModuleNotFoundError, OSError):
        return False
    return True
