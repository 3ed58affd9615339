"""What waits to be sent, in order: batches in the spool and, where it cannot be written, in memory.

Safe for threads: whoever holds `changed` may look. The sender takes batches out, and
gives them back by leaving them in.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from orchtrace_http._spool import Batch, Spool, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from orchtrace_http._target import Target

_MOST_HELD: Final = 8 * 2**20
"""Bytes that are kept in memory while the spool cannot be written; then the oldest are lost."""
_ROOM_WITHIN_S: Final = 5.0
"""How long `put` waits for a URL that works and is slower than the runs come."""


class Outbox:
    """Takes lines in, hands batches out.

    Args:
        target: The bounds.
        lose: Called with the kind of a loss, its count, and why.
        note: Called with what costs no data yet, once a kind.
    """

    def __init__(
        self,
        target: Target,
        lose: Callable[[str, int, str], None],
        note: Callable[[str, str], None],
    ) -> None:
        self._target = target
        self._lose = lose
        self._note = note
        self.spool = Spool(target.folder, target.spool_bytes)
        self._begin()

    def _begin(self) -> None:
        self.changed = threading.Condition()
        self._sealed: deque[Batch] = deque()
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._since: float | None = None
        self._sending: Batch | None = None

    def start_afresh(self) -> None:
        """Forget what waits, which a fork leaves behind."""
        self.spool.start_afresh()
        self._begin()

    def put(self, line: bytes, is_working: Callable[[], bool]) -> None:
        """Take a line in.

        Args:
            line: With its line feed.
            is_working: Whether the URL takes what it is sent, so that a full spool is
                waited for.
        """
        with self.changed:
            if self.spool.size and self.spool.size + len(line) > self._target.batch_bytes:
                self._seal()
            try:
                if self.spool.size == 0:
                    self._make_room(len(line), is_working)
                self.spool.append(line)
            except OSError as error:
                self._hold(line, error)
            if self._since is None:
                self._since = time.monotonic()
            self.changed.notify_all()

    def due_in(self) -> float | None:
        """Return the seconds until there is something to send; None where nothing waits."""
        if self._sealed or self._held:
            return 0.0
        if self._since is None:
            return None
        return max(self._since + self._target.every_s - time.monotonic(), 0.0)

    def take(self, *, everything: bool) -> Batch | None:
        """Return the oldest batch, which stays in until it is `done`.

        Args:
            everything: Whether the one that is being written counts too, before its time.
        """
        with self.changed:
            if not self._sealed and (everything or self.due_in() == 0):
                self._seal()
            if not self._sealed and self._held:
                held = self._from_memory()
                self._sealed.append(Batch(None, held, count(held)))
            self._sending = self._sealed[0] if self._sealed else None
            return self._sending

    def done(self, batch: Batch) -> None:
        """Forget a batch that was dealt with."""
        batch.remove()
        with self.changed:
            self._sending = None
            if self._sealed and self._sealed[0] is batch:
                self._sealed.popleft()
            self.changed.notify_all()

    def keep(self) -> None:
        """Say that the batch that was taken is not being sent any more; it stays in."""
        with self.changed:
            self._sending = None

    def abandoned(self) -> Iterator[Batch]:
        """Go through the batches of dead processes; each is to be removed when dealt with."""
        for drawer in self.spool.abandoned():
            for path in drawer.batches():
                yield Batch(path)

    def close(self) -> None:
        """Leave what is in the spool to the next process; what is in memory only is lost."""
        with self.changed:
            held = sum(map(count, self._held))
            held += sum(one.records or 0 for one in self._sealed if one.path is None)
            self._held.clear()
            self._sealed.clear()
            self.spool.close()
        if held:
            self._lose("http_unsent", held, "the spool could not be written")

    def _seal(self) -> None:
        self._since = None
        batch = self.spool.seal()
        if batch is not None:
            self._sealed.append(batch)

    def _make_room(self, wanted: int, is_working: Callable[[], bool]) -> None:
        end = time.monotonic() + _ROOM_WITHIN_S
        while self.spool.lacks(wanted):
            left = end - time.monotonic()
            if left > 0 and self._sealed and is_working():
                self.changed.wait(left)
            elif wanted > self._target.spool_bytes or not self._drop_oldest():
                raise OSError(errno.ENOSPC, "it is full")

    def _drop_oldest(self) -> bool:
        """Drop the oldest batch there is, a dead process's before one of ours."""
        for drawer in self.spool.abandoned():
            for path in drawer.batches():
                self._drop(Batch(path))
                return True
        for batch in self._sealed:
            if batch is not self._sending and batch.path is not None:
                self._sealed.remove(batch)
                self._drop(batch)
                return True
        return False

    def _drop(self, batch: Batch) -> None:
        records = batch.records
        if records is None:
            try:
                records = count(batch.read())
            except OSError:
                records = 1
        batch.remove()
        self._lose("http_spool_full", records, "the oldest are dropped")

    def _hold(self, line: bytes, error: OSError) -> None:
        why = error.strerror or type(error).__name__
        self._note("spool", f"its spool cannot be written ({why}); runs are kept in memory only")
        self._held.append(line)
        self._held_bytes += len(line)
        lost = 0
        while self._held_bytes > _MOST_HELD and len(self._held) > 1:
            self._held_bytes -= len(self._held.popleft())
            lost += 1
        if lost:
            self._lose("http_memory_full", lost, f"the spool cannot be written: {why}")

    def _from_memory(self) -> bytes:
        lines: list[bytes] = []
        size = 0
        while self._held and (not lines or size + len(self._held[0]) <= self._target.batch_bytes):
            lines.append(self._held.popleft())
            size += len(lines[-1])
        self._held_bytes -= size
        return b"".join(lines)
