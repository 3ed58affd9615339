"""Collecting what nobody uses any more, and deleting one run's content on request.

A document lives as long as a run uses it that was not deleted. Segments are never
changed: one that holds something dead is written anew without it and then deleted, and
small ones are put together. A segment that a process is writing has its lock held, and
is left for the next time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchtrace_otel.content import gate, segments
from orchtrace_otel.content.folders import Folder, LocalFolder, open_folder
from orchtrace_otel.content.output import lock, new_name
from orchtrace_otel.content.store import DELETED, SEGMENTS
from orchtrace_otel.errors import ConfigError

_SEGMENT_BYTES: Final = 16 * 1_024 * 1_024
_RUN_ID: Final = re.compile("[0-9a-f]{32}-[0-9a-f]{16}")
_WAIT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What collecting did.

    Attributes:
        documents: Documents that were dropped: dead ones, and second copies.
        bytes: Bytes that are free again.
        segments: Segments that there were.
        busy: Segments that a process is writing; they were left alone.
    """

    documents: int = 0
    bytes: int = 0
    segments: int = 0
    busy: int = 0


def delete_run(store: str | Path | Folder, run_id: str) -> Collected:
    """Delete the content of one run: what no other run uses is gone from the files.

    From the moment it is called readers do not find it any more. What lies in a segment
    that another process is writing goes when that one is collected; `busy` says so. Such a
    process takes nothing more of the run.

    Args:
        store: Folder or URL of the store.
        run_id: The run, `Trace.trace_id`.

    Raises:
        ConfigError: If `run_id` is no run's id.
    """
    if not _RUN_ID.fullmatch(run_id):
        msg = f"delete_run() needs a run's id, <32 hex digits>-<16 hex digits>, got {run_id!r}"
        raise ConfigError(msg)
    folder = _folder(store)
    folder.write(f"{DELETED}/{run_id}", b"deleted\n")
    return collect(folder)


def collect(store: str | Path | Folder, *, segment_bytes: int = _SEGMENT_BYTES) -> Collected:
    """Drop what no run uses, and put small segments together.

    Args:
        store: Folder or URL of the store.
        segment_bytes: Size up to which segments are put together.
    """
    folder = _folder(store)
    _end_own_segment(folder)
    names = folder.names(SEGMENTS)
    with _held(folder, names) as free:
        deleted = {name.rpartition("/")[2] for name in folder.names(DELETED)}
        living = _living(folder, names, deleted)
        done = _Sweep(folder, living, deleted, segment_bytes)
        for name in free:
            done.take(name)
        done.finish()
    return Collected(
        documents=done.dropped,
        bytes=done.freed,
        segments=len(names),
        busy=len(names) - len(free),
    )


def _folder(store: str | Path | Folder) -> Folder:
    return open_folder(store) if isinstance(store, (str, Path)) else store


def _end_own_segment(folder: Folder) -> None:
    """End the segment that this very process writes, so that it can be collected too."""
    recorder = gate.active()
    writer = None if recorder is None else recorder.writer
    if writer is not None and repr(writer.folder) == repr(folder):
        writer.flush(_WAIT_SECONDS, roll=True)


@contextmanager
def _held(folder: Folder, names: list[str]) -> Generator[list[str]]:
    """Hold the locks of the segments that nobody writes, and return their names."""
    if not isinstance(folder, LocalFolder):
        yield names
        return
    files: dict[str, int] = {}
    try:
        for name in names:
            file = _locked(folder.path / name)
            if file is not None:
                files[name] = file
        yield list(files)
    finally:
        for file in files.values():
            os.close(file)


def _locked(path: Path) -> int | None:
    """Open and lock a segment; None where somebody writes it, or it was collected just now."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    if lock(file) and os.fstat(file).st_nlink:
        return file
    os.close(file)
    return None


def _living(folder: Folder, names: list[str], deleted: set[str]) -> set[str]:
    """Return the refs that a run uses which was not deleted."""
    living: set[str] = set()
    for name in names:
        try:
            data = folder.read(name)
        except FileNotFoundError:
            continue
        for line in segments.read(data):
            if line.kind == segments.USE and line.name not in deleted:
                body = data[line.offset : line.offset + line.length]
                living.update(body.decode().split(","))
    return living


class _Sweep:
    """Writes segments anew, without what is dead."""

    def __init__(
        self, folder: Folder, living: set[str], deleted: set[str], segment_bytes: int
    ) -> None:
        self._folder = folder
        self._living = living
        self._deleted = deleted
        self._most = segment_bytes
        self._lines: list[bytes] = []
        self._size = 0
        self._found = 0
        self._taken: list[str] = []
        self._refs: set[str] = set()
        self.dropped = 0
        self.freed = 0

    def take(self, name: str) -> None:
        """Take in a segment; one that is large and all alive is left as it is."""
        try:
            data = self._folder.read(name)
        except FileNotFoundError:
            return  # behind a URL somebody else may collect as well
        lines, dropped = self._alive(data)
        size = sum(map(len, lines))
        if not dropped and len(data) >= self._most // 2:
            return
        self._found += len(data)
        self.dropped += dropped
        self._lines += lines
        self._size += size
        self._taken.append(name)
        if self._size >= self._most:
            self._put()

    def _alive(self, data: bytes) -> tuple[list[bytes], int]:
        lines: list[bytes] = []
        dropped = start = 0
        for line in segments.read(data):
            # A torn line before it ends where this one begins.
            start = data.rfind(b"\n", 0, line.offset) + 1
            if self._is_alive(line):
                lines.append(data[start : line.end])
            else:
                dropped += line.kind != segments.USE
        return lines, dropped

    def _is_alive(self, line: segments.Line) -> bool:
        if line.kind == segments.USE:
            return line.name not in self._deleted
        if line.name not in self._living or line.name in self._refs:
            return False
        self._refs.add(line.name)
        return True

    def _put(self) -> None:
        """Write what was taken, then delete where it was; a crash between leaves both, no harm."""
        is_as_it_was = len(self._taken) == 1 and self._size == self._found
        if not is_as_it_was:
            if self._lines:
                self._folder.write(new_name(), b"".join(self._lines))
            for name in self._taken:
                self._folder.delete(name)
        self.freed += self._found - self._size
        self._lines, self._taken = [], []
        self._size = self._found = 0

    def finish(self) -> None:
        """Write the rest."""
        self._put()
