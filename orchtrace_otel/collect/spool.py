"""The write-ahead spool: what was acknowledged is on disk before it is acknowledged.

A folder of segments, each a file of records::

    length  4 bytes, big-endian, of the payload
    crc32   4 bytes, of kind and payload
    kind    1 byte
    payload

A process killed while it wrote leaves at most one record that is not whole, at the end;
it was not acknowledged and is passed over. A killed process loses nothing written, fsync
or not: the pages are the kernel's. fsync is for the machine that loses power.

A segment is held by records on their way and by open runs with spans in it, and removed
when nothing holds it.
"""

from __future__ import annotations

import os
import struct
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

Fsync: TypeAlias = Literal["always", "batch", "never"]
"""Before each acknowledgement, once a second, or when the kernel likes."""

SPANS: Final = 1
LOGS: Final = 2

_HEAD: Final = struct.Struct(">IIB")
_BATCH_S: Final = 1.0


class Record(NamedTuple):
    """What the spool holds.

    Attributes:
        segment: Number of its segment.
        kind: `SPANS` or `LOGS`.
        payload: An encoded request.
    """

    segment: int
    kind: int
    payload: bytes


class Spool:
    """Appends records, and hands back those of an earlier process.

    Args:
        folder: Where the segments lie; made where it is missing.
        fsync: When to call fsync.
        segment_bytes: Size at which a segment is sealed and the next one begun.
    """

    def __init__(
        self, folder: Path, fsync: Fsync = "batch", segment_bytes: int = 32 * 2**20
    ) -> None:
        self._folder = folder
        self._fsync = fsync
        self._segment_bytes = segment_bytes
        self._lock = threading.Lock()
        self._appending = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        if fsync != "never":
            sync_path(folder.parent)
        self._sizes = {int(path.stem): path.stat().st_size for path in folder.glob("*.spool")}
        self._before = sorted(self._sizes)
        self._holds = dict.fromkeys(self._sizes, 0)
        self._active = self._last = max(self._sizes, default=0) + 1
        self._descriptor = -1
        self._synced = time.monotonic()
        self._owes_sync = False
        self.torn = 0

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(self._sizes.copy().values())

    @property
    def segments(self) -> int:
        """Number of segments on disk."""
        return len(self._sizes)

    def replay(self) -> Iterator[Record]:
        """Read what an earlier process left; each record's segment is held once more.

        What is not whole is passed over and counted in `torn`; nobody was told that it
        was taken.
        """
        for segment in self._before:
            self.hold(segment)
            for kind, payload in self._read(segment):
                self.hold(segment)
                yield Record(segment, kind, payload)
            self.release(segment)

    def _read(self, segment: int) -> Iterator[tuple[int, bytes]]:
        with self._path(segment).open("rb") as file:
            while True:
                head = file.read(_HEAD.size)
                if not head:
                    return
                if len(head) == _HEAD.size:
                    length, crc, kind = _HEAD.unpack(head)
                    payload = file.read(length)
                    if len(payload) == length and zlib.crc32(payload, kind) == crc:
                        yield kind, payload
                        continue
                self.torn += 1
                return

    def append(self, records: Sequence[tuple[int, bytes]]) -> int:
        """Write records, all of them or none, and hold their segment once for each.

        Returns:
            The number of the segment they are in.

        Raises:
            OSError: If they could not be written; the spool is as it was.
        """
        data = b"".join(
            part
            for kind, payload in records
            for part in (_HEAD.pack(len(payload), zlib.crc32(payload, kind), kind), payload)
        )
        with self._appending:
            return self._append(data, len(records))

    def _append(self, data: bytes, count: int) -> int:
        if self._descriptor < 0 or self._sizes[self._active] >= self._segment_bytes:
            self._begin()
        size = self._sizes[self._active]
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self._sync()
        except OSError:
            self._seal(size)
            raise
        with self._lock:
            self._sizes[self._active] = size + len(data)
            self._holds[self._active] += count
        return self._active

    def _begin(self) -> None:
        self._seal(None)
        # No number is tried twice: what failed before may have left its file.
        number = self._last = self._last + 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._path(number), flags, 0o600)
        try:
            if self._fsync != "never":
                sync_path(self._folder)
        except OSError:
            os.close(descriptor)
            self._remove(number)
            raise
        self._descriptor = descriptor
        with self._lock:
            before, self._active = self._active, number
            self._sizes[number] = 0
            self._holds[number] = 0
        self._remove_unheld(before)

    def _seal(self, size: int | None) -> None:
        """Close the segment in use; cut it back to `size` where a write to it failed."""
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        try:
            if size is not None:
                # Where even this fails the record is not whole, and passed over.
                with suppress(OSError):
                    os.ftruncate(descriptor, size)
            elif self._fsync != "never":
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _sync(self) -> None:
        now = time.monotonic()
        self._owes_sync = self._fsync == "batch"
        if self._fsync == "always" or (self._owes_sync and now - self._synced >= _BATCH_S):
            os.fsync(self._descriptor)
            self._synced = now
            self._owes_sync = False

    def sync_late(self) -> None:
        """Wait for the disk where nothing was written for a while, and `batch` owes it."""
        with self._appending:
            if self._descriptor >= 0 and self._owes_sync:
                self._sync()

    def hold(self, segment: int) -> None:
        """Keep a segment for one more reason."""
        with self._lock:
            self._holds[segment] += 1

    def release(self, segment: int, count: int = 1) -> None:
        """Keep a segment for a reason less; without any it is removed."""
        with self._lock:
            self._holds[segment] -= count
        self._remove_unheld(segment)

    def _remove_unheld(self, segment: int) -> None:
        with self._lock:
            if segment == self._active or self._holds.get(segment, 1) > 0:
                return
            del self._holds[segment], self._sizes[segment]
        self._remove(segment)

    def _remove(self, segment: int) -> None:
        with suppress(OSError):  # what stays is taken up by the next process, and changes nothing
            self._path(segment).unlink(missing_ok=True)

    def oldest(self) -> int | None:
        """Number of the oldest segment that is sealed; None where there is none."""
        with self._lock:
            return min((number for number in self._sizes if number != self._active), default=None)

    def close(self) -> None:
        """Let go of the segment in use; it is removed where nothing holds it."""
        self._seal(None)
        with self._lock:
            last, self._active = self._active, self._active + 1
        self._remove_unheld(last)

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:012}.spool"


def sync_path(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
