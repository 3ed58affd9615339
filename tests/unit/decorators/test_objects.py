"""An object of a framework is traced through a proxy that can do what it can, and no more."""

import asyncio
import copy
import inspect
import os
import pickle
import typing
from collections.abc import Callable, Generator
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from tests.trees import recording
from tests.unit.decorators.crew import openings


class UntracedWriter:
    def run(self, text: str) -> str:
        return text + "!"


def test_the_entry_method_of_an_object_is_a_method_still() -> None:
    """A pool of processes pickles it, and finds it by its object, as it does without us."""
    writer = UntracedWriter()
    traced = orchtrace.agent(writer, name="writer")
    assert inspect.ismethod(traced.run)
    assert traced.run.__self__ is writer
    assert str(inspect.signature(traced.run)) == str(inspect.signature(writer.run))
    again = pickle.loads(pickle.dumps(traced.run))  # noqa: S301 - our own bytes
    assert again("a") == writer.run("a") == "a!"
    with recording() as captured:
        assert traced.run("a") == "a!"
    assert openings(captured) == ["orchestrator#1 begin", "writer#1 spawn"]


def test_an_object_says_and_does_what_it_would_without_us() -> None:
    """It stands in logs and prompts as itself, and an entry method that is swapped works."""
    writer = UntracedWriter()
    traced = orchtrace.agent(writer, name="writer")
    assert repr(traced) == repr(writer)
    traced.run = lambda text: text + "?"
    with recording() as captured:
        assert (traced.run("a"), writer.run("a")) == ("a?", "a?")
        del traced.run
        assert traced.run("a") == "a!"
        writer.run = None  # type: ignore[assignment, method-assign]
        assert traced.run is None
    assert openings(captured) == ["orchestrator#1 begin", "writer#1 spawn"] * 2


class Graph:
    """Like a framework's compiled object: entry methods, attributes, state."""

    def __init__(self) -> None:
        self.name = "graph"
        self.calls = 0

    def invoke(self, state: dict[str, int]) -> dict[str, int]:
        self.calls += 1
        return state

    async def ainvoke(self, state: dict[str, int]) -> dict[str, int]:
        return self.invoke(state)

    def stream(self, state: dict[str, int]) -> Generator[int, None, None]:
        yield from self.invoke(state).values()

    def describe(self) -> str:
        return f"{self.name} called {self.calls} times"


def test_a_frameworks_object_is_traced_through_a_proxy() -> None:
    """It still is what it was to isinstance, getattr, setattr and equality."""
    graph = Graph()
    traced = orchtrace.agent(graph, name="research", role="lead")
    assert isinstance(traced, Graph)
    with recording() as captured:
        state = {"x": 1}
        assert traced.invoke(state) is state
        assert asyncio.run(traced.ainvoke(state)) is state
        assert list(traced.stream(state)) == [1]
        assert traced.describe() == "graph called 3 times"
    traced.name = "renamed"
    assert (graph.name, graph.calls, traced == graph) == ("renamed", 3, True)
    assert openings(captured) == ["orchestrator#1 begin", "research#1 spawn"] * 3
    assert inspect.iscoroutinefunction(traced.ainvoke)
    assert not callable(traced)
    with pytest.raises(TypeError, match="not callable"):
        traced()  # type: ignore[operator]


class Job:
    """An object that can be awaited, iterated over and entered, as jobs and streams can."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.left = [1, 2]

    def run(self, text: str) -> str:
        return text + "!"

    def __await__(self) -> Generator[Any, None, str]:
        yield from asyncio.sleep(0).__await__()
        return "done"

    def __aiter__(self) -> typing.Self:
        return self

    async def __anext__(self) -> int:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()

    def __iter__(self) -> typing.Self:
        return self

    def __next__(self) -> int:
        return self.left.pop()

    async def __aenter__(self) -> str:
        return "in"

    async def __aexit__(self, *given: object) -> None:
        self.said.append(f"out: {given}")

    def __fspath__(self) -> str:
        return "job.txt"


def test_a_traced_object_can_do_what_its_class_can() -> None:
    """Python looks for these on the class: await, async for and with, next, a path."""
    job = Job()
    traced = orchtrace.agent(job, name="job")

    async def work() -> list[object]:
        async with traced as entered:
            return [await traced, next(traced), [item async for item in traced], entered]

    with recording() as captured:
        assert asyncio.run(work()) == ["done", 2, [1], "in"]
        assert traced.run("a") == "a!"
    assert job.said == ["out: (None, None, None)"]
    assert os.fspath(traced) == "job.txt"
    assert asyncio.run(_awaited(copy.copy(traced))) == "done"
    assert openings(captured) == ["orchestrator#1 begin", "job#1 spawn"]


async def _awaited(one: Any) -> Any:
    return await one


def test_a_traced_object_can_do_no_more_than_its_class() -> None:
    """What is looked for on a class is not there for others."""
    traced = orchtrace.agent(Graph(), name="graph")
    for name in ("__await__", "__aiter__", "__next__", "__fspath__"):
        assert not hasattr(type(traced), name)
    with pytest.raises(TypeError, match="await"):
        asyncio.run(_awaited(traced))


def test_a_traced_method_says_whose_it_is() -> None:
    """As the functions of C do: frameworks look for the object."""
    job = Job()
    traced = orchtrace.agent(job.run, name="run")
    assert traced.__self__ is job  # type: ignore[attr-defined]
    with recording() as captured:
        assert traced("a") == "a!"
    assert openings(captured) == ["orchestrator#1 begin", "run#1 spawn"]
    assert not hasattr(orchtrace.agent(lambda text: text), "__self__")


@pytest.mark.parametrize(
    "again",
    [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],  # noqa: S301 - our own
)
def test_a_traced_object_is_copied_and_pickled_as_it_was(again: Callable[[Any], Any]) -> None:
    """The copy is another object, and traced under the same name."""
    traced = orchtrace.agent(Graph(), name="research", role="lead")
    other = again(traced)
    other.name = "other"
    assert isinstance(other, Graph)
    with recording() as captured:
        assert other.invoke({"x": 1}) == {"x": 1}
    assert (traced.calls, other.calls, traced.name, other.name) == (0, 1, "graph", "other")
    assert openings(captured) == ["orchestrator#1 begin", "research#1 spawn"]


def test_an_objects_own_name_is_its_agents_name() -> None:
    """Unless one is given."""
    with recording() as captured:
        orchtrace.agent(Graph()).invoke({})
    assert captured.trace.events[1]["to"] == "graph"


def test_one_object_is_one_instance_through_a_proxy_too() -> None:
    """Called twice in a run it is a life used again."""
    traced = orchtrace.agent(Graph())

    @orchtrace.team
    def team() -> None:
        traced.invoke({})
        traced.invoke({})

    with recording() as captured:
        team()
    assert openings(captured) == ["team#1 begin", "graph#1 spawn", "graph#1 delegate"]
