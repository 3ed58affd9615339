"""Reading a store: documents by ref, and the runs that use them."""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from orchtrace_otel.content import segments
from orchtrace_otel.content.folders import Folder, LocalFolder, open_folder
from orchtrace_otel.errors import ContentError

SEGMENTS: Final = "segments"
"""Subfolder of the segments."""
DELETED: Final = "deleted"
"""Subfolder with a file for each run whose content was deleted, named by it."""

_MOST_PARSED: Final = 4_096
"""Documents that are kept parsed; a long conversation reads its history once."""
_READ_ONCE: Final = "turn"
"""The kind that is not: nothing else names a turn, so that whoever reads it has it."""
_MOST_SEGMENTS: Final = 4
"""Segments of a remote store that are kept in memory."""


class Document(NamedTuple):
    """A document of a store: its kind, one of `segments.KINDS`, and what its JSON holds."""

    kind: str
    body: Any


class _Place(NamedTuple):
    """Where a document is."""

    segment: int
    kind: str
    offset: int
    length: int


class Store:
    """A store as it was when it was opened or last refreshed.

    Keeps an index of some 300 bytes a document in memory, and no content but the documents
    read last. Safe beside processes that write; not for several threads at once.

    Args:
        folder: Where it is kept.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._names: list[str] = []
        self._read_to: dict[str, int] = {}
        self._index: dict[str, _Place] = {}
        self._runs: dict[str, set[str]] = {}
        self._users: Counter[str] = Counter()
        self._deleted: set[str] = set()
        self._parsed: OrderedDict[str, Document] = OrderedDict()
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._files: dict[str, int] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take in what was written, deleted or collected since."""
        names = self.folder.names(SEGMENTS)
        if any(name not in names for name in self._names):
            self._forget()  # collected: what was there may have moved
        self._deleted = {name.rpartition("/")[2] for name in self.folder.names(DELETED)}
        for name in names:
            try:
                self._scan(name)
            except FileNotFoundError:
                continue  # collected just now; what it held is in another one
        self._count()

    def _forget(self) -> None:
        self.close()
        self._names.clear()
        self._read_to.clear()
        self._index.clear()
        self._runs.clear()
        self._parsed.clear()
        self._held.clear()

    def _scan(self, name: str) -> None:
        known = self._read_to.get(name)
        if known is not None and not self.folder.is_local:
            return  # an object is written once
        data = self.folder.read(name)
        if known is None:
            self._names.append(name)
        number = self._names.index(name)
        start = known or 0
        for line in segments.read(data[start:] if start else data):
            if line.kind == segments.USE:
                body = data[start + line.offset : start + line.offset + line.length]
                self._runs.setdefault(line.name, set()).update(body.decode().split(","))
            else:
                place = _Place(number, line.kind, start + line.offset, line.length)
                self._index.setdefault(line.name, place)
        # A torn line may still be completed by who writes it.
        self._read_to[name] = data.rfind(b"\n") + 1

    def _count(self) -> None:
        self._users = Counter()
        for run_id, refs in self._runs.items():
            if run_id not in self._deleted:
                self._users.update(refs)

    @property
    def runs(self) -> dict[str, int]:
        """The runs whose content is kept, and how many documents each uses."""
        return {
            run_id: len(refs) for run_id, refs in self._runs.items() if run_id not in self._deleted
        }

    def uses(self, run_id: str) -> frozenset[str]:
        """Return the refs of the documents that a run uses."""
        return frozenset(() if run_id in self._deleted else self._runs.get(run_id, ()))

    def references(self, ref: str) -> int:
        """Return how many runs use a document; none of those that were deleted."""
        return self._users[ref]

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, str) and ref in self._index and self._users[ref] > 0

    def __len__(self) -> int:
        return sum(1 for ref in self._index if self._users[ref] > 0)

    def get(self, ref: str) -> Document:
        """Return a document; do not change what it holds.

        Raises:
            ContentError: If the store has none of that ref, or it was deleted.
        """
        parsed = self._parsed.get(ref)
        if parsed is not None:
            self._parsed.move_to_end(ref)
            return parsed
        place = self._index.get(ref)
        if place is None or self._users[ref] == 0:
            why = "it was never written, or was deleted"
            msg = f"content must be in the store {self.folder!r}, {ref!r} is not: {why}"
            raise ContentError(msg)
        try:
            body = self._body(place)
        except FileNotFoundError:
            self.refresh()
            return self.get(ref)
        document = Document(place.kind, orjson.loads(body))
        if place.kind == _READ_ONCE:
            return document
        self._parsed[ref] = document
        if len(self._parsed) > _MOST_PARSED:
            self._parsed.popitem(last=False)
        return document

    def _body(self, place: _Place) -> bytes:
        name = self._names[place.segment]
        if isinstance(self.folder, LocalFolder):
            file = self._files.get(name)
            if file is None:
                file = self._files[name] = os.open(self.folder.path / name, os.O_RDONLY)
            return os.pread(file, place.length, place.offset)
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = self.folder.read(name)
            if len(self._held) > _MOST_SEGMENTS:
                self._held.popitem(last=False)
        return held[place.offset : place.offset + place.length]

    def close(self) -> None:
        """Let go of the files that are open."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(where: str | Path) -> Store:
    """Open a store for reading: a folder, or any URL that fsspec knows.

    Raises:
        ConfigError: If fsspec does not know the URL.
        MissingDependencyError: If fsspec, or what it needs for such a URL, is not installed.
    """
    return Store(open_folder(where))
