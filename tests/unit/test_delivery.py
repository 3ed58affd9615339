"""Traces reach exporters without the host waiting, and what does not reach them is counted."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from orchtrace_otel.delivery import Delivery
from orchtrace_otel.finished import Finished
from orchtrace_otel.model import Event, Reward, Trace

LONG = 30
"""Seconds that no test waits: a deadline that must not be reached."""


def trace(name: str) -> Trace:
    """A trace with a name."""
    return Trace(name, "task", (Event("e", 0, "spawn", "lead"),))


def finished(name: str) -> Finished:
    """A run of that name that ended, with its trace still to be scored."""
    return Finished(trace(name), (), Counter().update)


class Collected:
    """An exporter that keeps what it takes, and waits for its gate first."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.calls: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.is_in = threading.Event()

    def export(self, trace: Trace) -> None:
        self.is_in.set()
        self.gate.wait()
        self.taken.append(trace.trace_id)

    def amend(self, run_id: str, reward: Reward) -> None:
        self.taken.append(f"{run_id}:{reward.component}")

    def flush(self, timeout_s: float) -> None:
        self.gate.wait()
        self.calls.append("flush")

    def shutdown(self) -> None:
        self.calls.append("shutdown")


class Broken(Collected):
    """An exporter that fails in whatever it does."""

    def export(self, trace: Trace) -> None:
        raise OSError

    def amend(self, run_id: str, reward: Reward) -> None:
        raise OSError

    def flush(self, timeout_s: float) -> None:
        raise OSError

    def shutdown(self) -> None:
        raise OSError


class Losses(Counter[str]):
    """What was lost, by kind, and why; and what was late."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: set[str] = set()

        self.delays: list[tuple[str, str]] = []

    def lose(self, what: str, count: int = 1, why: str = "") -> None:
        self[what] += count
        self.reasons.add(why)

    def delay(self, what: str, waiting: str) -> None:
        self.delays.append((what, waiting))


def delivery_to(*exporters: Collected, size: int = 10) -> tuple[Delivery, Losses]:
    """A delivery, and the losses that it counts."""
    losses = Losses()
    return Delivery(exporters, size, losses.lose, losses.delay), losses


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something holds that another thread brings about."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.001)


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


def test_an_exporter_that_exits_does_not_end_the_deliveries() -> None:
    """`SystemExit` in our thread would leave the queue to nobody."""

    class Exits(Collected):
        def export(self, trace: Trace) -> None:
            if trace.trace_id == "0":
                raise SystemExit
            super().export(trace)

    exporter = Exits()
    delivery, losses = delivery_to(exporter)
    delivery.put(finished("0"))
    delivery.put(finished("1"))
    assert delivery.flush(LONG)
    assert exporter.taken == ["1"]
    assert losses == {"export_failed:SystemExit": 1}
    delivery.shutdown()


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
    assert losses == {"traces_undelivered": 3}
    slow.gate.set()
    wait_for(lambda: "shutdown" in slow.calls)
    assert slow.taken == ["0"]


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


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def run(script: str, folder: object) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, which may fork and exit as it likes."""
    prelude = f"""
        import os, sys, threading, time
        sys.path[:0] = [{str(Path.cwd())!r}]
        folder = {str(folder)!r}
        import orchtrace_otel as orchtrace
        from orchtrace_otel.delivery import Delivery

        class ToFile:
            gate = threading.Event()
            gate.set()
            is_in = threading.Event()
            def export(self, trace):
                self.is_in.set()
                self.gate.wait()
                with open(os.path.join(folder, str(os.getpid())), "a") as file:
                    file.write(trace.task_id + " ")
            def amend(self, run_id, reward): ...
            def flush(self, timeout_s): ...
            def shutdown(self): ...

        def wait_for_child(child):
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

        def run(task):
            orchtrace.team(lambda: None, name="team", task_id=task)()
    """
    program = textwrap.dedent(prelude) + textwrap.dedent(script)
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )


def written(folder: Path) -> list[str]:
    """What each process wrote, in order of its text."""
    return sorted(file.read_text().strip() for file in folder.iterdir())


@needs_fork
def test_a_fork_in_the_middle_delivers_each_trace_once(tmp_path: Path) -> None:
    """What waits is the parent's to deliver; the child has a queue and a thread of its own."""
    done = run(
        """
        exporter = ToFile()
        exporter.gate.clear()
        orchtrace.configure(exporters=[exporter])
        run("before-1")
        run("before-2")
        exporter.is_in.wait()
        child = os.fork()
        exporter.gate.set()
        run("child" if child == 0 else "parent")
        orchtrace.shutdown()
        if child == 0:
            os._exit(0)
        wait_for_child(child)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert written(tmp_path) == ["before-1 before-2 parent", "child"]


@needs_fork
def test_a_fork_inside_a_run_leaves_the_run_to_the_parent(tmp_path: Path) -> None:
    """The child's work is of the parent's run, as another process's; it exports no second one."""
    done = run(
        """
        orchtrace.configure(exporters=[ToFile()])

        @orchtrace.agent
        def critic():
            ...

        @orchtrace.team(task_id="whole")
        def lead():
            child = os.fork()
            critic()
            if child == 0:
                orchtrace.shutdown()
                os._exit(0)
            wait_for_child(child)

        lead()
        orchtrace.shutdown()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert written(tmp_path) == ["whole"]


def test_a_process_that_ends_delivers_by_itself(tmp_path: Path) -> None:
    """Nobody has to call shutdown() at the end of a script."""
    done = run(
        """
        orchtrace.configure(exporters=[ToFile()])
        for number in range(20):
            run(str(number))
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert written(tmp_path) == [" ".join(map(str, range(20)))]


def test_a_users_provider_delivers_at_the_end_too(tmp_path: Path) -> None:
    """Even one that is told not to shut down at exit."""
    done = run(
        """
        from opentelemetry.sdk.trace import TracerProvider
        provider = TracerProvider(shutdown_on_exit=False)
        orchtrace.configure(tracer_provider=provider, exporters=[ToFile()])
        run("0")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert written(tmp_path) == ["0"]


def test_a_run_that_ends_at_exit_is_delivered(tmp_path: Path) -> None:
    """Work of other exit handlers is traced as long as they run before ours."""
    done = run(
        """
        import atexit
        orchtrace.configure(exporters=[ToFile()])
        atexit.register(run, "last")
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert written(tmp_path) == ["last"]


def test_log_events_of_what_waits_are_told_before_their_provider_ends(tmp_path: Path) -> None:
    """Exit handlers run last come, first served: a logger provider of before `configure` waits."""
    done = run(
        """
        from opentelemetry.sdk._logs import LoggerProvider

        class Told:
            is_over = False
            def on_emit(self, record):
                with open(os.path.join(folder, "told"), "a") as file:
                    file.write("late " if self.is_over else "told ")
            emit = on_emit
            def shutdown(self):
                self.is_over = True
            def force_flush(self, timeout_millis=0):
                return True

        provider = LoggerProvider()
        provider.add_log_record_processor(Told())

        class Slow(ToFile):
            def export(self, trace):
                time.sleep(0.2)

        orchtrace.configure(logger_provider=provider, exporters=[Slow()])

        @orchtrace.team(reward=lambda answer: 1.0)
        def lead():
            ...

        lead()
        lead()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    words = (tmp_path / "told").read_text().split()
    assert set(words) == {"told"}
    assert len(words) % 2 == 0, "both runs tell the same"


def test_a_process_that_exits_at_once_loses_only_what_waits(tmp_path: Path) -> None:
    """After `os._exit` nothing runs; what was delivered before is whole."""
    done = run(
        """
        exporter = ToFile()
        orchtrace.configure(exporters=[exporter])
        run("delivered")
        orchtrace.flush()
        exporter.gate.clear()
        run("lost")
        os._exit(3)
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert written(tmp_path) == ["delivered"]


def test_a_process_that_is_terminated_loses_what_waits(tmp_path: Path) -> None:
    """The system's own way of SIGTERM runs no exit handler."""
    done = run(
        """
        import signal
        exporter = ToFile()
        orchtrace.configure(exporters=[exporter])
        run("delivered")
        orchtrace.flush()
        exporter.gate.clear()
        run("lost")
        os.kill(os.getpid(), signal.SIGTERM)
        """,
        tmp_path,
    )
    assert done.returncode != 0
    assert done.stderr == ""
    assert written(tmp_path) == ["delivered"]


def test_a_process_that_exits_when_it_is_terminated_delivers(tmp_path: Path) -> None:
    """A handler of the host's that exits is enough; the run that it cuts off says why."""
    done = run(
        """
        import signal
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        orchtrace.configure(exporters=[ToFile()])
        run("before")

        @orchtrace.team(task_id="cut")
        def lead():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)

        lead()
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert written(tmp_path) == ["before cut"]
