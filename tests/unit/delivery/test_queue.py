"""Traces reach exporters without the host waiting, and what does not reach them is counted."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections import Counter

import pytest

from orchtrace_otel.model import Reward, Trace
from tests.unit.delivery.receiving import LONG, Broken, Collected, delivery_to, finished


def test_traces_arrive_in_order_at_every_exporter() -> None:
    """What was put first is taken first, by each of them."""
    one, other = Collected(), Collected()
    delivery, losses = delivery_to(one, other, size=100)
    for number in range(50):
        delivery.put(finished(str(number)))
    assert delivery.flush(LONG)
    assert one.taken == other.taken == [str(number) for number in range(50)]
    assert losses == {}
    delivery.shutdown()


def test_the_host_never_waits_for_an_exporter() -> None:
    """While an exporter hangs, putting returns at once, and from no other thread is taken."""
    slow = Collected()
    slow.gate.clear()
    delivery, losses = delivery_to(slow)
    delivery.put(finished("0"))
    assert slow.is_in.wait(LONG)
    for number in range(1, 4):
        delivery.put(finished(str(number)))
    assert slow.taken == []
    slow.gate.set()
    assert delivery.flush(LONG)
    assert slow.taken == ["0", "1", "2", "3"]
    assert losses == {}
    delivery.shutdown()


def test_a_full_queue_drops_the_oldest_and_counts() -> None:
    """The newest traces are worth most; each one that is dropped is counted."""
    slow = Collected()
    slow.gate.clear()
    delivery, losses = delivery_to(slow, size=3)
    delivery.put(finished("first"))
    assert slow.is_in.wait(LONG)
    for number in range(10):
        delivery.put(finished(str(number)))
    slow.gate.set()
    assert delivery.flush(LONG)
    assert slow.taken == ["first", "7", "8", "9"]
    assert losses == {"traces_dropped": 7}
    delivery.shutdown()


def test_an_exporter_that_raises_costs_only_its_own() -> None:
    """The others get every trace; each failure is counted under its name, with its reason."""
    fine = Collected()
    delivery, losses = delivery_to(Broken(), fine)
    delivery.put(finished("0"))
    delivery.put(("0", Reward(id="r", component="correctness", value=1.0)))
    assert not delivery.flush(LONG)
    delivery.shutdown()
    assert fine.taken == ["0", "0:correctness"]
    assert fine.calls == ["flush", "flush", "shutdown"]
    assert losses == {
        "export_failed:Broken": 2,
        "flush_failed:Broken": 2,
        "shutdown_failed:Broken": 1,
    }
    assert losses.reasons == {"OSError"}


def test_what_an_exporter_keeps_is_late_and_not_lost() -> None:
    """A flush that fails says what waits where; what fails to the end is lost."""

    class Keeps(Collected):
        waiting = ""

        def flush(self, timeout_s: float) -> None:
            self.waiting = f"{len(self.taken)} runs wait in memory"
            raise OSError(errno.ENOSPC, "the canary")

        def shutdown(self) -> None:
            raise OSError

    delivery, losses = delivery_to(Keeps())
    delivery.put(finished("0"))
    assert not delivery.flush(LONG)
    told = ("flush_failed:Keeps", "OSError: No space left on device: 1 runs wait in memory")
    assert (losses, losses.delays) == ({}, [told])
    delivery.shutdown()
    assert (losses, losses.delays) == ({"shutdown_failed:Keeps": 1}, [told, told])


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_an_exporter_that_exits_costs_only_its_own(error: type[BaseException]) -> None:
    """On our thread that is an error like any other; the queue goes on, and so do who waits."""

    class Exits(Broken):
        def export(self, trace: Trace) -> None:
            raise error

        def flush(self, timeout_s: float) -> None:
            raise error

        def shutdown(self) -> None:
            raise error

    fine = Collected()
    delivery, losses = delivery_to(Exits(), fine)
    delivery.put(finished("0"))
    delivery.put(finished("1"))
    before = time.monotonic()
    assert not delivery.flush(LONG)
    delivery.shutdown(LONG)
    assert time.monotonic() - before < LONG
    assert (fine.taken, fine.calls) == (["0", "1"], ["flush", "flush", "shutdown"])
    told = {"export_failed:Exits": 2, "flush_failed:Exits": 2, "shutdown_failed:Exits": 1}
    assert (losses, losses.reasons) == (told, {error.__name__})


@pytest.mark.parametrize("forever", [1e10, 1e300])
def test_a_flush_waits_as_long_as_python_can(forever: float) -> None:
    """Locks refuse longer times, and the host's own flush of its provider brings it here."""
    exporter = Collected()
    delivery, _ = delivery_to(exporter)
    delivery.put(finished("0"))
    assert delivery.flush(forever)
    delivery.shutdown(forever)
    assert exporter.calls == ["flush", "flush", "shutdown"]


def test_a_flush_gives_up_in_time_and_says_so() -> None:
    """An exporter that hangs holds nobody longer than was said."""
    slow = Collected()
    slow.gate.clear()
    delivery, _ = delivery_to(slow)
    delivery.put(finished("0"))
    assert not delivery.flush(0.01)
    slow.gate.set()
    assert delivery.flush(LONG)
    delivery.shutdown()


def test_an_exporter_that_hangs_in_its_flush_holds_nobody() -> None:
    """Its flush runs on our thread; the caller goes on in time."""
    slow = Collected()
    delivery, _ = delivery_to(slow)
    slow.gate.clear()
    assert not delivery.flush(0.01)
    slow.gate.set()
    delivery.shutdown()


def test_many_threads_lose_nothing() -> None:
    """Sixteen hosts at once: each trace arrives once."""
    exporter = Collected()
    delivery, losses = delivery_to(exporter, size=10_000)

    def host(name: int) -> None:
        for number in range(100):
            delivery.put(finished(f"{name}/{number}"))

    threads = [threading.Thread(target=host, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert delivery.flush(LONG)
    assert Counter(exporter.taken) == Counter(f"{a}/{b}" for a in range(16) for b in range(100))
    assert losses == {}
    delivery.shutdown()
