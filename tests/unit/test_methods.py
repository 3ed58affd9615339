"""The object of a method is not what was asked: neither content, nor what a replay looks for."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import content
from orchtrace_otel.content import Capture
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.playback import record
from orchtrace_otel.testing import Captured, capture

CANARY = "canary-5e1f"


@pytest.fixture
def captured() -> Iterator[Captured]:
    """Content goes on spans; off again afterwards."""
    with capture() as found:
        set_up(Capture(mode="SPAN_ONLY"), None)
        yield found
        content.use(None)


def bare(function: Any) -> Any:
    """Decorate as who does not know `functools.wraps`."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Holds:
    """An object that knows what nobody may read."""

    def __init__(self) -> None:
        self.memory = [CANARY]


class Team(Holds):
    """Every way to decorate what stands in the body of a class."""

    @orchtrace.agent
    def method(self, q: Any) -> Any:
        return q

    @orchtrace.agent
    def of_another_name(this, q: Any) -> Any:  # noqa: N805 - hosts may call it as they like
        return q

    @orchtrace.tool
    def tool(self, q: Any) -> Any:
        return q

    @orchtrace.agent
    async def coroutine(self, q: Any) -> Any:
        return q

    @orchtrace.agent
    def generator(self, q: Any) -> Iterator[Any]:
        yield q

    @orchtrace.agent
    async def stream(self, q: Any) -> Any:
        yield q

    @orchtrace.agent
    @classmethod
    def class_method(klass, q: Any) -> Any:  # noqa: N804 - as above
        return q

    @classmethod
    @orchtrace.agent
    def inside_of_class_method(klass, q: Any) -> Any:  # noqa: N804 - as above
        return q

    @orchtrace.agent
    @staticmethod
    def static(q: Any) -> Any:
        return q

    @staticmethod
    @orchtrace.agent
    def inside_of_static(q: Any) -> Any:
        return q

    @orchtrace.agent("call")
    def __call__(self, q: Any) -> Any:
        return q

    @bare
    @orchtrace.agent
    def below_another(this, q: Any) -> Any:  # noqa: N805 - as above
        return q

    @orchtrace.agent
    @functools.lru_cache  # noqa: B019 - hosts do it
    def above_a_cache(this, q: Any) -> Any:  # noqa: N805 - as above
        return q

    @orchtrace.agent
    @wrapped
    def above_another(self, q: Any) -> Any:
        return q

    @orchtrace.agent("above")
    @bare
    def above_one_that_hides(self, q: Any) -> Any:
        return q

    def _plain(this, q: Any) -> Any:  # noqa: N805 - as above
        return q

    part = functools.partialmethod(orchtrace.agent(_plain))


class Sub(Team):
    """Inherits all of it, and calls what is above it."""

    @orchtrace.agent("sub")
    def method(self, q: Any) -> Any:
        return super().method(q)


class Borrows(Holds):
    """Has a method of another class as its own, and a function of none."""

    of_another_name = Team.of_another_name


@orchtrace.agent
def given_later(this: Any, q: Any) -> Any:
    return q


Borrows.given_later = given_later  # type: ignore[attr-defined]


@orchtrace.agent
class Whole(Holds):
    """A class that is decorated as a whole."""

    def run(this, q: Any) -> Any:  # noqa: N805 - as above
        return q


class Plain(Holds):
    """An object that is decorated itself, or its method."""

    def run(self, q: Any) -> Any:
        return q


def awaited(call: Any) -> Any:
    return asyncio.run(call)


async def all_of(stream: Any) -> list[Any]:
    return [item async for item in stream]


KINDS: dict[str, Callable[[Any], Any]] = {
    "method": lambda q: Team().method(q),
    "another name": lambda q: Team().of_another_name(q),
    "through its class": lambda q: Team.method(Team(), q),
    "object by name": lambda q: Team.method(self=Team(), q=q),
    "another by name": lambda q: Team.of_another_name(this=Team(), q=q),
    "above a cache": lambda q: Team().above_a_cache(q),
    "given later": lambda q: Borrows().given_later(q),  # type: ignore[attr-defined]
    "tool": lambda q: Team().tool(q),
    "coroutine": lambda q: awaited(Team().coroutine(q)),
    "generator": lambda q: list(Team().generator(q)),
    "async generator": lambda q: awaited(all_of(Team().stream(q))),
    "class method": Team.class_method,
    "inside of a class method": lambda q: Team().inside_of_class_method(q),
    "static": Team.static,
    "inside of static": lambda q: Team().inside_of_static(q),
    "call": Team(),
    "below another decorator": lambda q: Team().below_another(q),
    "above another decorator": lambda q: Team().above_another(q),
    "above one that hides": lambda q: Team().above_one_that_hides(q),
    "partial method": lambda q: Team().part(q),
    "inherited": lambda q: Sub().of_another_name(q),
    "above it": lambda q: Sub().method(q),
    "borrowed": lambda q: Borrows().of_another_name(q),
    "class": lambda q: Whole().run(q),
    "object": lambda q: orchtrace.agent(Plain(), name="plain").run(q),
    "bound method": orchtrace.agent(Plain().run),
    "partial": orchtrace.agent(functools.partial(Plain.run, Plain()), name="part"),
    "open partial": lambda q: orchtrace.agent(functools.partial(Plain.run), name="p")(Plain(), q),
}


def told(captured: Captured) -> list[Any]:
    """Return the arguments that spans tell, of agents and tools."""
    found = []
    for span in captured.spans:
        text = span.attributes.get("gen_ai.tool.call.arguments")
        shown = span.attributes.get("gen_ai.input.messages")
        if shown is not None:
            text = json.dumps(json.loads(shown)[0]["parts"][0]["content"])
        if text is not None and not span.name.startswith("invoke_workflow"):
            found.append(json.loads(text))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_object_is_not_content(kind: str, captured: Captured) -> None:
    """However a method is decorated and called, its arguments alone are kept."""

    @orchtrace.team
    def work() -> None:
        KINDS[kind]("asked")

    work()
    wanted = {"q": "asked"} if kind.endswith("by name") else {"args": ["asked"]}
    found = told(captured)
    assert found == [wanted] * (2 if kind == "above it" else 1)
    assert CANARY not in str([dict(span.attributes or {}) for span in captured.spans])


def test_an_object_that_is_an_argument_is_content(captured: Captured) -> None:
    """Of static methods and of functions outside of classes what comes first was asked."""

    @orchtrace.agent
    def outside(q: Any) -> Any:
        return q

    @orchtrace.team
    def work() -> None:
        Team.inside_of_static(Team())
        Team.static(Team())
        outside(Team())
        outside(Team)

    work()
    given = {"args": [{"memory": [CANARY]}]}
    assert told(captured) == [given, given, given, {"args": ["<type>"]}]


class Session(Holds):
    """Methods that take a secret."""

    @orchtrace.tool
    def log_in(self, user: str, password: str | None = None) -> str:
        return user

    @orchtrace.tool
    @classmethod
    async def alog_in(cls, user: str, password: str, *more: str) -> str:
        return user


@orchtrace.agent
class Caller:
    """Its work takes one."""

    def run(self, api_key: str, q: str) -> str:
        return q


@orchtrace.tool
def pages(token: str) -> Iterator[str]:
    """Take one of a generator's."""
    yield "page"


def test_a_secret_is_one_by_place_too(captured: Captured) -> None:
    """What a parameter with a secret name takes is not kept, whichever way it is given."""

    @orchtrace.team
    async def work() -> None:
        Session().log_in("me", CANARY)
        Session().log_in("me", None)
        orchtrace.tool(Session().log_in, name="bound")("me", CANARY)
        orchtrace.tool(functools.partial(Session().log_in, "me"), name="partial")(CANARY)
        await Session.alog_in("me", CANARY, "more")
        Caller().run(CANARY, "asked")
        assert [*pages(CANARY)] == ["page"]

    asyncio.run(work())
    taken = "[redacted]"
    assert [one["args"] for one in told(captured) if "args" in one] == [
        ["me", taken],
        ["me", None],
        *[["me", taken]] * 3,
        [taken],
        ["me", taken, "more"],
        [taken, "asked"],
        [taken],
    ]
    assert CANARY not in str([dict(span.attributes or {}) for span in captured.spans])


@orchtrace.tool
def count(cls: Any, image: Any) -> Any:
    """Stand outside of classes; what comes first is called like a method's object."""
    return f"{cls} in {image}"


def outside(self: Any, q: Any) -> Any:
    return q


class Given:
    """Has a function from outside as its method."""

    ask = orchtrace.tool("ask")(outside)


@pytest.mark.parametrize("label", ["dog", 3, None, ("a", "b"), ["a"], str, b"x"])
def test_what_can_have_no_such_method_is_an_argument_whatever_its_name(
    label: Any, captured: Captured
) -> None:
    """A text in a parameter `cls` was asked, by place and by name; to a replay too."""

    @orchtrace.team
    def work() -> None:
        count(label, "one")
        count(cls=label, image="one")
        Given().ask("it")

    with record() as recording:
        work()
    assert [len(one["args"]) if "args" in one else [*one] for one in told(captured)] == [
        2,
        ["cls", "image"],
        1,
    ]
    assert len(recording.find("count", (label, "one"), {})) == 1
    assert recording.find("count", ("another", "one"), {}) == []


class Equal(type):
    """A class of classes that have no hash, and are not to be compared."""

    def __eq__(cls, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


class Odd(metaclass=Equal):
    """Has a function whose object is told by its class; and an object of its own in it."""

    @orchtrace.tool
    def look(this, q: Any) -> Any:  # noqa: N805 - hosts may call it as they like
        return q


class Holding:
    odd = Odd()

    @orchtrace.tool
    def look(this, q: Any) -> Any:  # noqa: N805 - as above
        return q


@pytest.mark.parametrize("kind", [Odd, Holding])
def test_an_object_is_told_whatever_its_class_s_class_is(kind: Any, captured: Captured) -> None:
    """By identity alone: neither a recording nor a replay comes to harm by it."""

    @orchtrace.team
    def work() -> Any:
        return kind().look("it")

    with record() as recording:
        assert work() == "it"
    assert told(captured) == [{"args": ["it"]}]
    assert len(recording.find("look", ("it",), {})) == 1


def test_a_replay_looks_for_what_a_tool_is_asked_alone() -> None:
    """A recorded result is found for another object of the class, however it names its object."""

    class Tools:
        @orchtrace.tool
        def look(this, q: Any) -> Any:  # noqa: N805 - as above
            return f"found {q}"

        @orchtrace.tool
        @classmethod
        def search(klass, q: Any) -> Any:  # noqa: N804 - as above
            return f"found {q}"

    with record() as recording:
        Tools().look("it")
        Tools.search("it")
    for name in ("look", "search"):
        (call,) = recording.find(name, ("it",), {})
        assert call.result == "found it"
