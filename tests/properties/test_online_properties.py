"""A run followed event by event has the measures of the finished trace, to the bit."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import measure
from orchtrace_otel.rewards.graph import Graph, read_graph
from orchtrace_otel.rewards.online import Online
from tests.properties.runs import fork3, opened_fork3, random_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHUFFLES = 5_000
RUNS = 1_000


def causes_of(trace: Trace) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for edge in trace.edges:
        if edge.type != "temporal":
            found[edge.dst].append(edge.src)
    return found


def followed(trace: Trace, events: Iterable[Event]) -> Online:
    causes = causes_of(trace)
    run = Online()
    for event in events:
        run.add(event, causes[event.id])
    return run


def causal_orders(trace: Trace) -> Iterator[tuple[Event, ...]]:
    """Every order in which causes come before their effects."""
    causes = {name: set(found) for name, found in causes_of(trace).items()}

    def orders(left: frozenset[str], done: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if not left:
            yield done
        for name in left:
            if causes.get(name, set()).isdisjoint(left):
                yield from orders(left - {name}, (*done, name))

    by_id = {event.id: event for event in trace.events}
    for order in orders(frozenset(by_id), ()):
        yield tuple(by_id[name] for name in order)


def causal_order(trace: Trace, rng: random.Random) -> list[Event]:
    """One of these orders."""
    causes = {name: set(found) for name, found in causes_of(trace).items()}
    left = {event.id: event for event in trace.events}
    found: list[Event] = []
    while left:
        ready = sorted(name for name in left if causes.get(name, set()).isdisjoint(left))
        found.append(left.pop(rng.choice(ready)))
    return found


@pytest.mark.parametrize("form", [fork3, opened_fork3])
def test_every_causal_order_of_fork3_ends_with_the_same_bits(form):
    """All 3,300 orders in which causes come first give what the finished trace gives, inline."""
    trace = form()
    offline = measure(trace)
    seen = 0
    for order in causal_orders(trace):
        run = followed(trace, order)
        assert run.is_exact
        assert run.finish(trace) == offline
        seen += 1
    assert seen == 3_300


@pytest.mark.parametrize("form", [fork3, opened_fork3])
def test_any_order_of_fork3_ends_with_the_same_bits(form):
    """Five thousand orders, most of them with effects before causes."""
    trace = form()
    offline = measure(trace)
    rng = random.Random(5)  # noqa: S311 - an order, no secret
    events = list(trace.events)
    for _ in range(SHUFFLES):
        rng.shuffle(events)
        assert followed(trace, events).finish(trace) == offline


def test_a_thousand_random_runs_end_with_the_same_bits_in_any_order():
    """Shuffled and in a causal order, whatever the team did."""
    rng = random.Random(7)  # noqa: S311 - an order, no secret
    exact = 0
    for seed in range(RUNS):
        trace = random_run(seed)
        offline = measure(trace)
        events = list(trace.events)
        rng.shuffle(events)
        assert followed(trace, events).finish(trace) == offline
        run = followed(trace, causal_order(trace, rng))
        assert run.finish(trace) == offline
        exact += run.is_exact
    assert exact == RUNS  # in a causal order the offline twin was never asked


def intervals(graph: Graph) -> dict[str, tuple[object, ...]]:
    """What takes time in a run, by name; events by their ids, for positions are of an order.

    Of what took none at all it says nothing what that was inside of.
    """
    ids = {place: name for name, place in graph.positions.items()}
    return {
        name: (low, high, ids[opened], ids[closed], owner if low < high else None)
        for low, high, name, opened, closed, owner in graph.intervals
    }


def test_a_followed_run_has_the_intervals_of_the_finished_one():
    """What takes time, from when to when and inside of what."""
    rng = random.Random(9)  # noqa: S311 - an order, no secret
    for seed in range(100):
        trace = random_run(seed)
        run = followed(trace, causal_order(trace, rng))
        run.finish(trace)
        assert intervals(run._graph()) == intervals(read_graph(trace))


@given(st.integers(min_value=0, max_value=2**32), st.randoms(use_true_random=False))
def test_asking_while_it_is_open_changes_nothing(seed, rng):
    """Numbers may be asked for after each event: the end is the same."""
    trace = random_run(seed)
    causes = causes_of(trace)
    run = Online()
    for event in causal_order(trace, rng):
        run.add(event, causes[event.id])
        so_far = run.values()
        assert all(number >= 0 for number in so_far.values())
    assert run.finish(trace) == measure(trace)
    last, offline = run.values(), measure(trace)[0]
    assert last == {name: value for name, value in offline.items() if name != "waste"}


@pytest.mark.parametrize(
    "odd",
    [
        lambda t: replace(t, edges=(*t.edges, Edge("e11", "e1", "causal"))),
        lambda t: replace(t, edges=(*t.edges, Edge("e11", "e11", "causal"))),
        lambda t: replace(t, edges=(*t.edges, Edge("nobody", "e11", "causal"))),
        lambda t: replace(t, events=(t.events[1], *t.events)),
        lambda t: replace(t, events=t.events[:-1]),
        lambda t: replace(t, events=(*t.events[:-1], replace(t.events[-1], id="x"), t.events[-1])),
        lambda t: replace(t, events=tuple(one for one in t.events if one.id != "A.close")),
        lambda t: replace(t, events=tuple(one for one in t.events if one.id != "A.open")),
        lambda t: replace(t, events=(replace(t.events[0], t=float("nan")), *t.events[1:])),
        lambda t: replace(t, events=(replace(t.events[0], t=7), *t.events[1:])),
        lambda t: replace(t, metrics={"turns_without_usage": 1}),
        lambda t: replace(t, costs={"tokens": 9_999}),
        lambda t: replace(t, events=()),
    ],
    ids=[
        "cycle",
        "self-loop",
        "missing cause",
        "duplicate id",
        "no stop",
        "two stops",
        "never closed",
        "never opened",
        "no time",
        "skew",
        "unknown tokens",
        "missing tokens",
        "empty",
    ],
)
def test_odd_runs_have_the_same_measures_and_flags(odd):
    """What cannot be told is absent and flagged online as it is offline."""
    trace = odd(opened_fork3())
    assert followed(trace, trace.events).finish(trace) == measure(trace)
    causes = causes_of(trace)
    run = Online()
    for event in trace.events:
        run.add(event, causes[event.id])
        run.values()
    assert run.finish(trace) == measure(trace)


def test_a_run_that_is_closed_after_its_stop_lasts_until_then():
    """The stop ends what it names only where nothing else does; online that comes out later."""
    events = (
        Event("O.open", 0, "message", "user", {"verb": "begin", "activation": "O"}),
        Event("stop", 4, "orchestrator_decision", "O", {"verb": "stop", "activation": "O"}),
        Event("O.close", 5, "return", "O", {"activation": "O"}),
    )
    trace = Trace("run", "task", events)
    assert followed(trace, events).finish(trace) == measure(trace)
    assert measure(trace)[0]["work"] == 5


def test_a_run_in_progress_tells_what_is_known():
    """A lead waits for a worker who has been at it for three seconds."""
    run = Online()
    lead = {"verb": "begin", "activation": "a"}
    run.add(Event("a.open", 0, "message", "lead", lead))
    run.add(
        Event("d", 1, "message", "lead", {"activation": "a", "verb": "message", "tokens": 30}),
        ["a.open"],
    )
    worker = {"verb": "spawn", "activation": "b", "parent": "a"}
    run.add(Event("b.open", 2, "spawn", "worker", worker), ["d"])
    run.add(
        Event("m", 5, "message", "worker", {"activation": "b", "verb": "message", "tokens": 10}),
        ["b.open"],
    )
    assert run.values() == {
        "work": 5.0,
        "span": 3.0,
        "makespan": 5.0,
        "parallelism": 5 / 3,
        "speed_up": 1.0,
        "peak_concurrency": 1,
        "parallelism_efficiency": 1.0,
        "protocol_overhead": 1.0,
    }
    assert Online().values() == {}


def test_what_begins_with_its_activation_and_comes_first_is_inside_it():
    """At one time, without a cause between them, either may come first."""
    rows = (
        ("T.open", 0, "tool_call", "O", {"activation": "O"}),
        ("O.open", 0, "message", "user", {"verb": "begin", "activation": "O"}),
        ("T.close", 3, "tool_result", "O", {"activation": "O"}),
        ("O.close", 4, "return", "O", {"activation": "O"}),
    )
    events = tuple(Event(*row) for row in rows)
    trace = Trace("run", "task", events, (Edge("T.open", "T.close", "causal"),))
    for order in (events, (events[1], events[0], *events[2:])):
        assert followed(trace, order).finish(trace) == measure(trace)
    assert measure(trace)[0]["work"] == 4
