"""Putting documents down, on a thread of its own: the host never waits for a store."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.content import segments
from orchtrace_otel.content.capture import Capture
from orchtrace_otel.content.folders import Folder, LocalFolder
from orchtrace_otel.content.output import LocalOutput, Output, RemoteOutput
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.own_thread import OwnThread

if TYPE_CHECKING:
    from orchtrace_otel.content.memory import RunMemory
    from orchtrace_otel.content.notes import Notes

_LOOK_SECONDS: Final = 2.0
"""How often an idle writer looks whether a run's content was deleted by somebody else."""
_TRIES: Final = 5


class New(NamedTuple):
    """A document to put down."""

    kind: str
    ref: str
    body: bytes


class Batch(NamedTuple):
    """What belongs together: it is put down as a whole, or not at all.

    Attributes:
        run_id: The run.
        refs: Refs that the run uses from now on.
        documents: Those of them that are new to it.
        memory: What the run believes to be in the store.
    """

    run_id: str
    refs: Sequence[str]
    documents: Sequence[New]
    memory: RunMemory

    @property
    def size(self) -> int:
        """Bytes that it takes up, about."""
        return sum(len(one.body) + 64 for one in self.documents) + 34 * len(self.refs) + 64


class Writer:
    """Writes batches to a store.

    Args:
        folder: Where the store is.
        capture: Its limits.
        lose: Told of what is lost: its kind, and how many documents.
        notes: Writes down what was lost; None where there is no place for it.
    """

    def __init__(
        self,
        folder: Folder,
        capture: Capture,
        lose: Callable[[str, int], None],
        notes: Notes | None = None,
    ) -> None:
        self.folder = folder
        self._capture = capture
        self._lose = lose
        self._notes = notes
        self._waiting: deque[Batch] = deque()
        self._bytes = 0
        self._is_busy = False
        self._is_over = False
        self._must_roll = False
        self._deleted: frozenset[str] = frozenset()
        self._renew_locks()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._output: Output = self._opened()
        afresh_in_children(self)

    def _opened(self) -> Output:
        if isinstance(self.folder, LocalFolder):
            return LocalOutput(self.folder)
        return RemoteOutput(self.folder, self._capture.segment_bytes, self._capture.flush_seconds)

    def _renew_locks(self) -> None:
        self._mutex = threading.RLock()  # held by itself: see Delivery
        self._changed = threading.Condition(self._mutex)

    def start_afresh(self) -> None:
        """Leave the segment and what waits to the process that was forked."""
        self._renew_locks()
        self._waiting.clear()
        self._bytes = 0
        self._is_busy = self._must_roll = False
        self._stopping = threading.Event()
        self._thread = None
        self._output.leave()
        self._output = self._opened()

    def put(self, batch: Batch) -> bool:
        """Take a batch; False where there is no room for it, or nobody writes any more."""
        with self._mutex:
            if self._is_over or self._bytes + batch.size > self._capture.queue_bytes:
                return False
            self._waiting.append(batch)
            self._bytes += batch.size
            self._has_thread()
            self._changed.notify_all()
        return True

    def _has_thread(self) -> bool:
        """Start the thread where there is none; False where a flush must write: see Delivery."""
        if self._thread is None:
            self._thread = OwnThread(self._run, "orchtrace-content", is_quiet=True)
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter is shutting down, or the system has no more
                self._thread = None
        return self._thread is not None and self._thread.ident is not None

    def flush(self, timeout_s: float, *, roll: bool = False) -> bool:
        """Wait until what was taken is put down; False where time ran out.

        Args:
            timeout_s: Seconds to wait at most.
            roll: End the segment, so that it can be collected.
        """
        end = time.monotonic() + timeout_s
        with self._mutex:
            if self._thread is None and not self._waiting:
                return True
            self._must_roll = self._must_roll or roll or not self.folder.is_local
            mine = None if self._has_thread() else self._next()
            self._changed.notify_all()
        if mine is not None:
            self._work(*mine)
        with self._mutex:
            while self._waiting or self._is_busy or self._must_roll:
                left = end - time.monotonic()
                if left <= 0 or self._thread is None or not self._thread.is_alive():
                    return False
                self._changed.wait(left)
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Put down what was taken, and write no more."""
        in_time = self.flush(timeout_s, roll=True)
        self._stopping.set()
        with self._mutex:
            self._is_over = True
            left = sum(len(batch.documents) for batch in self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        if not in_time and left:
            self._lose("content_undelivered", left)
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout_s if in_time else 0)
        # A thread that still hangs in the store would make whoever writes there hang too.
        if self._thread is None or not self._thread.is_alive():
            self._own_up()

    # -- on the thread of the writer ------------------------------------------------------

    def _run(self) -> None:
        while self._work(*self._next()):
            pass

    def _work(self, batches: list[Batch] | None, roll: bool) -> bool:  # noqa: FBT001 - of `_next`
        """Write what came; False where all is over."""
        if batches is None:
            return False
        self._write(batches)
        if roll or self._output.is_full(self._capture.segment_bytes):
            self._roll()
        self._own_up()
        with self._mutex:
            self._is_busy = False
            if roll:
                self._must_roll = False
            self._changed.notify_all()
        return True

    def _next(self) -> tuple[list[Batch] | None, bool]:
        """Wait for something to do; None where all is over."""
        with self._mutex:
            if not self._waiting and not self._must_roll and not self._is_over:
                self._changed.wait(_LOOK_SECONDS if self._output.is_open else None)
            if self._is_over and not self._waiting:
                return None, False
            batches = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            self._is_busy = True
            return batches, self._must_roll

    def _write(self, batches: list[Batch]) -> None:
        self._look()
        kept = [batch for batch in batches if batch.run_id not in self._deleted]
        if not kept:
            return
        lines: list[bytes] = []
        for batch in kept:
            lines.append(segments.use_line(batch.run_id, batch.refs))
            new = (one for one in batch.documents if self._output.is_new(one.ref))
            lines += [segments.document_line(*one) for one in new]
        try:
            self._output.write(b"".join(lines), kept)
        except OSError as error:
            self._failed(kept, error.strerror or type(error).__name__)

    def _own_up(self) -> None:
        if self._notes is not None:
            self._notes.own_up()

    def _look(self) -> None:
        """See whether a run's content was deleted: its segment must end, to be collected."""
        try:
            deleted = self._output.deleted()
        except OSError as error:
            warn_once(
                "content_deleted_unreadable",
                "orchtrace cannot read whose content was deleted from %r (%s), and may go on to "
                "write theirs; it looks again",
                self.folder,
                error.strerror or type(error).__name__,
            )
            return
        if deleted is not None and deleted != self._deleted:
            self._deleted = deleted
            self._roll()

    def _roll(self) -> None:
        """End the segment; what cannot be put down after some tries is lost."""
        for attempt in range(_TRIES):
            if self._rolled():
                return
            if self._stopping.wait(2**attempt / 2):
                break
        self._failed(self._output.give_up(), "the store does not take it")

    @guarded
    def _rolled(self) -> bool:
        """End the segment; stores behind URLs may raise whatever they like."""
        self._output.roll()
        return True

    def _failed(self, batches: Sequence[Batch], why: str) -> None:
        for batch in batches:
            with batch.memory.lock:
                batch.memory.forget()
        lost = sum(len(batch.documents) for batch in batches)
        warn_once(
            "content_unwritten",
            "orchtrace could not write content to %r (%s); it is counted, and lost",
            self.folder,
            why,
        )
        self._lose("content_unwritten", lost)
