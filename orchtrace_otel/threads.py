"""Causes handed on to threads and pools, through OpenTelemetry's own instrumentation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from contextvars import Context
from functools import partial
from importlib import import_module
from types import BuiltinMethodType, FunctionType
from typing import Any, ClassVar, Final, cast

from opentelemetry import context as otel_context

from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Job, Together
from orchtrace_otel.patches import Patches


class Threads:
    """Hooks into the standard library, anyio and asgiref, held like those of an adapter."""

    name: ClassVar[str] = "threads"

    def __init__(self) -> None:
        self._own: Any = None
        self._patches = Patches()
        self._below: Callable[..., Any] | None = None

    def instrument(self) -> None:
        """Put the hooks in; OpenTelemetry's own too, unless the host did."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as below

        self._own = _own_instrumentor()
        self._below = None
        if self._own is not None:
            below = vars(ThreadPoolExecutor)["submit"]
            self._own.instrument()
            if type(below) is FunctionType:
                self._below = below
        self._patches = Patches()
        self._patches.wrap(ThreadPoolExecutor, "submit", self._submit)
        self._patches.wrap(ThreadPoolExecutor, "map", hand_out_together)
        with suppress(ImportError):  # some builds of Python have none
            self._wrap_thread_pool(import_module("multiprocessing.pool").ThreadPool)
        for owner, name in _handing_on():
            self._patches.wrap(owner, name, _hand_on)

    def _wrap_thread_pool(self, kind: Any) -> None:
        self._patches.wrap(kind, "apply_async", _apply)
        self._patches.wrap(kind, "_map_async", _map_all)
        self._patches.wrap(kind, "imap", _map)
        self._patches.wrap(kind, "imap_unordered", _map)

    def uninstrument(self) -> None:
        """Take out what was put in."""
        self._patches.undo()
        if self._own is not None:
            self._own.uninstrument()
            self._own = None

    def _submit(
        self,
        wrapped: Callable[..., Any],
        pool: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Submit work with the causes that it has now; later its thread cannot know them.

        OpenTelemetry's own hook, where we put it in, makes the context current around
        the work. Work that brings a context with it does not see that, and goes past. So
        does a call without work, which that hook takes for granted: it fails as ever.
        """
        submit, below = wrapped, self._below
        if below is not None and (not args or brings_context(args[0])):
            submit = partial(below, pool)
        job = _hand_over()
        if job is None or not args:
            return submit(*args, **kwargs)
        return submit(job.run, *args, **kwargs)


def hand_out_together(
    wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Wrap what hands all of its work to a pool before it waits for any."""
    with Together():
        return wrapped(*args, **kwargs)


def _hand_on(
    wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Hand work that brings its context to the thread of a library, with the causes of now.

    The thread goes on to other work: what it did last is no cause of it.
    """
    job = _hand_over()
    if job is None or not args:
        return wrapped(*args, **kwargs)
    return wrapped(job.run, *args, **kwargs)


class _Work:
    """What a `ThreadPool` calls in the place of a function: with the causes and context of now.

    Its threads go on from one piece of work to the next, and know no context of it.

    Args:
        function: The function.
        jobs: One for each call; a call beyond is no job of its own.
    """

    def __init__(self, function: Callable[..., Any], jobs: Iterable[Job]) -> None:
        self._function = function
        self._jobs = deque(jobs)
        self._context = otel_context.get_current()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        block = spans.Block(self._context)
        try:
            # Somebody may add to a list while it is worked on.
            job = self._jobs.popleft() if self._jobs else None
            work = self._function if job is None else partial(job.run, self._function)
            return work(*args, **kwargs)
        finally:
            block.leave()


def _apply(
    wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Hand one call to a `ThreadPool`, as joblib does that works in threads."""
    job = _hand_over()
    if job is None or not args:
        return wrapped(*args, **kwargs)
    return wrapped(_Work(args[0], (job,)), *args[1:], **kwargs)


def _map(wrapped: Callable[..., Any], _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Hand a function for many items to a `ThreadPool`."""
    function, *rest = args or (wrapped,)  # it may be called by names alone
    jobs = _jobs_for(rest[0]) if rest else None
    if jobs is None:
        return wrapped(*args, **kwargs)
    return wrapped(_Work(function, jobs), *rest, **kwargs)


def _map_all(
    wrapped: Callable[..., Any], pool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Do so for what an iterator gives, too: a pool that maps lists all before it begins."""
    if not isinstance(args[1], Sized):
        args = (args[0], list(args[1]), *args[2:])
    return _map(wrapped, pool, args, kwargs)


_MOST_ITEMS: Final = 10_000
"""Items of one call whose work is told apart: of more than that hardly any is an agent's."""


@guarded
def _jobs_for(items: object) -> list[Job] | None:
    """Return a job for each item; how many an iterator gives, nobody knows."""
    count = len(items) if isinstance(items, Sized) else 0
    first = _hand_over() if 0 < count <= _MOST_ITEMS else None
    return None if first is None else [first, *(Job(first.source) for _ in range(1, count))]


def _handing_on() -> Iterator[tuple[Any, str]]:
    """Tell where libraries hand work to threads: anyio, and asgiref to one that waits.

    So does Starlette, by anyio; asgiref's is how what is asynchronous in Django, below code that
    is not, has work done that is not either. A library that is absent hands nothing on.
    """
    with suppress(ImportError):
        yield import_module("anyio.to_thread"), "run_sync"
    with suppress(ImportError):
        yield import_module("asgiref.current_thread_executor").CurrentThreadExecutor, "submit"


def brings_context(work: Any) -> bool:
    """Whether nothing of `work` runs outside of a context of its own.

    Types are compared exactly: a proxy or a subclass may do something before.

    Example:
        >>> from contextvars import copy_context
        >>> brings_context(partial(copy_context().run, print)), brings_context(print)
        (True, False)
    """
    while type(work) is partial:
        work = work.func
    return (
        type(work) is BuiltinMethodType
        and type(work.__self__) is Context
        and work.__name__ == "run"
    )


def _own_instrumentor() -> Any:
    """Return an instrumentor of our own; None where the host has put in the process's one.

    That one is the host's to put in later too, as `opentelemetry-instrument` does, and to keep
    when we leave: past `__new__`, which always gives the same one.
    """
    hosts = _hosts()
    kind = cast("Any", type(hosts))
    return None if hosts.is_instrumented_by_opentelemetry else object.__new__(kind)


def _hosts() -> Any:
    # Only setting up needs it, and with what it imports it costs more than the SDK does.
    # It comes without type information.
    from opentelemetry.instrumentation.threading import (  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]
        ThreadingInstrumentor,
    )

    return ThreadingInstrumentor()


@guarded
def _hand_over() -> Job | None:
    scope = spans.scope_of(otel_context.get_current())
    if scope is None or not scope.run.is_recording or scope.run.is_closed:
        return None
    return Job(scope.flow)
