"""Forks and ends of a process: what waits is delivered once, by whom it is for."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.unit.delivery.receiving import LONG

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
