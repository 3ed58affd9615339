"""What Python does in the middle of our code: finalizers, handlers of signals, interrupts."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import builder, calls, delivery, flow, own_thread, pipeline
from orchtrace_otel.content import open_store
from orchtrace_otel.testing import capture, recorder
from tests.keeping import Kept
from tests.unit.delivery.receiving import LONG
from tests.unit.pipeline.following import configured

if TYPE_CHECKING:
    from opentelemetry.context import Context

_WATCHED = frozenset(module.__file__ for module in (pipeline, delivery, recorder))
"""What runs go through that another one may be in."""


@orchtrace.team
def lead() -> str:
    """A team of nobody else."""
    return "done"


@orchtrace.team
def streamed() -> Iterator[str]:
    """A team whose answer comes piece by piece."""
    yield "first"
    yield "second"


def dropped() -> None:
    """Begin a stream, and let go of it."""
    next(streamed())


class InTheMiddle:
    """Does something once, at the n-th call, or after one, in some files of ours."""

    def __init__(self, at: int, what: Callable[[], object], where: Container[str]) -> None:
        self.left = at
        self.what = what
        self.where = where

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Count; what is done then is not watched itself."""
        if frame.f_code.co_filename in self.where and event != "return":
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                self.what()


def at_each_point(what: Callable[[], object], around: Callable[[], object]) -> int:
    """Do `what` at each point of `around` in turn; return how many points there were."""
    at = 0
    while True:
        at += 1
        watch = InTheMiddle(at, what, _WATCHED)
        sys.setprofile(watch)
        try:
            around()
        finally:
            sys.setprofile(None)
        if watch.left > 0:
            return at - 1


def in_time(work: Callable[[], int]) -> int:
    """Return what work gives back that might hang; its thread is left behind where it does."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(LONG)
    assert found, "it hangs"
    return found[0]


@pytest.mark.parametrize("what", [dropped, lead], ids=["finalizer", "handler"])
def test_a_run_may_end_wherever_another_one_is_being_followed(what: Callable[[], object]) -> None:
    """At whatever point of ours Python ends a stream or has a handler called: nobody hangs."""
    with configured() as (_, exporter):
        points = in_time(lambda: at_each_point(what, lead))
        assert points > 50
        assert orchtrace.flush(LONG)
        assert orchtrace.losses() == {}
    # The last time through nothing came in between; where a run was current it was a part of it.
    assert points + 1 <= len(exporter.traces) <= 2 * points + 1


def test_a_run_may_end_wherever_a_test_captures_another_one() -> None:
    """The recorder of tests, too."""
    with capture() as captured:
        in_time(lambda: at_each_point(dropped, lead))
    assert captured.started == captured.ended


@pytest.mark.skipif(not hasattr(signal, "SIGTERM"), reason="this system has no signals")
def test_a_handler_that_shuts_down_delivers_what_is_finished(tmp_path: Path) -> None:
    """As services do at SIGTERM, which may come while a run is being handed over."""
    program = f"""
        import os, signal, sys, time
        sys.path[:0] = [{str(Path.cwd())!r}]
        import orchtrace_otel as orchtrace
        from orchtrace_otel import delivery
        from tests.keeping import Kept

        exporter = Kept()
        orchtrace.configure(exporters=[exporter])

        @orchtrace.team
        def lead():
            ...

        def end(*_):
            begun = time.monotonic()
            orchtrace.shutdown()
            took = time.monotonic() - begun
            print(len(exporter.traces), dict(orchtrace.losses()), took < 5, flush=True)
            os._exit(0)

        def terminate(frame, event, arg):
            if frame.f_code is delivery.Delivery.put.__code__ and event == "c_return":
                sys.setprofile(None)
                os.kill(os.getpid(), signal.SIGTERM)

        signal.signal(signal.SIGTERM, end)
        lead()
        orchtrace.flush()
        sys.setprofile(terminate)
        lead()
        """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in ("1 {} True\n", "2 {} True\n")


@pytest.mark.parametrize(
    ("at", "lost"),
    [(1, {"runs_given_up": 1}), (2, {})],
    ids=["content, in the run", "traces"],
)
def test_a_handler_may_shut_down_while_a_thread_is_started(
    at: int, lost: dict[str, int], tmp_path: Path
) -> None:
    """What waits for that thread is delivered by the handler: it waits for nobody."""

    class AsOneStarts(InTheMiddle):
        def __call__(self, frame: FrameType, event: str, arg: object) -> None:
            if frame.f_code is own_thread.OwnThread.start.__code__:
                super().__call__(frame, event, arg)

    exporter = Kept()
    content = {"mode": "EVENT_ONLY", "store": str(tmp_path)}
    orchtrace.configure(TracerProvider(), exporters=[exporter], content=content)
    watch = AsOneStarts(at, orchtrace.shutdown, {own_thread.__file__})
    sys.setprofile(watch)
    try:
        lead()
    finally:
        sys.setprofile(None)
        orchtrace.shutdown()
    assert watch.left == 0
    assert orchtrace.losses() == lost
    assert len(exporter.traces) == 1
    with open_store(str(tmp_path)) as store:
        assert len(store) > 0


def interrupt() -> None:
    """Do what Python does when somebody presses a key."""
    raise KeyboardInterrupt


def interrupted(work: Callable[[], object], where: Container[str]) -> Iterator[None]:
    """Interrupt `work` at each point of some files in turn, and stop after each."""
    at = 0
    while True:
        at += 1
        watch = InTheMiddle(at, interrupt, where)
        before = otel_context.get_current()
        sys.setprofile(watch)
        try:
            with suppress(KeyboardInterrupt):
                work()
                assert watch.left > 0, f"the interrupt at {at} was swallowed"
        finally:
            sys.setprofile(None)
        assert otel_context.get_current() == before
        if watch.left > 0:
            return
        yield


@orchtrace.agent
def critic() -> list[str]:
    """An agent that streams to itself."""
    return list(piecewise())


@orchtrace.agent
def piecewise() -> Iterator[str]:
    """An agent whose answer comes piece by piece."""
    orchtrace.decide("style", chosen="terse")
    yield "first"


@orchtrace.team
def council() -> None:
    """A team with agents."""
    critic()
    critic()


def in_asyncio() -> None:
    """A team with an agent, of coroutines."""

    @orchtrace.agent
    async def thinker() -> None:
        await asyncio.sleep(0)

    @orchtrace.team
    async def circle() -> None:
        await thinker()

    asyncio.run(circle())


@pytest.mark.parametrize("work", [council, in_asyncio])
def test_an_interrupt_in_a_call_ends_its_spans_and_its_run(work: Callable[[], None]) -> None:
    """Wherever it strikes: each run that began has its trace, and nothing stays open."""
    with configured() as (provider, exporter):
        spans = Spans()
        provider.add_span_processor(spans)
        for _ in interrupted(work, {calls.__file__, flow.__file__}):
            assert spans.open == 0
        assert orchtrace.flush(LONG)
        assert len(exporter.traces) == spans.roots
        assert spans.roots > 20


def test_an_interrupt_while_a_trace_is_built_costs_a_flag() -> None:
    """What there is of the run is all of it, and is exported once."""
    where = {str(file) for file in Path(builder.__file__).parent.iterdir()}
    with configured() as (_, exporter):
        points = sum(1 for _ in interrupted(council, where))
        assert orchtrace.flush(LONG)
        assert points > 100
        assert orchtrace.losses() == {"runs_given_up": points}
    events = {len(trace.events) for trace in exporter.traces}
    assert events == {len(exporter.traces[-1].events)}
    assert sum("given_up" in trace.flags for trace in exporter.traces) == points
    assert len(exporter.traces) == points + 1


class Spans(SpanProcessor):
    """Counts spans."""

    def __init__(self) -> None:
        self.open = 0
        self.roots = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Count a span, and a root."""
        self.open += 1
        self.roots += span.parent is None

    def on_end(self, span: ReadableSpan) -> None:
        """Count back."""
        self.open -= 1

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Hold nothing back; older SDKs take no answer for a failure."""
        return True
