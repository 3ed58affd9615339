"""Methods bind as they did, and each object of a decorated class is an instance of its agent."""

import asyncio
import inspect
import pickle
from collections.abc import Generator

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.decorators import ENTRY_METHODS
from tests.trees import recording
from tests.unit.decorators.crew import openings


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


def test_each_object_of_a_class_that_was_shipped_is_an_instance_of_its_own() -> None:
    """Ray, Dask and joblib send a class of a script or a notebook by its value."""
    cloudpickle = pytest.importorskip("cloudpickle")  # scikit-learn brings it along

    @orchtrace.agent("editor")
    class Editor:
        def run(self, text: str) -> str:
            return text.strip()

    shipped = cloudpickle.loads(cloudpickle.dumps(Editor))
    ann, bob = shipped(), shipped()

    @orchtrace.team
    def team() -> list[str]:
        return [ann.run("a "), bob.run("b "), ann.run("c ")]

    with recording() as captured:
        assert team() == ["a", "b", "c"]
    assert openings(captured) == [
        "team#1 begin",
        "editor#1 spawn",
        "editor#2 spawn",
        "editor#1 delegate",
    ]
    assert not captured.trace.flags


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


def test_a_method_called_without_its_object_raises_what_it_raised() -> None:
    """And with it by keyword it works, as it did."""
    with recording():
        with pytest.raises(TypeError, match=r"run\(\) missing 2 required positional arguments"):
            Writer.run()  # type: ignore[call-arg]
        assert Writer.run(self=Writer("ann"), task="x") == "ann: x"


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
