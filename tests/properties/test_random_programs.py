"""Random programs behave the same traced and untraced, and their traces are whole."""

import asyncio
import gc
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import orchtrace_otel as orchtrace
from tests.trees import recording

DEPTH = 4


class BoomError(Exception):
    """What random programs raise."""


class Program:
    """One program: what it does follows from the seed alone."""

    def __init__(self, seed: int, *, is_traced: bool) -> None:
        self.seed = seed
        self.is_traced = is_traced
        self.log: list[str] = []

    def outcome(self) -> tuple[object, list[str]]:
        """Run it; return what came out and what it did, in an order that threads cannot change."""
        try:
            return asyncio.run(self.traced(self.whole, "team")()), sorted(self.log)
        except BoomError as error:
            return str(error), sorted(self.log)

    async def whole(self) -> object:
        return await self.step(self.seed, DEPTH)

    def traced(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        if not self.is_traced:
            return function
        decorate = {"team": orchtrace.team, "tool": orchtrace.tool}.get(name, orchtrace.agent)
        return decorate(name)(function)

    async def step(self, seed: int, depth: int) -> object:
        dice = random.Random(seed)  # noqa: S311 - a program, not a secret
        kind = dice.choice(INNER if depth else LEAVES)
        name = f"agent {dice.randrange(3)}"
        seeds = [dice.randrange(10**9) for _ in range(3)]
        parts = [lambda one=one: self.step(one, depth - 1) for one in seeds]
        return await kind(self, dice, name, parts)

    async def caught(self, part: Callable[[], Awaitable[object]]) -> object:
        try:
            return await part()
        except BoomError:
            self.log.append("caught")
            return "caught"


Parts = list[Callable[[], Awaitable[object]]]


async def leaf(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    return name


async def fail(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    raise BoomError(name)


async def tool(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    return program.traced(lambda: program.log.append("tool"), "tool")()


async def verb(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    verbs: list[Callable[[], object]] = [
        lambda: orchtrace.spawn(name),
        lambda: orchtrace.delegate(name),
        lambda: orchtrace.message(name),
        lambda: orchtrace.decide("way", chosen=name),
        lambda: orchtrace.aggregate().__enter__().__exit__(None, None, None),
    ]
    return dice.choice(verbs)()


async def coroutine(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    async def work() -> list[object]:
        return [await program.caught(parts[0]), await parts[1]()]

    return await program.traced(work, dice.choice([name, "team"]))()


async def future(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    return await program.traced(lambda: asyncio.ensure_future(parts[0]()), name)()


async def thread(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    work = program.traced(lambda: asyncio.run(program.caught(parts[0])), name)
    return await asyncio.to_thread(work)


async def gather(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    return await asyncio.gather(*(program.caught(part) for part in parts))


async def sequence(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    return [await program.caught(part) for part in parts[:2]] + [await parts[2]()]


async def generator(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    def work() -> Generator[object, object, str]:
        program.log.append(str((yield 1)))
        yield 2
        return "end"

    reading = program.traced(work, name)()
    first = next(reading)
    leave: list[Callable[[], object]] = [
        lambda: [reading.send("sent"), *reading],
        reading.close,
        lambda: None,
    ]
    return first, dice.choice(leave)()


async def stream(program: Program, dice: random.Random, name: str, parts: Parts) -> object:
    async def work() -> AsyncGenerator[object, None]:
        yield await program.caught(parts[0])
        yield await parts[1]()

    reading = program.traced(work, name)()
    try:
        return [await anext(reading, None) for _ in range(dice.choice([1, 2, 3]))]
    finally:
        await reading.aclose()  # a run does not wait for what is left half read


LEAVES = [leaf, fail, tool, verb]
INNER = [coroutine, future, thread, gather, sequence, generator, stream, tool, verb]


@given(seed=st.integers(0, 10**6))
def test_a_random_program_behaves_as_it_does_untraced(seed: int) -> None:
    """Same result, same exception, same deeds; every span ended; no effect before its cause."""
    plain = Program(seed, is_traced=False).outcome()
    with recording(deterministic=False) as captured:
        assert Program(seed, is_traced=True).outcome() == plain
        gc.collect()
    trace = captured.trace
    place = {event.id: number for number, event in enumerate(trace.events)}
    assert [edge for edge in trace.edges if place[edge.src] >= place[edge.dst]] == []
    assert trace.flags == ()
    assert dict(captured.pipeline.losses) == {}
