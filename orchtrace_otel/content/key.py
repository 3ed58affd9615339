"""The key of a store: what the processes that share it hash content with."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from orchtrace_otel.content.folders import Folder, LocalFolder
from orchtrace_otel.errors import ConfigError

_NAME: Final = "key"
_BYTES: Final = 32


def key_in(folder: Folder) -> str:
    """Return the key of a store; make it if there is none.

    Raises:
        ConfigError: If it can be neither read nor written.
    """
    if isinstance(folder, LocalFolder):
        return key_of(folder.path)
    try:
        try:
            return folder.read(_NAME).decode("ascii").strip()
        except FileNotFoundError:
            # Two that come at once may both write; what is there afterwards is the key.
            folder.write(_NAME, os.urandom(_BYTES).hex().encode("ascii"))
            return folder.read(_NAME).decode("ascii").strip()
    except OSError as error:
        raise ConfigError(_unusable(repr(folder), error)) from error


def key_of(store: Path) -> str:
    """Return the key that the processes which share a store hash with; make it if there is none.

    It is the store's file `key`, which only its owner may read.

    Raises:
        ConfigError: If it can be neither read nor written.
    """
    path = store / _NAME
    try:
        store.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            # Written aside and linked, so that nobody reads half a key.
            draft = store / f"{_NAME}.{os.getpid()}"
            draft.touch(mode=0o600)
            draft.write_text(os.urandom(_BYTES).hex(), encoding="ascii")
            try:
                os.link(draft, path)
            finally:
                draft.unlink()
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError(_unusable(repr(str(store)), error)) from error


def _unusable(where: str, error: OSError) -> str:
    return (
        f"a store of content must be a folder that can be written, got {where} "
        f"({error.strerror or error}); choose another one, "
        "or unset ORCHTRACE_STORE where that names it"
    )
