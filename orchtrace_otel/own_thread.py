"""Threads of our own, which have nothing of the context that they happen to be started in.

Instrumentations of threads hand that on: what a thread of ours did for the rest of the process
would belong to the first request that had a run, which would be kept as long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from opentelemetry import context as otel_context
from opentelemetry.context import Context

T = TypeVar("T")

_NOTHING: Final = Context()
# The SDK's own switch has no public name; its processors set it around what they export.
_QUIET: Final = Context({otel_context._SUPPRESS_INSTRUMENTATION_KEY: True})  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


class OwnThread(threading.Thread):
    """A thread that ends with the process and begins with no context.

    Args:
        work: What it does.
        name: What it is called.
        is_quiet: Whether what instrumentations would tell of its work is nobody's concern;
            not where code of the host's is called, which may have spans of its own.

    Example:
        >>> found = []
        >>> thread = OwnThread(lambda: found.append(otel_context.get_value("word")), "reader")
        >>> token = otel_context.attach(otel_context.set_value("word", "here"))
        >>> thread.start(); thread.join(); otel_context.detach(token)
        >>> found
        [None]
    """

    def __init__(self, work: Callable[[], object], name: str, *, is_quiet: bool = False) -> None:
        super().__init__(target=work, name=name, daemon=True)
        self._begins_in = _QUIET if is_quiet else _NOTHING

    def start(self) -> None:
        """Start it away from the context of whoever does."""
        token = otel_context.attach(self._begins_in)
        try:
            super().start()
        finally:
            otel_context.detach(token)

    def run(self) -> None:
        """Do the work in a context of its own."""
        otel_context.attach(self._begins_in)
        super().run()


class Waiting:
    """Does what may take longer than anybody waits for it, on a thread of its own.

    One thing at a time: who comes next waits for what hangs, which gathers no threads.

    Example:
        >>> waiting = Waiting()
        >>> waiting.within(10, lambda: "done"), waiting.within(0, threading.Event().wait)
        ('done', None)
    """

    def __init__(self) -> None:
        self._thread: OwnThread | None = None

    def within(self, timeout_s: float, work: Callable[[], T]) -> T | None:
        """Return what `work` gives back; None where it was not done in time, or failed.

        Args:
            timeout_s: Seconds to wait at most.
            work: What to do.
        """
        end = time.monotonic() + timeout_s
        if self._thread is not None and not _is_over(self._thread, end):
            return None
        given: list[T] = []
        self._thread = thread = OwnThread(lambda: given.append(work()), "orchtrace-waiting")
        try:
            thread.start()
        except RuntimeError:  # the interpreter is shutting down
            return work()
        _is_over(thread, end)
        return given[0] if given else None


def _is_over(thread: threading.Thread, end: float) -> bool:
    """Wait for a thread until `end`; one that never began is over."""
    if thread.is_alive():
        thread.join(min(max(end - time.monotonic(), 0), threading.TIMEOUT_MAX))
    return not thread.is_alive()
