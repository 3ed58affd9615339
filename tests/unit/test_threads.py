"""Pools know the context of their work: OpenTelemetry's, or one that the work brings itself."""

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

import pytest
import wrapt
from opentelemetry import context as otel_context
from opentelemetry.instrumentation.threading import ThreadingInstrumentor

import orchtrace_otel as orchtrace
from orchtrace_otel.threads import Threads, brings_context
from tests.trees import edges, recording

ORIGINAL = vars(ThreadPoolExecutor)["submit"]


@pytest.fixture
def hooks() -> Iterator[Threads]:
    """Hooks that are in, and out again afterwards."""
    threads = Threads()
    threads.instrument()
    yield threads
    threads.uninstrument()
    assert vars(ThreadPoolExecutor)["submit"] is ORIGINAL


@contextmanager
def inside(place: str) -> Iterator[None]:
    token = otel_context.attach(otel_context.set_value("place", place))
    try:
        yield
    finally:
        otel_context.detach(token)


def place() -> object:
    return otel_context.get_value("place")


def plain() -> Callable[[], Any]:
    return place


def bound() -> Callable[[], Any]:
    return functools.partial(copy_context().run, place)


def twice() -> Callable[[], Any]:
    return functools.partial(functools.partial(copy_context().run), place)


def wrapped_up() -> Callable[[], Any]:
    """What runs outside of the context that it brings, and what inside."""
    work = functools.partial(copy_context().run, place)
    return wrapt.FunctionWrapper(work, lambda call, _, args, kwargs: (place(), call()))


@pytest.mark.parametrize(
    ("make", "seen"),
    [(plain, "later"), (bound, "early"), (twice, "early"), (wrapped_up, ("later", "early"))],
)
def test_work_sees_the_context_that_it_brings_or_else_that_of_its_handing_over(
    hooks: Threads, make: Callable[[], Callable[[], Any]], seen: object
) -> None:
    """Whatever way work goes, it sees what it did without us, and the pool's threads nothing."""
    with inside("early"):
        work = make()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # the thread begins outside
        with inside("later"):
            assert pool.submit(work).result() == seen
        assert ORIGINAL(pool, place).result() is None


def test_a_call_without_work_fails_as_it_does_without_us(hooks: Threads) -> None:
    """The error is the pool's own."""
    with ThreadPoolExecutor(1) as pool, pytest.raises(TypeError, match="'fn'"):
        pool.submit()


@pytest.mark.parametrize("is_proxy", [False, True])
def test_whoever_else_wrapped_submitting_sees_all_work(is_proxy: bool) -> None:
    """Wrappers put in before ours and after are called for work that brings its context too."""
    calls: list[str] = []

    def wrapper(name: str, function: Any) -> Any:
        def noted(call: Any, pool: Any, args: Any, kwargs: Any) -> Any:
            assert isinstance(pool, ThreadPoolExecutor)
            calls.append(name)
            return call(*args, **kwargs)

        if is_proxy:
            return wrapt.FunctionWrapper(function, noted)
        return lambda pool, *args, **kwargs: noted(
            function.__get__(pool, ThreadPoolExecutor), pool, args, kwargs
        )

    threads = Threads()
    ThreadPoolExecutor.submit = wrapper("below", ORIGINAL)
    try:
        threads.instrument()
        ours = vars(ThreadPoolExecutor)["submit"]
        ThreadPoolExecutor.submit = wrapper("above", ours)
        with inside("early"):
            work = bound()
        with ThreadPoolExecutor(1) as pool:
            assert (pool.submit(work).result(), pool.submit(place).result()) == ("early", None)
        ThreadPoolExecutor.submit = ours
        threads.uninstrument()
    finally:
        ThreadPoolExecutor.submit = ORIGINAL
    assert calls == ["above", "below"] * 2


def test_where_the_host_put_the_hooks_in_nothing_goes_past_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OpenTelemetry's hook, when it is the host's own, is called for all work."""
    instrumentor = ThreadingInstrumentor()
    instrumentor.instrument()
    attached: list[object] = []
    attach = otel_context.attach
    threads = Threads()
    threads.instrument()
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int).result()
            monkeypatch.setattr(
                otel_context, "attach", lambda one: attached.append(one) or attach(one)
            )
            pool.submit(bound()).result()
            monkeypatch.undo()
    finally:
        threads.uninstrument()
        instrumentor.uninstrument()
    assert len(attached) == 1


@pytest.mark.parametrize("first_out", ["ours", "the host's"])
def test_the_host_may_put_the_hooks_in_after_us_and_keep_them(
    first_out: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenTelemetry warns of no second time, and its threads keep their context until it leaves."""
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ORIGINAL)  # of two layers one stays there
    instrumentor = ThreadingInstrumentor()
    threads = Threads()
    threads.instrument()
    instrumentor.instrument()
    leave = [threads.uninstrument, instrumentor.uninstrument]
    if first_out != "ours":
        leave.reverse()
    leave[0]()
    seen: list[object] = []
    with inside("here"):
        thread = threading.Thread(target=lambda: seen.append(place()))
        thread.start()
        thread.join()
    leave[1]()
    assert (seen, caplog.records) == (["here"], [])
    assert not isinstance(threading.Thread.start, wrapt.ObjectProxy)
    assert not isinstance(threading.Thread.run, wrapt.ObjectProxy)


@orchtrace.agent
def helper() -> str:
    return "done"


@pytest.mark.parametrize("carries", [False, True])
def test_causes_are_the_same_whichever_way_work_goes(carries: bool) -> None:
    """What is submitted follows from what its agent did before, and returns to it."""

    @orchtrace.agent
    def team() -> str:
        helper()
        work = functools.partial(copy_context().run, helper) if carries else helper
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work).result()

    with recording() as captured:
        assert team() == "done"
    assert edges(captured.trace) == {
        "orchestrator#1.open -spawn-> team#1.open",
        "team#1.open -spawn-> helper#1.open",
        "team#1.open -causal-> helper#1:2.open",
        "helper#1.close -return-> helper#1:2.open",
        "helper#1:2.close -return-> team#1.close",
        "team#1.close -return-> stop",
    }


def test_only_what_runs_nothing_else_brings_its_context() -> None:
    """Types are compared exactly: whatever may run code outside of the context does not."""

    class Noisy(functools.partial[Any]):
        """A partial that may do anything when it is called."""

    run = copy_context().run
    assert [brings_context(work) for work in (run, functools.partial(run, int))] == [True, True]
    assert not any(
        brings_context(work)
        for work in (
            int,
            place,
            copy_context().copy,
            [].append,
            Noisy(run, int),
            lambda: run(int),
            wrapt.ObjectProxy(functools.partial(run, int)),
        )
    )
