"""What cannot be traced, and an argument that is wrong, is refused at its line."""

import functools
from collections.abc import Callable

import pytest

import orchtrace_otel as orchtrace
from tests.unit.decorators.crew import search


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
