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
        if child == 0:
            exporter.gate = threading.Event()  # a thread that is not here may be in the other one
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


POOL = """
import os, sys, time
import multiprocessing
from multiprocessing import current_process
import orchtrace_otel as orchtrace
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

def write(word):
    with open(os.path.join(sys.argv[1], str(os.getpid())), "a") as file:
        file.write(word + " ")

class Slow:
    def export(self, trace):
        time.sleep(0.2)
        write(trace.task_id)
    def amend(self, run_id, reward): ...
    def flush(self, timeout_s): ...
    def shutdown(self): ...

class Spans(SpanExporter):
    def export(self, spans):
        for span in spans:
            if span.name == "invoke_agent worker":
                write("spans")
        return SpanExportResult.SUCCESS

def start():
    if OF_THE_HOSTS:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(Spans()))
        orchtrace.configure(tracer_provider=provider, exporters=[Slow()])
    else:
        orchtrace.configure(exporters=[Slow(), Spans()])

@orchtrace.agent
def worker(): ...

def work(task):
    if WHEN == "in each process":
        start()
    orchtrace.team(worker, name="team", task_id=task)()

OF_THE_HOSTS = sys.argv[4] == "the host's provider"
WHEN = sys.argv[3]
if WHEN == "with the module":
    start()

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    child = context.Process(target=work, args=["child"])
    child.start()
    child.join()
    assert child.exitcode == 0, child.exitcode
"""


@needs_fork
@pytest.mark.parametrize(
    ("method", "when", "provider"),
    [
        ("fork", "with the module", "our provider"),
        ("fork", "with the module", "the host's provider"),
        ("fork", "in each process", "our provider"),
        ("forkserver", "with the module", "our provider"),
        ("forkserver", "in each process", "the host's provider"),
        ("spawn", "with the module", "our provider"),
    ],
)
def test_what_multiprocessing_runs_delivers_at_its_end(
    method: str, when: str, provider: str, tmp_path: Path
) -> None:
    """A forked worker ends past all exit handlers; what waits in it, traces and spans, is sent."""
    program, folder = tmp_path / "program.py", tmp_path / "written"
    program.write_text(POOL)
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, program, folder, method, when, provider],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (done.returncode, done.stderr) == (0, "")
    (words,) = written(folder)
    assert sorted(words.split()) == ["child", "spans"]


@needs_fork
def test_a_child_of_multiprocessing_ends_whatever_its_exporters_do(tmp_path: Path) -> None:
    """Its parent waits for it: one that never comes back, as gRPC may not, is given up."""
    done = run(
        """
        import multiprocessing
        from opentelemetry.sdk.trace.export import SpanExporter
        from orchtrace_otel import configuration

        class Hangs(SpanExporter):
            def export(self, spans):
                threading.Event().wait()

        configuration._CHILD_SECONDS = 2
        orchtrace.configure(exporters=[ToFile(), Hangs()])
        child = multiprocessing.get_context("fork").Process(target=run, args=["child"])
        child.start()
        child.join(20)
        assert child.exitcode == 0, child.exitcode
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "not done within 2 s at the end of this process" in done.stderr
    assert written(tmp_path) == ["child"]


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
