"""Traces to try exporters and rewards on: of this project's own making, and of others'."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from orchtrace_otel.decorators import agent, team, tool
from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.testing.recorder import capture
from orchtrace_otel.verbs import aggregate, message


@tool("look_up")
def _look_up(topic: str) -> str:
    return topic


@agent("searcher", role="executor")
def _search(topic: str) -> str:
    message("critic", topic)
    return _look_up(topic)


@agent("critic")
def _review(text: str) -> int:
    return len(text)


@team("research", task_id="q-17", reward=len)
def _answer(topics: tuple[str, ...]) -> str:
    found = [_search(topic) for topic in topics]
    with aggregate(sources=found):
        text = " ".join(found)
    _review(text)
    return text


@agent("broken")
def _break_off() -> None:
    raise LookupError


def own_traces(count: int = 4) -> list[Trace]:
    """Return traces of plain teams that this project made, of runs of their own.

    Every other run fails.
    """
    with capture(deterministic=True) as captured:
        for number in range(count):
            if number % 2:
                with suppress(LookupError):
                    _break_off()
            else:
                _answer(("Größe", "two\nlines", "x" * number))
    return captured.traces


def foreign_traces() -> list[Trace]:
    """Return traces that the published schema accepts and that know none of our keys."""
    costs = {"tokens": 0, "wall_clock_s": 0}
    events = (
        Event("1", 0, "spawn", "lead"),
        Event("2", 0, "tool_call", "worker", {"odd": None}),
        Event("3", 2.5, "return", "worker", {"tokens": "many"}),
    )
    edges = (Edge("1", "2", "spawn"), Edge("2", "3", "causal"))
    cycle = (*edges, Edge("3", "1", "causal"))
    return [
        Trace("empty", "task", (), costs=costs),
        Trace("bare", "task", events, edges, costs=costs),
        Trace("cyclic", "task", events, cycle, costs=costs),
        Trace("dangling", "task", events, (Edge("1", "nobody", "causal"),), costs=costs),
        Trace("repeated", "task", (*events, events[0]), edges, costs=costs),
    ]


def odd_traces() -> list[Trace]:
    """Return traces in our own words in which one thing is not as it should be."""
    run = own_traces(1)[0]
    first, second, *_, stop = run.events
    merge = next(event for event in run.events if event.type == "aggregate")
    close = next(event for event in run.events if event.verb == "return")

    def other(name: str, events: Iterable[Event], *more: Edge) -> Trace:
        return replace(run, trace_id=name, events=tuple(events), edges=(*run.edges, *more))

    def changed(name: str, event: Event, **keys: Any) -> Trace:
        t = keys.pop("t", event.t)
        new = replace(event, t=t, keys={**event.keys, **keys})
        return other(name, (new if one is event else one for one in run.events))

    despawn = {"verb": "despawn", "to": "searcher", "activation": second["activation"]}
    again = replace(merge, id=merge.id + "-again")
    return [
        replace(run, trace_id="empty", events=(), edges=()),
        replace(run, trace_id="single event", events=(stop,), edges=()),
        other("self-loop", run.events, Edge(second.id, second.id, "causal")),
        other("duplicate id", (first, *run.events)),
        other("missing parent", (one for one in run.events if one is not first)),
        other("cycle", run.events, Edge(stop.id, first.id, "causal")),
        changed("negative duration", merge, duration_s=-1.0),
        changed("skew", second, t=stop.t + 1),
        other(
            "despawn without return",
            (*(one for one in run.events[:-1] if one is not close), _despawn(despawn, stop), stop),
        ),
        other("two aggregates", (*run.events[:-1], again, stop), Edge(again.id, stop.id, "causal")),
        other("no stop", run.events[:-1]),
        changed("no time", second, t=float("nan")),
    ]


def _despawn(keys: dict[str, Any], before: Event) -> Event:
    return Event("0" * 15 + "d", before.t, "despawn", "research", keys)
