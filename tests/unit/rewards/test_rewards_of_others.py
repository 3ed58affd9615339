"""Outcome, tools, verdicts and credit in traces of others: their words, ids, names and gaps."""

from __future__ import annotations

from itertools import pairwise

import pytest

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import Facts, score
from orchtrace_otel.rewards.credit import assign, by_unit
from orchtrace_otel.rewards.credit.targets import roles

Row = tuple[object, ...]

DELEGATES = {"decision": "delegate"}


def trace(*rows: Row, chain: str = "", kind: str = "causal", **keys: object) -> Trace:
    """Events as (id, t, type, agent, other keys), and edges along a chain such as "a b c"."""
    edges = tuple(Edge(*pair, kind) for pair in pairwise(chain.split()))
    events = tuple(Event(*row) for row in rows)  # type: ignore[arg-type]  # rows are loose
    return Trace("run", "task", events, edges, **{"rewards": {"team": 1.0}, **keys})  # type: ignore[arg-type]  # as above


def units(found: Trace, unit: str) -> dict[str, float]:
    facts = Facts(found)
    credit = assign(facts)
    assert credit is not None
    division = by_unit(facts, credit, "flow", unit)
    return {**division.targets, "unassigned": division.unassigned}


def test_verbs_of_others_change_neither_what_is_protocol_nor_what_is_a_message():
    """Whatever word they have for it, the type of an event says what it is."""
    rows = (
        ("d", 0, "orchestrator_decision", "O", {"tokens": 10}),
        ("m", 1, "message", "O", {"tokens": 20, "to": "A"}),
        ("c", 2, "tool_call", "A", {"tokens": 40}),
        ("z", 3, "aggregate", "O", {"tokens": 30}),
    )
    verbs = ("route", "send", "call", ["merge"])
    worded = [
        (*row[:4], {**row[4], "verb": verb})  # type: ignore[dict-item]  # keys
        for row, verb in zip(rows, verbs, strict=True)
    ]
    for found in (trace(*rows, chain="d m c z"), trace(*worded, chain="d m c z")):
        scored = score(found)
        assert (scored.metrics or {})["protocol_overhead"] == 0.6
        assert scored.rewards["messages_used"] == 1
        assert units(found, "message") == {"m": 0.125, "unassigned": 0.875}


@pytest.mark.parametrize(
    "gives",
    [
        ("s", 0, "spawn", "O", {"role": "planner", "to": "A", "verb": "create"}),
        ("s", 0, "orchestrator_decision", "O", {"role": "planner", "to": "A", **DELEGATES}),
        ("s", 0, "spawn", "O", {"role": "planner"}),
    ],
    ids=["another verb", "the sheet's delegate", "nobody named"],
)  # fmt: skip
def test_the_role_of_a_spawn_is_that_of_whom_it_reaches(gives):
    """Who spawns, or delegates, is not of the role that it gives away."""
    found = trace(
        gives, ("r", 1, "return", "A", {}), ("z", 2, "aggregate", "O", {"role": "lead"}),
        chain="s r z",
    )  # fmt: skip
    assert roles(Facts(found)) == {"A": "planner", "O": "lead"}
    assert units(found, "role") == {"planner": 0.25, "lead": 0.75, "unassigned": 0}


def test_a_role_that_is_given_to_nobody_who_is_seen_is_nobodys():
    found = trace(("s", 0, "spawn", "O", {"role": "planner"}), ("z", 1, "aggregate", "O", {}))
    assert roles(Facts(found)) == {}
