"""Lambdas, partials, caches and objects with `__call__` are traced, and stay what they are."""

import asyncio
import functools
import inspect

import orchtrace_otel as orchtrace
from tests.trees import recording
from tests.unit.decorators.crew import openings


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


def test_a_partial_of_a_coroutine_function_is_awaited() -> None:
    """Its kind is seen through the partial."""

    async def add(one: int, two: int) -> int:
        return one + two

    traced = orchtrace.agent("add")(functools.partial(add, 1))
    assert inspect.iscoroutinefunction(traced)
    with recording() as captured:
        assert asyncio.run(traced(2)) == 3
    assert openings(captured) == ["orchestrator#1 begin", "add#1 spawn"]
