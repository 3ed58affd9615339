"""The thread that sends: what waits here, then what dead processes left; pauses after failures."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from orchtrace_http._post import Answer
from orchtrace_http._spool import count
from orchtrace_otel.own_thread import OwnThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from orchtrace_http._outbox import Outbox
    from orchtrace_http._pace import Pace
    from orchtrace_http._post import Post
    from orchtrace_http._spool import Batch

_SWEEP_S: Final = 60.0
"""How often to look for what other processes left when they died."""
_MOST_TRIES: Final = 3
"""Failures after which a flush leaves the rest to the spool: an exit must not wait for long."""
_JOIN_S: Final = 0.25
"""How long the end waits for a request that is under way; what it sends stays in the spool."""


class Sender:
    """Empties an outbox on a thread of its own.

    Args:
        outbox: What to send.
        post: How to send it.
        pace: When to try again.
        lose: Called with the kind of a loss, its count, and why.
        note: Called with what costs no data yet, once a kind.

    Attributes:
        failures: Tries that failed and were, or will be, repeated.
    """

    def __init__(
        self,
        outbox: Outbox,
        post: Post,
        pace: Pace,
        lose: Callable[[str, int, str], None],
        note: Callable[[str, str], None],
    ) -> None:
        self._outbox = outbox
        self._post = post
        self._pace = pace
        self._lose = lose
        self._note = note
        self._begin()

    def _begin(self) -> None:
        self.failures = 0
        self._asked = 0
        self._settled = 0
        self._not_before = 0.0
        self._sweep_at = 0.0
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def start_afresh(self) -> None:
        """Forget the thread, which a fork leaves behind."""
        self._post.start_afresh()
        self._pace.worked()
        self._begin()

    def is_working(self) -> bool:
        """Whether the last try did not fail."""
        return self._not_before == 0

    def has_thread(self) -> bool:
        """Start the thread where there is none; False where the interpreter is past that."""
        if self._thread is None:
            thread = OwnThread(self._work, "orchtrace-http", is_quiet=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is shutting down: flush sends
                return False
            self._thread = thread
        return True

    def flush(self, timeout_s: float) -> bool:
        """Send everything that waits; False where the time ran out, or three tries failed."""
        end = time.monotonic() + timeout_s
        changed = self._outbox.changed
        with changed:
            self._asked += 1
            ticket, limit = self._asked, self.failures + _MOST_TRIES
            changed.notify_all()
        if not self.has_thread():
            self._send_here(ticket, limit, end)
        with changed:
            while self._goes_on(ticket, limit, end):
                changed.wait(max(end - time.monotonic(), 0))
            return self._settled >= ticket

    def stop(self) -> None:
        """End the thread; what it has not sent stays where it is."""
        with self._outbox.changed:
            self._is_stopped = True
            self._outbox.changed.notify_all()
        if self._thread is None:
            self._post.close()
        else:
            self._thread.join(_JOIN_S)

    def _goes_on(self, ticket: int, limit: int, end: float) -> bool:
        """Whether a flush has to wait on: nothing that it can reach is given up early."""
        if self._settled >= ticket or self._is_stopped or self.failures >= limit:
            return False
        return max(self._not_before, time.monotonic()) < end

    def _send_here(self, ticket: int, limit: int, end: float) -> None:
        while self._goes_on(ticket, limit, end):
            time.sleep(max(self._not_before - time.monotonic(), 0))
            self._round()

    def _work(self) -> None:
        while self._await_work():
            try:
                self._round()
            except Exception as error:  # noqa: BLE001 - nobody else would send the rest
                self._outbox.keep()
                self._pause(Answer("later", type(error).__name__))
        self._post.close()

    def _await_work(self) -> bool:
        changed = self._outbox.changed
        with changed:
            while not self._is_stopped:
                wait = self._idle_s()
                if wait <= 0:
                    return True
                changed.wait(wait)
        return False

    def _idle_s(self) -> float:
        now = time.monotonic()
        if now < self._not_before:
            return self._not_before - now
        if self._asked > self._settled:
            return 0.0
        due = self._outbox.due_in()
        sweep = self._sweep_at - now
        return sweep if due is None else min(due, sweep)

    def _round(self) -> None:
        """Send all there is, until a try fails."""
        asked = self._asked
        is_asked = asked > self._settled
        while not self._is_stopped:
            batch = self._outbox.take(everything=is_asked)
            if batch is None:
                break
            if not self._send(batch):
                self._outbox.keep()
                return
            self._outbox.done(batch)
        if is_asked or time.monotonic() >= self._sweep_at:
            for batch in self._outbox.abandoned():
                if self._is_stopped or not self._send(batch):
                    return
                batch.remove()
            self._sweep_at = time.monotonic() + _SWEEP_S
        with self._outbox.changed:
            self._settled = max(self._settled, asked)
            self._outbox.changed.notify_all()

    def _send(self, batch: Batch) -> bool:
        """Deal with a batch; False where it has to be tried again."""
        try:
            body = batch.read()
        except OSError as error:
            why = error.strerror or type(error).__name__
            self._lose("http_spool_unreadable", batch.records or 1, why)
            return True
        if body and not self._deliver(body):
            return False
        if batch.damaged:
            self._lose("http_spool_damaged", batch.damaged, "lines of its spool are no records")
        return True

    def _deliver(self, body: bytes) -> bool:
        answer = self._post.send(body)
        if answer.fate == "later":
            self._pause(answer)
            return False
        self._pace.worked()
        self._not_before = 0.0
        if answer.fate == "too_large" and count(body) > 1:
            return all(map(self._deliver, halves(body)))
        if answer.fate != "taken":
            self._lose("http_refused", count(body), answer.why)
        return True

    def _pause(self, answer: Answer) -> None:
        self._note("later", f"it does not take them ({answer.why}); they wait, and are tried again")
        with self._outbox.changed:
            self.failures += 1
            self._not_before = time.monotonic() + self._pace.failed(answer.after_s)
            self._outbox.changed.notify_all()


def halves(body: bytes) -> tuple[bytes, bytes]:
    r"""Part some lines in two, near the middle.

    Example:
        >>> halves(b"a\nb\nc\n")
        (b'a\nb\n', b'c\n')
    """
    middle = body.find(b"\n", len(body) // 2 - 1, -1) + 1
    middle = middle or body.rfind(b"\n", 0, -1) + 1
    return body[:middle], body[middle:]
