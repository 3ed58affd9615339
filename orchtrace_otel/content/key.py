"""The key of a store: what the processes that share it hash content with."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from orchtrace_otel.errors import ConfigError


def key_of(store: Path) -> str:
    """Return the key that the processes which share a store hash with; make it if there is none.

    It is the store's file `key`, which only its owner may read.

    Raises:
        ConfigError: If it can be neither read nor written.
    """
    path = store / "key"
    try:
        store.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            # Written aside and linked, so that nobody reads half a key.
            draft = store / f"key.{os.getpid()}"
            draft.touch(mode=0o600)
            draft.write_text(os.urandom(32).hex(), encoding="ascii")
            try:
                os.link(draft, path)
            finally:
                draft.unlink()
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        msg = (
            f"ORCHTRACE_STORE must be a folder that can be written, got {str(store)!r} "
            f"({type(error).__name__}); choose another one or unset it"
        )
        raise ConfigError(msg) from error
