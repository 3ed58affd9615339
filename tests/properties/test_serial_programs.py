"""A program that does one thing after the other shows no parallelism, whatever it nests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import orchtrace_otel as orchtrace
from orchtrace_otel.rewards import measure
from orchtrace_otel.rewards.graph import read_graph
from tests.properties.test_online_properties import followed
from tests.trees import recording

_LEAVES = st.sampled_from(["decide", "message", "spawn", "delegate", "aggregate", "raise"])
_CALLS = ("agent", "announced", "tool", "team", "merging", "stream")

PROGRAMS = st.recursive(
    _LEAVES,
    lambda steps: st.tuples(st.sampled_from(_CALLS), st.lists(steps, max_size=4)),
    max_leaves=12,
)


class StepError(Exception):
    """What a step raises; who called it goes on."""


def _run(steps: Sequence[Any]) -> None:
    for step in steps:
        if isinstance(step, str):
            LEAVES[step]()
        else:
            call, inner = step
            with contextlib.suppress(StepError):
                CALLS[call](inner)


def _fail() -> None:
    raise StepError


def _merge(steps: Sequence[Any] = ()) -> None:
    with orchtrace.aggregate():
        _run(steps)


def _announced(steps: Sequence[Any]) -> None:
    orchtrace.spawn("scout")
    LEAVES["decide"]()
    CALLS["scout"](steps)


def _stream(steps: Sequence[Any]) -> None:
    @orchtrace.agent("reader")
    def reading():
        for step in steps:
            yield _run([step])

    list(reading())


LEAVES: dict[str, Callable[[], object]] = {
    "decide": lambda: orchtrace.decide("route", chosen="a", candidates=["a", "b"]),
    "message": lambda: orchtrace.message("critic", "hello"),
    "spawn": lambda: orchtrace.spawn("writer"),
    "delegate": lambda: orchtrace.delegate("writer"),
    "aggregate": _merge,
    "raise": _fail,
}
CALLS: dict[str, Callable[[Sequence[Any]], object]] = {
    "agent": orchtrace.agent("critic")(_run),
    "tool": orchtrace.tool("look_up")(_run),
    "scout": orchtrace.agent("scout")(_run),
    "announced": _announced,
    "team": orchtrace.team("crew")(_run),
    "merging": _merge,
    "stream": _stream,
}


@given(st.lists(PROGRAMS, max_size=4))
@example([("tool", [("merging", [("announced", [])])])])
@example([("tool", ["decide", ("agent", [])])])
@example([("tool", [("tool", []), "decide", ("tool", []), ("agent", []), ("tool", [])])])
@example([("agent", []), ("tool", ["aggregate"])])
@example([("merging", ["spawn", ("agent", ["message", ("tool", [])]), ("tool", [])])])
def test_one_thing_after_the_other_is_no_parallelism(steps):
    """The work of a serial program fills its time, all of it once, at any depth."""
    with recording() as captured, contextlib.suppress(StepError):
        orchtrace.team("lead")(_run)(steps)
    trace = captured.trace
    graph = read_graph(trace)
    assert trace.flags == ()
    assert sum(graph.own_work) == graph.last - graph.first
    assert trace.metrics is not None
    assert trace.metrics["peak_concurrency"] == 1
    run = followed(trace, trace.events)
    assert run.is_exact
    assert run.finish(trace) == measure(trace)


def test_an_agent_announced_before_a_tool_begins_inside_the_tool_that_calls_it():
    """A tool that calls who was spawned before does not work meanwhile."""

    @orchtrace.team("lead")
    def lead():
        orchtrace.spawn("critic")
        CALLS["tool"]([("agent", [])])

    with recording() as captured:
        lead()
    graph = read_graph(captured.trace)
    assert sum(graph.own_work) == graph.last - graph.first
    assert len(graph.inside) == 1
