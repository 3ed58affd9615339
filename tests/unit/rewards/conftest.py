"""The sheet's example run FORK3, as the builder writes it and as others would."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from orchtrace_otel.model import EVENT_TYPES, VERBS, Edge, Event, Trace

if TYPE_CHECKING:
    from collections.abc import Callable


def event(identity: str, t: float, verb: str, activation: str, **keys: Any) -> Event:
    """An event as the builder writes it; its agent is named like its activation."""
    known = {"verb": verb, "activation": activation, "instance": activation, "status": "ok"}
    return Event(identity, t, VERBS[verb][0], activation, known | keys)


def edges(*chains: str) -> tuple[Edge, ...]:
    """Causal edges along chains such as "a b c"."""
    found = []
    for chain in chains:
        names = chain.split()
        found += [Edge(*pair, "causal") for pair in pairwise(names)]
    return tuple(found)


@pytest.fixture
def make_event() -> Callable[..., Event]:
    return event


@pytest.fixture
def make_edges() -> Callable[..., tuple[Edge, ...]]:
    return edges


@pytest.fixture
def fork3() -> Trace:
    """FORK3: O decides, A, B and C work at once, C fails, O merges the other two, and stops."""
    return Trace(
        trace_id="fork3",
        task_id="task",
        events=(
            event("O.open", 0, "begin", "O"),
            event("e1", 0, "decide", "O", duration_s=2, tokens=200),
            event("e2", 2, "spawn", "O", to="A"),
            event("e3", 2, "spawn", "O", to="B"),
            event("e4", 2, "spawn", "O", to="C"),
            event("A.open", 2, "begin", "A", parent="O"),
            event("B.open", 2, "begin", "B", parent="O"),
            event("C.open", 2, "begin", "C", parent="O"),
            event("C.close", 4, "return", "C", tokens=200, status="error"),
            event("A.close", 6, "return", "A", tokens=400),
            event("B.close", 8, "return", "B", tokens=600),
            event("e11", 8, "aggregate", "O", duration_s=1, tokens=100),
            event("e12", 9, "stop", "O", stop_reason="information_complete"),
        ),
        edges=edges(
            "O.open e1 e2 A.open A.close e11 e12",
            "e1 e3 B.open B.close e11",
            "e1 e4 C.open C.close",
        ),
        rewards={"outcome": 1.0},
        costs={"tokens": 1500, "wall_clock_s": 9},
    )


@pytest.fixture
def foreign_fork3() -> Trace:
    """FORK3 with the sheet's own twelve events: no verbs, no activations, work as durations."""
    rows = (
        ("e1", 0, "orchestrator_decision", "O", {"duration_s": 2, "tokens": 200}),
        ("e2", 2, "spawn", "O", {}),
        ("e3", 2, "spawn", "O", {}),
        ("e4", 2, "spawn", "O", {}),
        ("e5", 2, "tool_call", "A", {"duration_s": 4, "tokens": 400}),
        ("e6", 2, "tool_call", "B", {"duration_s": 6, "tokens": 600}),
        ("e7", 2, "tool_call", "C", {"duration_s": 2, "tokens": 200, "status": "error"}),
        ("e10", 4, "return", "C", {"status": "error"}),
        ("e8", 6, "return", "A", {}),
        ("e9", 8, "return", "B", {}),
        ("e11", 8, "aggregate", "O", {"duration_s": 1, "tokens": 100}),
        ("e12", 9, "orchestrator_decision", "O", {"decision": "stop", "stop_reason": "verified"}),
    )
    assert {row[2] for row in rows} <= set(EVENT_TYPES)
    return Trace(
        trace_id="fork3",
        task_id="task",
        events=tuple(Event(*row) for row in rows),
        edges=edges("e1 e2 e5 e8 e11 e12", "e1 e3 e6 e9 e11", "e1 e4 e7 e10"),
        costs={"tokens": 1500, "wall_clock_s": 9},
    )
