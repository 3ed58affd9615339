"""What a decorated function still is: its looks, results and errors; it keeps nothing alive."""

import asyncio
import gc
import inspect
import pickle
import typing
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest
from opentelemetry import context as otel_context

import orchtrace_otel as orchtrace
from orchtrace_otel import spans
from tests.trees import recording
from tests.unit.decorators.crew import CANARY, fetch, search


@orchtrace.team("readers")
def read_all(pages: list[str]) -> Generator[str, None, int]:
    """Read page after page."""
    yield from pages
    return len(pages)


@orchtrace.agent
async def stream(text: str) -> AsyncGenerator[str, None]:
    """Stream words."""
    for word in text.split():
        yield word


KINDS = [
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
    asyncio.iscoroutinefunction,
    inspect.isfunction,
]


@pytest.mark.parametrize("function", [search, fetch, read_all, stream])
def test_a_decorated_function_looks_as_it_did(function: Callable[..., Any]) -> None:
    """Its name, docs, module, signature, hints, defaults and kind are the original's."""
    original = function.__wrapped__  # type: ignore[attr-defined]
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__"):
        assert getattr(function, name) == getattr(original, name)
    assert inspect.signature(function) == inspect.signature(original)
    assert typing.get_type_hints(function) == typing.get_type_hints(original)
    for is_kind in KINDS:
        assert is_kind(function) == is_kind(original), is_kind


@pytest.mark.parametrize("function", [search, fetch, read_all, stream])
def test_a_decorated_function_of_a_module_can_be_pickled(function: Callable[..., Any]) -> None:
    """It is found by its name, as any function of a module is."""
    assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - our own bytes


def test_the_result_is_the_very_object() -> None:
    """Functions, coroutines, tools and teams give back what the host's code gave."""
    thing = object()

    def give() -> object:
        return thing

    async def agive() -> object:
        return thing

    with recording():
        for decorate in (orchtrace.agent, orchtrace.tool, orchtrace.team):
            assert decorate(give)() is thing
            assert asyncio.run(decorate(agive)()) is thing


@pytest.mark.parametrize(
    "kind", [ValueError, KeyboardInterrupt, SystemExit, asyncio.CancelledError]
)
def test_the_exception_is_the_very_object(kind: type[BaseException]) -> None:
    """Its class, its cause, its context and its notes are the host's own."""
    cause = KeyError("why")
    raised = kind(CANARY)
    raised.add_note("a note")

    def fail() -> None:
        raise raised from cause

    async def afail() -> None:
        raise raised from cause

    with recording():
        for decorate in (orchtrace.agent, orchtrace.team):
            with pytest.raises(kind) as caught:
                decorate(fail)()
            assert caught.value is raised
            with pytest.raises(kind) as caught:
                decorate(afail)().send(None)
            assert caught.value is raised
    assert raised.__cause__ is cause
    assert raised.__context__ is cause or raised.__context__ is None
    assert raised.__notes__ == ["a note"]


def test_wrong_arguments_raise_what_they_raised() -> None:
    """A TypeError of the host's own function, in its own words."""
    with recording():
        with pytest.raises(TypeError, match=r"search\(\) missing 1 required positional argument"):
            search()  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=r"fetch\(\) got an unexpected keyword argument 'x'"):
            asyncio.run(fetch(x=1))  # type: ignore[call-arg]


def test_nothing_of_the_host_is_kept_alive() -> None:
    """Arguments and results are free as soon as the host lets go of them, inside a run too."""

    class Thing: ...

    @orchtrace.agent
    def work(thing: Thing) -> Thing:
        return Thing()

    @orchtrace.team
    def team() -> None:
        given = Thing()
        result = work(given)
        watched = weakref.ref(given), weakref.ref(result)
        del given, result
        assert [watch() for watch in watched] == [None, None]

    with recording():
        team()


def test_a_run_leaves_nothing_for_the_collector() -> None:
    """Calls are freed by counting references alone: no cycles on the hot path."""

    @orchtrace.team
    def team() -> None:
        search("x")

    with recording():
        team()
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                team()
            assert gc.collect() == 0
        finally:
            gc.enable()


def test_without_a_listener_functions_are_called_as_they_are() -> None:
    """No provider, no spans, no current activation."""
    seen: list[Any] = []

    @orchtrace.team
    def team() -> str:
        seen.append(spans.current())
        seen.append(orchtrace.current_run())
        return "done"

    before = otel_context.get_current()
    assert team() == "done"
    assert seen == [None, None]
    assert otel_context.get_current() is before
