"""Small teams that are advised, a model for them, and the points of their traces."""

from __future__ import annotations

from collections.abc import Callable

import orchtrace_otel as orchtrace
from orchtrace_otel.model import Event, Trace
from orchtrace_otel.rewards.stopping.heads import Curve, Linear
from orchtrace_otel.rewards.stopping.model import StopValue
from tests.trees import recording


@orchtrace.agent
def writer(text: str = "") -> str:
    return text + "!"


@orchtrace.agent(role="critic")
def critic(text: str = "") -> str:
    return text + "?"


@orchtrace.agent
def broken() -> None:
    raise LookupError


@orchtrace.tool
def poll() -> None: ...


def model(*features: str) -> StopValue:
    """Going on gains 0.25 less a tenth a step."""
    names = features or ("step", "last_ok")
    width = len(names)
    flat = Linear(0.5, (0.0,) * width, (0.0,) * width, (9.0,) * width)
    gain = Linear(0.25, (-0.1, *[0.0] * width), (0.0,) * (width + 1), (9.0,) * (width + 1))
    spread = Linear(0.1, (0.0,) * (width + 1), (0.0,) * (width + 1), (9.0,) * (width + 1))
    return StopValue(names, 0.05, flat, Curve((0.5,), (0.5,)), gain, spread)


def points(trace: Trace) -> list[Event]:
    return [event for event in trace.events if "decision_point" in event.keys]


@orchtrace.team
def team() -> None:
    orchtrace.delegate("writer")
    writer("a")
    critic("b")
    with orchtrace.aggregate():
        pass
    orchtrace.decide("route", chosen="stop")


def run(team: Callable[[], object]) -> Trace:
    with recording() as captured:
        team()
    return captured.trace
