"""`@agent`, `@tool` and `@team` on everything that can be decorated, and what stays as it was."""

import asyncio
import concurrent.futures
import contextvars
import copy
import functools
import gc
import inspect
import os
import pickle
import typing
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any

import pytest
from opentelemetry import context as otel_context

import orchtrace_otel as orchtrace
from orchtrace_otel import spans
from orchtrace_otel.decorators import ENTRY_METHODS
from tests.trees import recording, tree

CANARY = "the canary sings 4711"


def verbs(captured: Any) -> list[str]:
    return [event.verb for event in captured.trace.events]


def openings(captured: Any) -> list[str]:
    """Return the openings of all runs, each as `instance verb`."""
    return [
        f"{event['instance']} {event.verb}"
        for trace in captured.traces
        for event in trace.events
        if event.id.endswith(".open") and "instance" in event.keys and "tool" not in event.keys
    ]


# -- what stays as it was ------------------------------------------------------------


@orchtrace.agent("searcher", role="executor")
def search(question: str, *, depth: int = 2) -> list[str]:
    """Look for an answer."""
    return [question] * depth


@orchtrace.tool
async def fetch(url: str) -> bytes:
    """Get a page."""
    return url.encode()


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


# -- functions, with and without parentheses --------------------------------------------


def test_names_come_from_the_function_or_are_given() -> None:
    """Bare, with empty parentheses, by position and by keyword."""

    def plain() -> None: ...

    decorated = [
        orchtrace.agent(plain),
        orchtrace.agent()(plain),
        orchtrace.agent("given")(plain),
        orchtrace.agent(plain, name="named"),
        orchtrace.agent("given", role="critic")(plain),
        orchtrace.agent(lambda: None),
        orchtrace.agent(functools.partial(plain)),
        orchtrace.team("a team")(plain),
    ]
    with recording() as captured:
        for function in decorated:
            function()
    assert [
        event["to"]
        for trace in captured.traces
        for event in trace.events
        if "to" in event.keys and event.verb == "spawn"
    ] == ["plain", "plain", "given", "named", "given", "lambda", "plain"]
    assert captured.traces[4].events[1]["role"] == "critic"
    assert captured.traces[-1].events[0]["to"] == "a team"


def test_the_outermost_agent_gets_a_run_around_it() -> None:
    """The whole trace of one agent that was called by nobody we know."""
    with recording() as captured:
        assert search("who?") == ["who?", "who?"]
    assert tree(captured.trace) == (
        "orchestrator#1 begin\n"
        "  searcher#1 spawn as executor < spawn orchestrator#1.open\n"
        "  searcher#1.close\n"
        "  stop information_complete < return searcher#1.close"
    )


def test_a_tool_outside_a_run_is_called_as_it_is() -> None:
    """No agent, no tool call."""
    with recording() as captured:
        assert asyncio.run(fetch("x")) == b"x"
    assert captured.started == 0


def test_a_team_in_a_team_is_an_agent_of_the_outer_run() -> None:
    """There is one root, and the inner team is spawned."""

    @orchtrace.team("inner")
    def inner() -> None: ...

    @orchtrace.team("outer", task_id="q-17", tags={"split": "dev"})
    def outer() -> None:
        inner()

    with recording() as captured:
        outer()
    assert tree(captured.trace) == (
        "outer#1 begin\n"
        "  inner#1 spawn < spawn outer#1.open\n"
        "  inner#1.close\n"
        "  stop information_complete < return inner#1.close"
    )
    assert captured.trace.task_id == "q-17"
    assert captured.trace.events[0]["tags"] == {"split": "dev"}
    root = captured.spans[-1]
    assert root.attributes is not None
    assert root.attributes["orchtrace.tag.split"] == "dev"


def test_recursion_nests() -> None:
    """An agent that calls itself is another life below its own."""

    @orchtrace.agent
    def down(left: int) -> int:
        return 0 if left == 0 else down(left - 1) + 1

    with recording() as captured:
        assert down(2) == 2
    assert tree(captured.trace) == (
        "orchestrator#1 begin\n"
        "  down#1 spawn < spawn orchestrator#1.open\n"
        "    down#2 spawn < spawn down#1.open\n"
        "      down#3 spawn < spawn down#2.open\n"
        "      down#3.close\n"
        "    down#2.close < return down#3.close\n"
        "  down#1.close < return down#2.close\n"
        "  stop information_complete < return down#1.close"
    )


def test_a_function_decorated_twice_is_two_agents_one_in_the_other() -> None:
    """Each decorator says what it is told, and no more."""

    @orchtrace.agent("outer")
    @orchtrace.agent("inner")
    def work() -> int:
        return 3

    with recording() as captured:
        assert work() == 3
    assert openings(captured) == ["orchestrator#1 begin", "outer#1 spawn", "inner#1 spawn"]


def test_a_tool_that_is_an_agent_inside_nests_it() -> None:
    """An agent called in a tool follows from the tool call, and its return enters the result."""

    @orchtrace.agent
    def helper() -> int:
        return 1

    @orchtrace.tool
    def ask() -> int:
        return helper()

    @orchtrace.agent
    def boss() -> int:
        return ask()

    with recording() as captured:
        assert boss() == 1
    assert tree(captured.trace) == (
        "orchestrator#1 begin\n"
        "  boss#1 spawn < spawn orchestrator#1.open\n"
        "    ask.open < causal boss#1.open\n"
        "    helper#1 spawn < spawn ask.open\n"
        "    helper#1.close\n"
        "    ask.close < return helper#1.close\n"
        "  boss#1.close < tool_dependency ask.close\n"
        "  stop information_complete < return boss#1.close"
    )


@pytest.mark.parametrize("decorate", [orchtrace.agent, orchtrace.team])
def test_work_that_begins_after_its_run_has_stopped_is_a_run_of_its_own(
    decorate: Callable[..., Any],
) -> None:
    """A background task started by one request serves the next ones, each in its own trace."""

    @decorate
    async def late() -> None: ...

    async def background() -> None:
        await asyncio.sleep(0)
        await late()

    @orchtrace.team
    async def team() -> "asyncio.Task[None]":
        search("x")
        return asyncio.create_task(background())

    async def main() -> None:
        await (await team())

    with recording() as captured:
        asyncio.run(main())
    assert [trace.events[-1].verb for trace in captured.traces] == ["stop", "stop"]
    assert len({trace.trace_id for trace in captured.traces}) == 2


# -- functions that give back something that is not done yet -----------------------------


def test_a_plain_function_that_gives_back_a_coroutine_is_open_until_it_is_awaited() -> None:
    """The agent's work is the coroutine's."""

    async def work() -> str:
        await search_later()
        return "done"

    @orchtrace.agent
    def later() -> Coroutine[Any, Any, str]:
        return work()

    @orchtrace.agent("searcher")
    async def search_later() -> None: ...

    with recording() as captured:
        coroutine = later()
        assert inspect.iscoroutine(coroutine)
        assert asyncio.run(coroutine) == "done"
    assert openings(captured) == ["orchestrator#1 begin", "later#1 spawn", "searcher#1 spawn"]


def test_a_coroutine_that_nobody_awaits_ends_its_call() -> None:
    """Python warns as it did without us; no span and no run is left open."""

    async def work() -> None: ...

    @orchtrace.agent
    def later() -> Coroutine[Any, Any, None]:
        return work()

    with recording() as captured:
        with pytest.warns(RuntimeWarning, match="work' was never awaited") as warned:
            later()
        assert len(warned) == 1
        assert captured.open == {}
    assert captured.trace.events[-1]["status"] == "cancelled"


@pytest.mark.parametrize("way_out", ["result", "error", "cancelled"])
def test_a_function_that_gives_back_a_future_is_open_until_it_is_done(way_out: str) -> None:
    """The future is the very object, and how it ends is how the agent ends."""

    async def main() -> None:
        future = asyncio.get_running_loop().create_future()

        @orchtrace.agent
        def later() -> "asyncio.Future[str]":
            return future

        assert later() is future
        settle(future, way_out)
        await asyncio.wait([future])

    with recording() as captured:
        asyncio.run(main())
    assert captured.trace.events[-2]["status"] == {"result": "ok"}.get(way_out, way_out)


@pytest.mark.parametrize("way_out", ["result", "error", "cancelled"])
def test_a_function_that_gives_back_a_pools_future_is_open_until_it_is_done(way_out: str) -> None:
    """A concurrent future is no different."""
    future: concurrent.futures.Future[str] = concurrent.futures.Future()

    @orchtrace.agent
    def later() -> "concurrent.futures.Future[str]":
        return future

    with recording() as captured:
        assert later() is future
        settle(future, way_out)
    assert captured.trace.events[-2]["status"] == {"result": "ok"}.get(way_out, way_out)


def settle(future: Any, way_out: str) -> None:
    if way_out == "result":
        future.set_result("done")
    elif way_out == "error":
        future.set_exception(ValueError(CANARY))
    else:
        future.cancel()
        if isinstance(future, concurrent.futures.Future):
            future.set_running_or_notify_cancel()


# -- methods, classes, objects -------------------------------------------------------------


class Desk:
    """A class with every kind of method, decorated in both orders."""

    @orchtrace.agent
    def method(self, number: int) -> tuple["Desk", int]:
        return self, number

    @classmethod
    @orchtrace.agent
    def class_inside(cls, number: int) -> tuple[type, int]:
        return cls, number

    @orchtrace.agent
    @classmethod
    def class_outside(cls, number: int) -> tuple[type, int]:
        return cls, number

    @staticmethod
    @orchtrace.agent
    def static_inside(number: int) -> int:
        return number

    @orchtrace.agent
    @staticmethod
    def static_outside(number: int) -> int:
        return number

    @orchtrace.agent("async method", role="reader")
    async def amethod(self) -> "Desk":
        return self


def test_methods_bind_as_they_did() -> None:
    """Methods, class methods and static methods, decorated inside and outside."""

    class Sub(Desk): ...

    desk = Sub()
    with recording() as captured:
        assert desk.method(1) == (desk, 1)
        assert desk.class_inside(2) == Sub.class_inside(2) == (Sub, 2)
        assert desk.class_outside(3) == Sub.class_outside(3) == (Sub, 3)
        assert desk.static_inside(4) == Sub.static_inside(4) == 4
        assert desk.static_outside(5) == Sub.static_outside(5) == 5
        assert asyncio.run(desk.amethod()) is desk
    assert [trace.events[1].get("to") for trace in captured.traces] == [
        "method",
        "class_inside",
        "class_inside",
        "class_outside",
        "class_outside",
        "static_inside",
        "static_inside",
        "static_outside",
        "static_outside",
        "async method",
    ]
    assert inspect.signature(desk.method) == inspect.Signature(
        list(inspect.signature(Desk.method.__wrapped__).parameters.values())[1:],
        return_annotation=tuple["Desk", int],
    )


class UntracedWriter:
    def run(self, text: str) -> str:
        return text + "!"


@orchtrace.agent("writer", role="author")
class Writer:
    """A class whose objects are agents."""

    style = "plain"

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, task: str) -> str:
        """Write."""
        return self.polish(f"{self.name}: {task}")

    async def arun(self, task: str) -> str:
        return self.run(task)

    def stream(self, task: str) -> Generator[str, None, None]:
        yield from self.run(task).split()

    def polish(self, text: str) -> str:
        return text.strip()


def test_a_class_is_still_itself() -> None:
    """It is no copy and no proxy: isinstance, attributes, subclassing and pickling work."""
    writer = Writer("ann")
    assert isinstance(writer, Writer)
    assert type(writer) is Writer
    assert (Writer.__name__, Writer.style, writer.name) == ("Writer", "plain", "ann")
    assert Writer.run.__doc__ == "Write."
    assert isinstance(pickle.loads(pickle.dumps(writer)), Writer)  # noqa: S301 - our own bytes


def test_each_object_of_a_class_is_an_instance_of_its_own() -> None:
    """One object called twice is one life used again; another object is another life."""
    ann, bob = Writer("ann"), Writer("bob")

    @orchtrace.team
    def team() -> list[str]:
        return [ann.run("a"), bob.run("b"), ann.run("c")]

    with recording() as captured:
        assert team() == ["ann: a", "bob: b", "ann: c"]
    assert openings(captured) == [
        "team#1 begin",
        "writer#1 spawn",
        "writer#2 spawn",
        "writer#1 delegate",
    ]
    assert captured.trace.events[1]["role"] == "author"


@pytest.mark.parametrize("outermost", [True, False])
def test_entry_methods_that_call_each_other_count_once(outermost: bool) -> None:
    """An object's `arun` over `run`, or `stream` over `run`, is one activation."""
    ann = Writer("ann")

    async def work() -> list[str]:
        return [await ann.arun("a"), *ann.stream("b")]

    with recording() as captured:
        assert asyncio.run(work() if outermost else orchtrace.team("t")(work)()) == [
            "ann: a",
            "ann:",
            "b",
        ]
    expected = ["orchestrator#1 begin", "writer#1 spawn"]
    assert openings(captured) == (
        expected * 2 if outermost else ["t#1 begin", "writer#1 spawn", "writer#1 delegate"]
    )


def test_a_subclass_is_traced_by_what_it_inherits_and_counts_once() -> None:
    """`super().run()` of an overriding, undecorated method is the one activation."""

    class Editor(Writer):
        def run(self, task: str) -> str:
            return super().run(task).upper()

    with recording() as captured:
        assert Editor("ed").run("x") == "ED: X"
        assert asyncio.run(Editor("ed").arun("x")) == "ED: X"
    assert openings(captured) == ["orchestrator#1 begin", "writer#1 spawn"] * 2


def test_a_decorated_subclass_of_a_decorated_class_is_one_agent() -> None:
    """An object is one agent, however many of its classes are decorated."""

    @orchtrace.agent("editor")
    class Editor(Writer):
        def run(self, task: str) -> str:
            return super().run(task).upper()

    with recording() as captured:
        assert Editor("ed").run("x") == "ED: X"
    assert openings(captured) == ["orchestrator#1 begin", "editor#1 spawn"]


def test_an_object_that_calls_another_of_its_class_spawns_it() -> None:
    """Two objects of one class in each other are two activations."""

    @orchtrace.agent("node")
    class Node:
        def __init__(self, inner: "Node | None" = None) -> None:
            self.inner = inner

        def __call__(self) -> int:
            return 1 if self.inner is None else self.inner() + 1

    with recording() as captured:
        assert Node(Node())() == 2
    assert openings(captured) == ["orchestrator#1 begin", "node#1 spawn", "node#2 spawn"]


def test_objects_with_slots_are_agents_too() -> None:
    """What cannot be told apart for want of weak references is flagged, and works."""

    @orchtrace.agent("slim")
    class Slim:
        __slots__ = ()

        def run(self) -> int:
            return 1

    with recording() as captured:
        assert Slim().run() == 1
    assert captured.trace.flags == ("objects_not_told_apart",)


def test_a_class_without_an_entry_method_is_refused() -> None:
    """The error says what must hold, what came and what to do."""

    class Empty:
        def work(self) -> None: ...

    with pytest.raises(
        orchtrace.ConfigError, match="needs a class that defines one of __call__"
    ) as caught:
        orchtrace.agent(Empty)
    assert "Empty defines none; decorate the method" in str(caught.value)


def test_a_lambda_a_partial_and_an_object_with_call_are_agents() -> None:
    """Whatever can be called."""

    class Caller:
        def __call__(self, number: int) -> int:
            return number + 1

    traced = [
        orchtrace.agent("one")(lambda number: number + 1),
        orchtrace.agent("two")(functools.partial(int.__add__, 1)),
        orchtrace.agent("three")(Caller()),
        orchtrace.agent("four")(Caller().__call__),
        orchtrace.agent("five")(max),
    ]
    with recording() as captured:
        assert [function(2) for function in traced[:4]] == [3, 3, 3, 3]
        assert traced[4](1, 2) == 2
    assert [trace.events[1]["to"] for trace in captured.traces] == [
        "one",
        "two",
        "three",
        "four",
        "five",
    ]


def test_a_cache_below_a_decorator_can_still_be_asked_and_cleared() -> None:
    """What a kind of callable has beyond functions stays in reach."""

    @orchtrace.agent
    @functools.lru_cache
    def search(word: str) -> str:
        return word.upper()

    class Desk:
        look_up = orchtrace.tool(functools.lru_cache(lambda _self, word: word + "!"))

    with recording() as captured:
        assert [search("a"), search("a"), Desk().look_up("b")] == ["A", "A", "b!"]
    assert len(captured.traces) == 2
    assert (search.cache_info().hits, Desk.look_up.cache_info().misses) == (1, 1)
    search.cache_clear()
    assert search.cache_info().currsize == 0


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


def test_a_partial_of_a_coroutine_function_is_awaited() -> None:
    """Its kind is seen through the partial."""

    async def add(one: int, two: int) -> int:
        return one + two

    traced = orchtrace.agent("add")(functools.partial(add, 1))
    assert inspect.iscoroutinefunction(traced)
    with recording() as captured:
        assert asyncio.run(traced(2)) == 3
    assert openings(captured) == ["orchestrator#1 begin", "add#1 spawn"]


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


@pytest.mark.parametrize(
    "target",
    [
        3,
        object(),
        [1],
        property(len),
        functools.cached_property(len),
        functools.partialmethod(len),
        functools.singledispatchmethod(len),
    ],
    ids=type,
)
def test_what_cannot_be_traced_is_refused(target: object) -> None:
    """The error names what came."""
    with pytest.raises(orchtrace.ConfigError, match=f"got {type(target).__qualname__}"):
        orchtrace.agent(target)


async def give(result: object) -> float:
    return float(bool(result))


@pytest.mark.parametrize(
    ("decorate", "says"),
    [
        (lambda: orchtrace.agent(""), "needs a name that is a text with something in it, got ''"),
        (lambda: orchtrace.agent(" "), "needs a name that is a text with something in it, got ' '"),
        (lambda: orchtrace.agent("a", name="b"), "takes one name, got 'a' and name='b'"),
        (lambda: orchtrace.agent(search, name=3), "got 3"),  # type: ignore[call-overload]
        (
            lambda: orchtrace.agent("a", role=3),
            "needs role to be a text with something in it, got 3",
        ),  # type: ignore[call-overload]
        (lambda: orchtrace.agent("a", role=""), "role to be a text.*got ''"),
        (lambda: orchtrace.tool(""), "@tool needs a name"),
        (lambda: orchtrace.tool("a", replay_safe="yes"), "replay_safe to be True or False.*'yes'"),  # type: ignore[call-overload]
        (lambda: orchtrace.tool(property(len)), "decorate the function, below the property"),
        (lambda: orchtrace.team("t", task_id=7), "@team needs task_id"),  # type: ignore[call-overload]
        (lambda: orchtrace.team("t", tags={"a": 1}), r"tags\['a'\] to be a text.*got 1"),  # type: ignore[dict-item]
        (lambda: orchtrace.team("t", tags={1: "a"}), "a key of tags to be a text.*got 1"),  # type: ignore[dict-item]
        (lambda: orchtrace.team("t", tags=["a"]), r"tags to be a mapping.*got \['a'\]"),  # type: ignore[call-overload]
        (lambda: orchtrace.team("t", reward=3), "reward that can be called.*got 3"),  # type: ignore[call-overload]
        (lambda: orchtrace.team("t", reward=lambda: 1.0), r"got <function.*, which takes \(\)"),  # type: ignore[call-overload,misc]
        (lambda: orchtrace.team("t", reward=give), "would have to be awaited"),  # type: ignore[call-overload]
    ],
)
def test_a_wrong_argument_is_refused_at_its_line(decorate: Callable[[], object], says: str) -> None:
    """A ConfigError that says what must hold and what came."""
    with pytest.raises(orchtrace.ConfigError, match=says):
        decorate()


# -- errors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "reason", "name"),
    [
        (ValueError, "error", "error", "ValueError"),
        (asyncio.CancelledError, "cancelled", "cancelled", "asyncio.exceptions.CancelledError"),
        (KeyboardInterrupt, "cancelled", "cancelled", "KeyboardInterrupt"),
        (SystemExit, "cancelled", "external", "SystemExit"),
        (GeneratorExit, "cancelled", "consumer_closed", "GeneratorExit"),
        (TimeoutError, "error", "error", "TimeoutError"),
        (
            concurrent.futures.CancelledError,
            "cancelled",
            "cancelled",
            "concurrent.futures._base.CancelledError",
        ),
    ],
)
def test_how_a_call_ended_is_said_by_class_never_by_text(
    kind: type[BaseException], status: str, reason: str, name: str
) -> None:
    """Status, error class and stop reason; the text of the exception is nowhere."""

    @orchtrace.tool
    def look_up() -> None:
        raise kind(CANARY)

    @orchtrace.agent
    def work() -> None:
        look_up()

    @orchtrace.team
    def team() -> None:
        work()

    with recording() as captured, pytest.raises(kind):
        team()
    of_error = f" {name}" if status == "error" else ""
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  work#1 spawn < spawn team#1.open\n"
        "    look_up.open < causal work#1.open\n"
        f"    look_up.close{of_error} [{status}]\n"
        f"  work#1.close{of_error} [{status}] < tool_dependency look_up.close\n"
        f"  stop {reason} {name}{of_error} [{status}] < return work#1.close"
    )
    assert [span.status.status_code.name == "ERROR" for span in captured.spans] == [
        status == "error",
        status == "error",
        False,
        status == "error",
    ]
    assert CANARY not in captured.trace.to_json()
    assert all(CANARY not in span.to_json() for span in captured.spans)


def test_an_error_that_a_caller_catches_is_only_the_callees() -> None:
    """The failed agent is an error, its caller and the run are not."""

    @orchtrace.agent
    def fails() -> None:
        raise ValueError(CANARY)

    @orchtrace.team
    def team() -> str:
        try:
            fails()
        except ValueError:
            return search("again")[0]
        return "never"

    with recording() as captured:
        assert team() == "again"
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  fails#1 spawn < spawn team#1.open\n"
        "  fails#1.close ValueError [error]\n"
        "  searcher#1 spawn as executor < return fails#1.close, spawn team#1.open\n"
        "  searcher#1.close\n"
        "  stop information_complete < return searcher#1.close"
    )


def test_a_cancelled_task_is_cancelled_and_raises_what_it_raised() -> None:
    """`asyncio.timeout` and `cancel` work through a decorated coroutine."""

    @orchtrace.agent
    async def slow() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await slow()

    with recording() as captured:
        asyncio.run(main())
    assert captured.trace.events[-2]["status"] == "cancelled"
    assert captured.trace.events[-1]["stop_reason"] == "cancelled"


def test_a_coroutine_that_is_closed_in_a_copy_of_its_context_ends_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The call is current there too, and what was before cannot be restored."""
    copies: list[contextvars.Context] = []

    @orchtrace.agent
    async def slow() -> None:
        copies.append(contextvars.copy_context())
        await _Never()

    with recording() as captured:
        coroutine = slow()
        contextvars.Context().run(coroutine.send, None)
        copies[0].run(coroutine.close)
        assert captured.open == {}
    assert caplog.records == []


def test_a_coroutine_that_is_closed_from_elsewhere_ends_quietly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A loop that is dropped leaves its tasks to the collector, in another context."""

    @orchtrace.tool
    async def wait() -> None:
        await _Never()

    @orchtrace.agent
    async def slow() -> None:
        await wait()

    async def passed_on() -> None:
        await plain()

    @orchtrace.agent
    def plain() -> Coroutine[Any, Any, None]:
        return slow()

    with recording() as captured:
        coroutine = passed_on()
        contextvars.Context().run(coroutine.send, None)
        contextvars.Context().run(coroutine.close)
        assert captured.open == {}
    assert caplog.records == []
    assert {event["status"] for event in captured.trace.events if event.verb == "return"} == {
        "cancelled"
    }


class _Never:
    def __await__(self) -> Generator[None, None, None]:
        yield


def test_a_method_called_without_its_object_raises_what_it_raised() -> None:
    """And with it by keyword it works, as it did."""
    with recording():
        with pytest.raises(TypeError, match=r"run\(\) missing 2 required positional arguments"):
            Writer.run()  # type: ignore[call-arg]
        assert Writer.run(self=Writer("ann"), task="x") == "ann: x"


@pytest.mark.swallows_errors
def test_something_that_only_looks_like_a_future_comes_back_all_the_same() -> None:
    """Its call ends there and then."""

    class Odd:
        def add_done_callback(self) -> None: ...

    odd = Odd()
    with recording() as captured:
        assert orchtrace.agent(lambda: odd, name="odd")() is odd
    assert captured.trace.events[-1]["status"] == "ok"


# -- tracing off ------------------------------------------------------------------------------


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


def test_entry_methods_are_the_documented_ones() -> None:
    """A new one changes what decorated classes record: it is to be a decision."""
    assert ENTRY_METHODS == (
        "__call__",
        "run",
        "arun",
        "run_stream",
        "invoke",
        "ainvoke",
        "stream",
        "astream",
    )
