"""A shutdown delivers what it can in time, counts what is left, and leaves no thread."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING

from tests.unit.delivery.receiving import LONG, Collected, delivery_to, finished, wait_for

if TYPE_CHECKING:
    import pytest


def test_a_shutdown_gives_up_in_time_and_counts_what_is_left() -> None:
    """What hangs in the exporter and what waits behind it are undelivered."""
    slow = Collected()
    slow.gate.clear()
    delivery, losses = delivery_to(slow)
    delivery.put(finished("0"))
    assert slow.is_in.wait(LONG)
    delivery.put(finished("1"))
    delivery.put(finished("2"))
    delivery.shutdown(0.01)
    assert losses == {"traces_undelivered": 3, "shutdown_failed:Collected": 1}
    slow.gate.set()
    wait_for(lambda: "shutdown" in slow.calls)
    assert slow.taken == ["0"]


def test_an_exporter_that_is_not_done_in_time_is_told_of() -> None:
    """It may hold what it was given, as one that writes seldom does; the others are done."""

    class WritesAtTheEnd(Collected):
        writing = threading.Event()

        def flush(self, timeout_s: float) -> None:
            self.writing.wait()

    quick, seldom = Collected(), WritesAtTheEnd()
    delivery, losses = delivery_to(quick, seldom)
    delivery.put(finished("0"))
    wait_for(lambda: bool(seldom.taken))
    delivery.shutdown(1)
    assert losses == {"shutdown_failed:WritesAtTheEnd": 1}
    assert losses.reasons == {"not done within 1 s; what it was given may be lost"}
    assert quick.calls == ["flush", "shutdown"]
    seldom.writing.set()
    wait_for(lambda: "shutdown" in seldom.calls)


def test_an_exporter_that_takes_all_its_time_leaves_some_to_the_others() -> None:
    """One that waits for a server that does not answer costs files beside it nothing."""

    class Waits(Collected):
        def flush(self, timeout_s: float) -> None:
            threading.Event().wait(timeout_s)

    file = Collected()
    delivery, losses = delivery_to(Waits(), file)
    delivery.put(finished("0"))
    delivery.shutdown(4)
    assert losses == {}
    assert (file.taken, file.calls) == (["0"], ["flush", "shutdown"])


def test_traces_after_the_shutdown_are_counted() -> None:
    """Nobody takes them any more, and a second shutdown does nothing."""
    exporter = Collected()
    delivery, losses = delivery_to(exporter)
    delivery.put(finished("0"))
    delivery.shutdown()
    delivery.put(finished("1"))
    delivery.shutdown()
    assert delivery.flush(LONG)
    assert exporter.taken == ["0"]
    assert exporter.calls == ["flush", "shutdown"]
    assert losses == {"traces_after_shutdown": 1}


def test_what_comes_while_another_takes_over_goes_there() -> None:
    """A run may end, on another thread, while the process is configured again."""
    before, after = Collected(), Collected()
    delivery, losses = delivery_to(before)
    successor, _ = delivery_to(after)
    delivery.put(finished("0"))
    delivery.shutdown(successor=successor)
    delivery.put(finished("1"))
    assert successor.flush(LONG)
    assert (before.taken, after.taken, losses) == (["0"], ["1"], {})
    successor.shutdown()


def test_exporters_that_somebody_goes_on_with_are_not_shut_down() -> None:
    """A second configuration may name an exporter object of the first."""
    kept, left = Collected(), Collected()
    delivery, _ = delivery_to(kept, left)
    delivery.put(finished("0"))
    delivery.shutdown(keep=[kept])
    assert (kept.taken, kept.calls) == (["0"], ["flush"])
    assert (left.taken, left.calls) == (["0"], ["flush", "shutdown"])


def test_the_thread_ends_with_the_shutdown() -> None:
    """Neither the thread nor the delivery outlives it."""
    delivery, _ = delivery_to(Collected())
    delivery.put(finished("0"))
    thread = delivery._thread
    assert thread is not None
    assert thread.daemon
    delivery.shutdown()
    thread.join(LONG)
    assert not thread.is_alive()
    gone = weakref.ref(delivery)
    del delivery, thread
    gc.collect()
    assert gone() is None


def test_without_exporters_there_is_no_thread_and_nothing_waits() -> None:
    """A process that exports no traces pays for no queue."""
    delivery, losses = delivery_to()
    assert not delivery.has_exporters
    assert delivery._thread is None
    assert delivery.flush(0)
    delivery.shutdown()
    assert losses == {}


def test_where_no_thread_can_start_the_shutdown_delivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter on its way out starts none; the caller then does the work itself."""

    def refuse(self: threading.Thread) -> None:
        msg = "can't create new thread at interpreter shutdown"
        raise RuntimeError(msg)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    exporter = Collected()
    delivery, losses = delivery_to(exporter)
    delivery.put(finished("0"))
    assert delivery.flush(LONG)
    delivery.put(finished("1"))
    delivery.shutdown()
    assert exporter.taken == ["0", "1"]
    assert exporter.calls == ["flush", "flush", "shutdown"]
    assert losses == {}
