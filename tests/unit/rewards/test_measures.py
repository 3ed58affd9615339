"""Structural measures: the sheet's worked numbers, nesting, and what is absent when."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import graph
from orchtrace_otel.rewards.measures import measure

FORK3 = {
    "work": 15.0,
    "span": 9.0,
    "makespan": 9.0,
    "parallelism": 1.6667,
    "speed_up": 1.6667,
    "peak_concurrency": 3,
    "parallelism_efficiency": 0.5556,
    "protocol_overhead": 0.2,
    "waste": 0.1333,
}


def rounded(trace: Trace) -> dict[str, float]:
    measures, flags = measure(trace)
    assert not flags
    return {name: round(value, 4) for name, value in measures.items()}


def changed(trace: Trace, identity: str, **keys: object) -> Trace:
    """The trace with keys of one event, or its `t`, replaced."""
    t = keys.pop("t", None)
    events = [
        replace(event, keys={**event.keys, **keys}, t=event.t if t is None else t)
        if event.id == identity
        else event
        for event in trace.events
    ]
    return replace(trace, events=tuple(events))


def with_edges(trace: Trace, *more: Edge) -> Trace:
    return replace(trace, edges=trace.edges + more)


def after_the_stop(trace: Trace) -> Trace:
    """The trace with another return of A's 400 tokens, behind its stop."""
    late = replace(trace.events[-4], id="late.close", t=10)
    return replace(
        trace,
        events=(*trace.events, late),
        costs={**trace.costs, "tokens": trace.costs["tokens"] + late["tokens"]},
    )


@pytest.mark.parametrize("form", ["fork3", "foreign_fork3"])
def test_fork3_has_the_numbers_of_the_sheet(form, request):
    """Every worked number of the formula sheet holds to its printed digits, in both forms."""
    assert rounded(request.getfixturevalue(form)) == FORK3


def test_fork3_shuffled_has_the_same_bits(fork3):
    """Five thousand orders of FORK3's events and edges give one result."""
    expected = measure(fork3)
    rng = random.Random(3)  # noqa: S311 - seeded
    events, edges = list(fork3.events), list(fork3.edges)
    for _ in range(5000):
        rng.shuffle(events)
        rng.shuffle(edges)
        assert measure(replace(fork3, events=tuple(events), edges=tuple(edges))) == expected


def test_a_caller_that_waits_does_no_work(make_event, make_edges):
    """Calls one after the other, three deep, are counted once: no parallelism from nesting."""
    events = (
        make_event("O.open", 0, "begin", "O"),
        make_event("A.open", 1, "spawn", "A", parent="O"),
        make_event("B.open", 3, "spawn", "B", parent="A"),
        make_event("T.open", 4, "tool_call", "B"),
        make_event("T.close", 7, "tool_result", "B"),
        make_event("B.close", 8, "return", "B"),
        make_event("A.close", 9, "return", "A"),
        make_event("stop", 10, "stop", "O"),
    )
    path = "O.open A.open B.open T.open T.close B.close A.close stop"
    measures = rounded(Trace("run", "task", events, make_edges(path)))
    assert measures == {
        "work": 10.0,
        "span": 10.0,
        "makespan": 10.0,
        "parallelism": 1.0,
        "speed_up": 1.0,
        "peak_concurrency": 1,
        "parallelism_efficiency": 1.0,
        "protocol_overhead": 0.0,
        "waste": 0.0,
    }


def test_a_tool_that_runs_an_agent_does_not_work_meanwhile(make_event, make_edges):
    """An activation caused by a tool's call lies inside it; a tool beside it does not."""
    events = (
        make_event("O.open", 0, "begin", "O"),
        make_event("T.open", 0, "tool_call", "O"),
        make_event("U.open", 1, "tool_call", "O"),
        make_event("A.open", 1, "spawn", "A", parent="O"),
        make_event("A.close", 5, "return", "A"),
        make_event("U.close", 5, "tool_result", "O"),
        make_event("T.close", 6, "tool_result", "O"),
        make_event("stop", 6, "stop", "O"),
    )
    edges = make_edges("O.open T.open A.open A.close T.close stop", "O.open U.open U.close stop")
    measures = rounded(Trace("run", "task", events, edges))
    assert (measures["work"], measures["span"], measures["peak_concurrency"]) == (10, 6, 2)


def test_what_a_tool_does_by_way_of_something_else_lies_inside_it(make_event, make_edges):
    """A decision or a result between a tool's opening and a call changes nothing of where that is.

    B heard of T's decision, and was called by V.
    """
    events = (
        make_event("O.open", 0, "begin", "O"),
        make_event("V.open", 0, "tool_call", "O"),
        make_event("T.open", 1, "tool_call", "O"),
        make_event("d", 1, "decide", "O"),
        make_event("A.open", 2, "spawn", "A", parent="O"),
        make_event("B.open", 3, "spawn", "B", parent="O"),
        make_event("B.close", 4, "return", "B"),
        make_event("A.close", 5, "return", "A"),
        make_event("U.open", 5, "tool_call", "O"),
        make_event("U.close", 7, "tool_result", "O"),
        make_event("T.close", 8, "tool_result", "O"),
        make_event("V.close", 9, "tool_result", "O"),
        make_event("stop", 9, "stop", "O"),
    )
    edges = make_edges(
        "O.open T.open d A.open A.close U.open U.close T.close stop",
        "O.open V.open B.open B.close V.close stop",
        "d B.open",
    )
    found = graph.read_graph(Trace("run", "task", events, edges))
    assert found.inside == {"A": "T", "U": "T", "B": "V"}
    assert dict(zip((event.id for event in events), found.own_work, strict=True)) == {
        **dict.fromkeys(("O.open", "V.open", "T.open", "d", "A.open", "B.open", "U.open"), 0),
        "B.close": 1_000_000_000,
        "A.close": 3_000_000_000,
        "U.close": 2_000_000_000,
        "T.close": 2_000_000_000,
        "V.close": 8_000_000_000,
        "stop": 0,
    }


def test_waiting_for_people_is_no_work(fork3, make_event):
    """Time that a human takes lengthens the run and is nobody's work."""
    asked = make_event("ask", 9, "human_intervention", "O", duration_s=5)
    stop = replace(fork3.events[-1], t=14)
    trace = replace(fork3, events=(*fork3.events[:-1], asked, stop))
    measures = rounded(with_edges(trace, Edge("e11", "ask", "causal")))
    assert {name: measures[name] for name in ("work", "span", "makespan", "speed_up")} == {
        "work": 15.0,
        "span": 9.0,
        "makespan": 14.0,
        "speed_up": 1.0714,
    }


def test_no_chain_is_longer_than_the_time_that_went_by(make_event, make_edges):
    """Work done before a message came is not put behind it: span stays within makespan."""
    events = (
        make_event("O.open", 0, "begin", "O"),
        make_event("A.open", 2, "spawn", "A", parent="O"),
        make_event("B.open", 2, "spawn", "B", parent="O"),
        make_event("B.close", 5, "return", "B"),
        make_event("read", 7, "message", "A"),
        make_event("A.close", 9, "return", "A"),
        make_event("stop", 10, "stop", "O"),
    )
    edges = make_edges("O.open A.open read A.close stop", "O.open B.open B.close read")
    measures = rounded(Trace("run", "task", events, edges))
    assert (measures["work"], measures["span"], measures["makespan"]) == (13, 10, 10)


@pytest.mark.parametrize(("edge_type", "span"), [("temporal", 9.0), ("causal", 12.0)])
def test_temporal_edges_are_no_causes(fork3, make_event, edge_type, span):
    """Mere order makes no chain: only a causal edge lengthens the span."""
    more = make_event("late", 9, "decide", "X", duration_s=3)
    trace = replace(fork3, events=(*fork3.events, more))
    trace = with_edges(trace, Edge("e11", "late", edge_type))
    assert measure(trace)[0]["span"] == span


def test_a_run_in_no_time_divides_nothing_by_zero(make_event, make_edges):
    """With all times equal the ratios are 1, as the sheet has them, and shares are 0."""
    events = (make_event("O.open", 0, "begin", "O"), make_event("stop", 0, "stop", "O"))
    assert rounded(Trace("run", "task", events)) == {
        "work": 0.0,
        "span": 0.0,
        "makespan": 0.0,
        "parallelism": 1.0,
        "speed_up": 1.0,
        "peak_concurrency": 1,
        "parallelism_efficiency": 1.0,
        "protocol_overhead": 0.0,
        "waste": 0.0,
    }


TIMED = {
    "work",
    "span",
    "makespan",
    "parallelism",
    "speed_up",
    "peak_concurrency",
    "parallelism_efficiency",
}


@pytest.mark.parametrize(
    ("spoil", "flag", "missing"),
    [
        (
            lambda t: with_edges(t, Edge("e11", "e1", "message"), Edge("e1", "e1", "temporal")),
            {"cyclic", "skewed"},
            TIMED | {"waste"},
        ),
        (
            lambda t: with_edges(t, Edge("e2", "e2", "causal")),
            {"cyclic"},
            {"span", "parallelism", "waste"},
        ),
        (lambda t: changed(t, "A.close", t=1), {"skewed"}, TIMED),
        (lambda t: changed(t, "e11", duration_s=-1), {"skewed"}, TIMED),
        (lambda t: changed(t, "e11", duration_s="long"), {"skewed"}, TIMED),
        (lambda t: changed(t, "e2", t=float("inf")), {"skewed"}, TIMED),
        (
            lambda t: replace(t, metrics={"turns_without_usage": 1}),
            {"tokens_unknown"},
            {"protocol_overhead", "waste"},
        ),
        (
            lambda t: changed(t, "e11", tokens=None),
            {"tokens_unknown"},
            {"protocol_overhead", "waste"},
        ),
        (
            lambda t: replace(t, costs={"tokens": 1501, "wall_clock_s": 9}),
            {"tokens_unknown"},
            {"protocol_overhead", "waste"},
        ),
        (
            lambda t: replace(t, events=(*t.events[:-1], t.events[2], t.events[-1])),
            {"duplicate_ids"},
            (TIMED - {"makespan"}) | {"waste"},
        ),
    ],
    ids=[
        "cycle and skew",
        "self-loop",
        "effect before cause",
        "negative duration",
        "duration of another type",
        "infinite time",
        "turn without usage",
        "unknown count",
        "tokens on no event",
        "duplicate id",
    ],
)
def test_what_is_unknown_is_absent_and_flagged(fork3, spoil, flag, missing):
    """A value over a cycle, skew or unknown tokens is left out; all others stay right."""
    measures, flags = measure(spoil(fork3))
    assert flags == flag
    expected = {name: value for name, value in FORK3.items() if name not in missing}
    assert {name: round(value, 4) for name, value in measures.items()} == expected


@pytest.mark.parametrize(
    ("spoil", "waste"),
    [
        (lambda t: replace(t, edges=tuple(e for e in t.edges if e.dst != "e12")), 0.1333),
        (lambda t: changed(t, "e11", status="error"), 0.4667),
        (lambda t: with_edges(t, Edge("O.open", "e12", "causal")), 0.1333),
        (lambda t: with_edges(t, Edge("C.close", "e12", "return")), 0.1333),
        (lambda t: replace(t, events=t.events[:-1]), 0.1333),
        (lambda t: replace(t, edges=()), 0.9333),
        (lambda t: with_edges(t, Edge("A.close", "e12", "return")), 0.1333),
        (lambda t: with_edges(t, Edge("e11", "e12", "temporal")), 0.1333),
        (lambda t: after_the_stop(replace(t, edges=())), 0.9474),
    ],
    ids=[
        "no cause: the latest aggregate or return",
        "failed aggregate: the latest return that did not fail",
        "that the run began is no answer",
        "a failed cause is no answer",
        "no stop",
        "no edges",
        "of two sound causes the later one",
        "order beside cause",
        "what returns after the stop is no answer",
    ],
)
def test_waste_follows_the_answer(fork3, spoil, waste):
    """The answer is the latest sound cause of the stop, else the latest merge or return."""
    measures, _ = measure(spoil(fork3))
    assert round(measures["waste"], 4) == waste


@pytest.mark.parametrize(
    ("verb", "is_protocol"),
    [
        ("decide", True),
        ("delegate", True),
        ("message", True),
        ("aggregate", True),
        ("begin", False),
        ("spawn", False),
        ("tool_call", False),
        ("tool_result", False),
        ("return", False),
        ("stop", False),
        ("human_intervention", False),
    ],
)
def test_protocol_is_deciding_delegating_telling_and_merging(make_event, verb, is_protocol):
    """What a close or a tool call carries is work."""
    events = (
        make_event("1", 0, verb, "O", tokens=30),
        make_event("2", 1, "return", "O", tokens=90),
    )
    assert measure(Trace("run", "task", events))[0]["protocol_overhead"] == 0.25 * is_protocol


def test_without_an_answer_all_is_waste(make_event, make_edges):
    """A run whose only agent failed wasted every token."""
    events = (
        make_event("O.open", 0, "begin", "O"),
        make_event("A.open", 0, "spawn", "A", parent="O"),
        make_event("A.close", 3, "return", "A", tokens=50, status="error"),
        make_event("stop", 3, "stop", "O", status="error"),
    )
    trace = Trace("run", "task", events, make_edges("O.open A.open A.close stop"))
    assert measure(trace)[0]["waste"] == 1.0


def test_a_run_that_works_by_itself_wastes_nothing(make_event, make_edges):
    """Tokens of the run's own activation stand on its stop, are work, and led to its end."""
    events = (make_event("O.open", 0, "begin", "O"), make_event("stop", 3, "stop", "O", tokens=9))
    measures = rounded(Trace("run", "task", events, make_edges("O.open stop")))
    assert (measures["waste"], measures["protocol_overhead"]) == (0.0, 0.0)


def test_an_empty_trace_has_no_times():
    """Without events nothing is known but that no token was spent."""
    measures, flags = measure(Trace("run", "task", ()))
    assert (measures, flags) == ({"protocol_overhead": 0.0, "waste": 0.0}, frozenset())


def test_foreign_keys_of_any_type_raise_nothing(fork3):
    """Keys that mean something to us may hold anything in documents of others."""
    trace = changed(fork3, "A.open", activation=["A"], parent={"of": "A"}, verb=7)
    trace = changed(trace, "e12", activation=12)
    assert measure(trace)[0]["makespan"] == 9.0


def test_of_what_has_one_id_the_last_counts_wherever_it_stands():
    """An opening told twice, the second time after the closing, is no clock that runs back."""
    events = (
        Event("a.open", 2, "spawn", "lead", {"to": "a"}),
        Event("a.close", 1, "return", "a", {}),
        Event("a.open", 0, "spawn", "lead", {"to": "a"}),
    )
    measures, flags = measure(Trace("run", "task", events, ()))
    assert flags == {"duplicate_ids"}
    assert measures["makespan"] == 2


def test_causes_are_the_same_however_many_events_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of many events are held in tuples, but for events of many causes."""
    dice = random.Random(1)  # noqa: S311 - repeatable dice, no secrets
    events = tuple(Event(f"e{n}", n, "message", "a") for n in range(40))
    pairs = [
        (dice.randrange(effect), effect) for effect in range(1, 40) for _ in range(effect % 13)
    ]
    edges = tuple(Edge(f"e{cause}", f"e{effect}", "causal") for cause, effect in pairs)
    few = graph.read_graph(Trace("run", "task", events, edges))
    monkeypatch.setattr(graph, "_MANY", 0)
    many = graph.read_graph(Trace("run", "task", events, edges))
    assert [list(causes) for causes in many.causes] == few.causes
    assert [type(causes) for causes in many.causes[:13]] == [tuple] * 9 + [list] * 4
    assert many._replace(causes=few.causes) == few
