"""Where a store is kept: a folder of this machine, or any URL that fsspec knows."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from orchtrace_otel.errors import ConfigError, MissingDependencyError, without_password

if TYPE_CHECKING:
    from collections.abc import Generator


class Folder(Protocol):
    """The few things that a store does with files; names are relative, with slashes.

    Attributes:
        is_local: Whether it is a folder of this machine, whose files can be appended to.
    """

    is_local: bool

    def names(self, room: str) -> list[str]:
        """Return the names of the files in a subfolder, sorted; none where there is none."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file as a whole; raises FileNotFoundError where there is none."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Put down a file as a whole: nobody sees half of it."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""
        ...


class LocalFolder:
    """A folder of this machine.

    Args:
        path: Where it is; it is made when something is written.
    """

    is_local = True

    def __init__(self, path: Path) -> None:
        self._given = path
        self.path = path.absolute()  # a host may go to another folder meanwhile

    def __repr__(self) -> str:
        return str(self._given)

    def names(self, room: str) -> list[str]:
        """Return the names of the files in a subfolder, sorted."""
        try:
            with os.scandir(self.path / room) as found:
                return sorted(f"{room}/{entry.name}" for entry in found)
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        """Return a file as a whole."""
        return (self.path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """Put down a file as a whole, readable by its owner alone: it is content."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.parent / f".{path.name}.{os.getpid()}"
        try:
            with open_private(draft, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""
        (self.path / name).unlink(missing_ok=True)


def open_private(path: Path, mode: str) -> Any:
    """Open a file that only its owner may read."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


class RemoteFolder:
    """A folder behind a URL, through fsspec.

    Args:
        url: Such as `s3://bucket/content`; what fsspec needs beyond it comes from its own settings.

    Raises:
        MissingDependencyError: If fsspec, or what it needs for such a URL, is not installed.
        ConfigError: If fsspec does not know the URL.
    """

    is_local = False

    def __init__(self, url: str) -> None:
        self._shown = without_password(url)
        try:
            core: Any = import_module("fsspec.core")  # needs the extra
        except ModuleNotFoundError as error:
            msg = (
                f"a store behind a URL needs fsspec, got {self._shown!r}; "
                "run: pip install 'orchtrace-otel[files]'"
            )
            raise MissingDependencyError(msg) from error
        try:
            self._files, self._root = core.url_to_fs(url)
        except ImportError as error:
            library: object = getattr(error.__cause__, "name", None)
            to_do = f"run: pip install {library}" if library else str(error)
            msg = f"fsspec needs a library that is not installed for {self._shown!r}; {to_do}"
            raise MissingDependencyError(msg) from error
        except ValueError as error:
            msg = (
                f"a store must be a folder or a URL that fsspec knows, got {self._shown!r}: {error}"
            )
            raise ConfigError(msg) from error

    def __repr__(self) -> str:
        return self._shown

    def names(self, room: str) -> list[str]:
        """Return the names of the files in a subfolder, sorted."""
        self._files.invalidate_cache()
        try:
            with self._told():
                found = self._files.ls(f"{self._root}/{room}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(f"{room}/{str(path).rsplit('/', 1)[-1]}" for path in found)

    def read(self, name: str) -> bytes:
        """Return a file as a whole."""
        with self._told():
            return bytes(self._files.cat_file(f"{self._root}/{name}"))

    def write(self, name: str, data: bytes) -> None:
        """Put down a file as a whole; object stores show it when it is complete."""
        room = name.rpartition("/")[0]
        with self._told():
            with suppress(NotImplementedError):
                self._files.makedirs(f"{self._root}/{room}", exist_ok=True)
            self._files.pipe_file(f"{self._root}/{name}", data)

    def delete(self, name: str) -> None:
        """Delete a file, if there is one."""
        with suppress(FileNotFoundError), self._told():
            self._files.rm_file(f"{self._root}/{name}")

    @contextmanager
    def _told(self) -> Generator[None, None, None]:
        """Make an OSError of whatever the library behind a URL raises, such as S3's own errors."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:
            # By its class alone: its text may hold what is secret.
            msg = f"{type(error).__name__} of what reads and writes {self._shown}"
            raise OSError(msg) from error


def open_folder(where: str | Path) -> Folder:
    """Return the folder that a path or a URL names.

    Raises:
        MissingDependencyError: If fsspec, or what it needs for such a URL, is not installed.
        ConfigError: If fsspec does not know the URL.
    """
    text = str(where)
    if "://" in text and not text.startswith("file://"):
        return RemoteFolder(text.rstrip("/"))
    return LocalFolder(Path(text.removeprefix("file://")).expanduser())
