"""A trace becomes an outline: what happened inside what, and what led to it."""

from __future__ import annotations

from typing import Any

from orchtrace_otel.cli._outline import Item, outline, rows
from orchtrace_otel.model import Edge, Event, Trace


def trace_of(events: list[tuple[str, float, str, str, dict[str, Any]]], *edges: str) -> Trace:
    """Return a trace; an edge is written `cause type effect`."""
    made = [edge.split() for edge in edges]
    return Trace(
        trace_id="r",
        task_id="q",
        events=tuple(Event(*event) for event in events),
        edges=tuple(Edge(src, dst, kind) for src, kind, dst in made),
        costs={"tokens": 0, "wall_clock_s": 1},
    )


def drawn(items: list[Item]) -> list[str]:
    """Write an outline as indented lines."""
    return [
        "  " * (len(row.follows) - 1)
        + " ".join(
            filter(None, [row.item.name, row.item.says, *(f"<{c}" for c in row.item.causes)])
        )
        for row in rows(items)
    ]


def agent(name: str, start: float, end: float, parent: str | None = None, n: int = 1) -> list[Any]:
    """Return the opening and the closing of an activation `<name><n>`."""
    span = f"{name}{n}"
    keys = {"activation": span, "instance": f"{name}#{n}", "status": "ok"}
    opened = {**keys, "verb": "spawn", "to": name, "parent": parent}
    return [
        (f"{span}.open", start, "spawn", "boss", opened),
        (f"{span}.close", end, "return", name, {**keys, "verb": "return", "tokens": 7}),
    ]


ROOT: dict[str, Any] = {"activation": "boss1", "instance": "boss#1", "status": "ok"}
BEGIN = ("boss1.open", 0, "message", "user", {**ROOT, "verb": "begin", "to": "boss"})
STOP = (
    "stop",
    9,
    "orchestrator_decision",
    "boss",
    {**ROOT, "verb": "stop", "stop_reason": "quality_met", "stop_detail": "fine"},
)


def point(identity: str, t: float, verb: str, kind: str = "message", **keys: Any) -> Any:
    """Return a point in time of the orchestrator."""
    return (identity, t, kind, "boss", {**ROOT, "verb": verb, **keys})


def test_what_happens_inside_an_agent_is_nested_in_it() -> None:
    """Activations and tools nest by what the events say, and causes beside are named."""
    tool = {"activation": "scout1", "instance": "scout#1", "tool": "map", "status": "ok"}
    trace = trace_of(
        [
            BEGIN,
            point("d", 1, "decide", "orchestrator_decision", name="route", chosen=["scout"] * 2),
            *agent("scout", 2, 5, "boss1", 1),
            ("t.open", 3, "tool_call", "scout", {**tool, "verb": "tool_call"}),
            ("t.close", 4, "tool_result", "scout", {**tool, "verb": "tool_result"}),
            *agent("scout", 2, 6, "boss1", 2),
            point("m", 6, "message", to="critic"),
            point("a", 6, "aggregate", "aggregate"),
            *agent("critic", 7, 8, "boss1"),
            STOP,
        ],
        "boss1.open causal d",
        "d spawn scout1.open",
        "d spawn scout2.open",
        "scout1.close aggregate a",
        "scout2.close aggregate a",
        "scout2.close temporal critic1.open",
        "m message critic1.open",
        "a spawn critic1.open",
        "critic1.close return stop",
    )

    assert drawn(outline(trace)) == [
        "boss begun by user",
        "  decide route -> scout x2",
        "  scout#1 spawned",
        "    map",
        "  scout#2 spawned",
        "  message -> critic",
        "  aggregate <scout#1 #2",
        "  critic spawned <message of boss",
        "  stop quality_met (fine) <critic",
    ]


def test_times_tokens_and_turns_are_those_of_the_stretch() -> None:
    """A stretch lasts from its opening to its close; the stop closes the run's own."""
    turns = [{"id": "c1", "activation": "scout1"}, {"id": "c2", "activation": "scout1"}]
    stop = (*STOP[:4], {**STOP[4], "turn_records": turns})
    [root] = outline(trace_of([BEGIN, *agent("scout", 2, 5, "boss1"), stop]))

    assert (root.start, root.end, root.turns) == (0, 9, 0)
    scout = root.inside[0]
    assert (scout.start, scout.end, scout.tokens, scout.turns) == (2, 5, 7, 2)


def test_an_event_of_an_unknown_stretch_stands_by_itself() -> None:
    """Cut traces are drawn with what there is."""
    lost = ("x", 1, "message", "scout", {"verb": "message", "activation": "gone", "to": "boss"})
    closed = agent("ghost", 1, 2)[1]
    assert drawn(outline(trace_of([lost, closed]))) == ["message -> boss", "return"]


def test_a_trace_of_others_is_a_chain_with_branches() -> None:
    """Single effects stay on one level, several are nested, further causes are named."""
    names = ("a", "b", "c", "d", "e", "f")
    trace = trace_of(
        [(name, t, "message", f"agent {name}", {}) for t, name in enumerate(names)],
        "a causal b",
        "b causal c",
        "b causal d",
        "d causal e",
        "c causal e",
        "e causal f",
    )
    assert drawn(outline(trace)) == [
        "a sends to",
        "b sends to",
        "  c sends to",
        "  d sends to",
        "    e sends to <c",
        "    f sends to",
    ]


def test_a_trace_that_makes_no_sense_is_drawn_all_the_same() -> None:
    """Cycles, edges to nowhere, twice the same id, and keys of any type raise nothing."""
    keys: dict[str, Any] = {"activation": "z", "parent": "z", "instance": 3, "chosen": [1, None]}
    turns = [{"id": 1, "activation": 2}]
    events = [
        ("z.open", 0, "spawn", "a", {**keys, "verb": 7, "to": ["x"], "tokens": "many"}),
        ("z.open", 0, "spawn", "a", {**keys, "verb": "decide", "duration_s": -1}),
        ("z.close", 10**400, "return", "a", {**keys, "status": 5}),
        (
            "s",
            1,
            "message",
            "a",
            {**keys, "verb": "stop", "turn_records": turns},
        ),
    ]
    edges = "z.open causal z.close", "z.close causal z.open", "nowhere causal z.open"
    assert len(list(rows(outline(trace_of(events, *edges))))) >= 3
