"""Never executed: both type checkers, strict, accept what replays take and give."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import Change, Part, Slot, record


@orchtrace.tool(replay_safe=True)
def add(one: int, two: int) -> int:
    return one + two


@orchtrace.tool("fetch", replay_safe=False)
async def fetch(url: str) -> bytes:
    return url.encode()


def again(change: Change, seed: int) -> float:
    return float(Part("agent", "critic") in change.without) + seed


async def later(change: Change, seed: int) -> float:
    return again(change, seed)


async def ask(trace: orchtrace.Trace) -> None:
    assert_type(add(1, 2), int)
    assert_type(await fetch("x"), bytes)
    with record() as recording:
        add(1, 2)
    found = orchtrace.counterfactual(trace, again, recording=recording, width=0.1)
    assert_type(found[Slot("a", "b", 1)].value, float | None)
    assert_type(found.rewards(), list[orchtrace.Reward])
    orchtrace.counterfactual(trace, later, [Part("agent", "critic")], method="shapley")
    orchtrace.counterfactual(trace, later, alternatives={Slot("a", "b", 1): ["other"]})
    orchtrace.counterfactual(trace, again, metod="shapley")  # type: ignore[call-arg]
