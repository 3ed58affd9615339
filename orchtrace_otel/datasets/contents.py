"""The content behind the refs of a run's calls."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from orchtrace_otel.content.store import Store, open_store
from orchtrace_otel.content.turn import read_turn
from orchtrace_otel.errors import ContentError

if TYPE_CHECKING:
    from orchtrace_otel.content.turn import TurnContent

Json: TypeAlias = dict[str, Any]


class Contents:
    """Reads calls from a store; opens it once a process, when it is first needed.

    Args:
        where: Folder or URL of the store; None where there is none.
    """

    def __init__(self, where: str | None) -> None:
        self._where = where
        self._store: Store | None = None
        self._process = os.getpid()

    def turn(self, row: Json) -> TurnContent:
        """Read what a row of the turns table refers to.

        Raises:
            ContentError: If it refers to nothing, there is no store, or the store lacks it.
        """
        ref = row.get("content_ref")
        if ref is None:
            msg = f"the content of call {row.get('id')!r} must have been captured, and was not"
            raise ContentError(msg)
        return read_turn(self._opened(), ref)

    def _opened(self) -> Store:
        if self._where is None:
            msg = "content needs its store; name it with --content FOLDER_OR_URL"
            raise ContentError(msg)
        if self._store is None or self._process != os.getpid():
            self._store, self._process = open_store(self._where), os.getpid()
        return self._store
