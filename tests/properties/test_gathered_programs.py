"""Programs that gather branches which gather in turn: each call follows from what was before it."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from hypothesis import example, given
from hypothesis import strategies as st

import orchtrace_otel as orchtrace
from orchtrace_otel.model import Trace
from tests.trees import recording

Program: TypeAlias = "list[int | list[Program]]"
"""Steps one after the other: a call, by how often it gives way, or branches that are gathered."""

CALLS = st.integers(1, 4)
"""Who never gives way has come back before the next branch begins, as if they ran in turn."""


def begins_with_a_call(inner: st.SearchStrategy[Program]) -> st.SearchStrategy[Program]:
    """Branches that do something before they gather: until then nobody tells who made a task."""
    steps = st.lists(CALLS | st.lists(inner, min_size=1, max_size=3), max_size=3)
    return st.builds(lambda first, rest: [first, *rest], CALLS, steps)


PROGRAMS = st.recursive(st.builds(lambda first: [first], CALLS), begins_with_a_call, max_leaves=12)


class World:
    """Runs a program, and notes of each call which calls it waited for."""

    def __init__(self) -> None:
        self.before: dict[str, set[str]] = {}

    async def run(self, program: Program, known: set[str]) -> set[str]:
        for step in program:
            if isinstance(step, int):
                known = await self.call(step, known)
            else:
                ends = await asyncio.gather(*(self.run(branch, known) for branch in step))
                known = set().union(*ends)
        return known

    async def call(self, turns: int, known: set[str]) -> set[str]:
        name = f"agent{len(self.before)}"
        self.before[name] = known

        @orchtrace.agent(name)
        async def work() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        await work()
        return {name}


def returned_before(trace: Trace) -> dict[str, set[str]]:
    """Who came back right before each agent began, and before the stop, by its name."""
    events = {event.id: event for event in trace.events}
    into: dict[str, set[str]] = {
        str(event["to"]): set() for event in trace.events if event.verb == "spawn"
    }
    for edge in trace.edges:
        effect = events[edge.dst]
        if edge.type == "return" and effect.verb in {"spawn", "stop"}:
            into.setdefault(str(effect.get("to", "stop")), set()).add(events[edge.src].agent)
    return into


@given(PROGRAMS)
@example([1, [[1, [[1], [1]], 1], [4, [[1], [1]], 1]]])
@example([1, [[1, [[3], [1]]], [1]], 1])
def test_each_call_follows_from_the_calls_that_its_branch_waited_for(program: Program) -> None:
    """Not from those of branches beside it, nor from those before its branch alone."""
    world = World()

    @orchtrace.team
    async def team() -> set[str]:
        return await world.run(program, set())

    with recording() as captured:
        last = asyncio.run(team())
    assert returned_before(captured.trace) == {**world.before, "stop": last}
