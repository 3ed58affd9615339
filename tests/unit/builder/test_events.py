"""What each span becomes in a trace: its events, its keys and its edges."""

from __future__ import annotations

import pytest

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import build
from orchtrace_otel.model import Edge
from tests.unit.builder.small_runs import (
    RUN,
    SECOND,
    activation,
    keys,
    point,
    root,
    sound,
    span,
    span_id,
    stop,
)


def test_a_root_begins_from_the_user_and_ends_with_the_stop() -> None:
    """A root is one opening; its end is the stop, the last event, and no closing."""
    records = (root(**{a.SYSTEM: "python", a.TASK_ID: "q"}), stop())
    assert sound(*records).flags == ()
    one = build(RUN, records)
    assert one.to_dict() == {
        "trace_id": RUN,
        "task_id": "q",
        "system": "python",
        "events": [
            {
                "id": span_id(1) + ".open",
                "t": 0.0,
                "type": "message",
                "agent": "user",
                "verb": "begin",
                "start_unix_nano": 10 * SECOND,
                "from": "user",
                "to": "lead",
                "activation": span_id(1),
                "instance": "lead#1",
                "status": "ok",
            },
            {
                "id": span_id(99),
                "t": 10.0,
                "type": "orchestrator_decision",
                "agent": "lead",
                "verb": "stop",
                "activation": span_id(1),
                "instance": "lead#1",
                "status": "ok",
                "stop_reason": "information_complete",
                "decision": "O5",
                "revision": 0,
                "flags": list(one.flags),
            },
        ],
        "edges": [],
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 10.0, "tool_calls": 0, "messages": 0},
        "metrics": dict(one.metrics or {}),
    }
    assert one.flags == ()


@pytest.mark.parametrize(
    ("opens", "type_", "decision"),
    [
        ("spawn", "spawn", "O1"),
        ("delegate", "orchestrator_decision", "O2"),
        ("begin", "message", None),
    ],
)
def test_an_activation_is_an_opening_by_who_caused_it_and_a_return(
    opens: str, type_: str, decision: str | None
) -> None:
    """The opening is the caller's, to the agent; the closing is the agent's return."""
    one = sound(root(), activation(2, opens=opens, **{a.ROLE: "judge"}), stop())
    opening, closing = keys(one, span_id(2) + ".open"), keys(one, span_id(2) + ".close")
    assert opening == {
        "id": span_id(2) + ".open",
        "t": 1.0,
        "type": type_,
        "agent": "lead",
        "verb": opens,
        "parent": span_id(1),
        **({"from": "lead"} if opens == "begin" else {}),
        "to": "critic",
        "role": "judge",
        "activation": span_id(2),
        "instance": "critic#1",
        "status": "ok",
        **({} if decision is None else {"decision": decision}),
    }
    assert closing == {
        "id": span_id(2) + ".close",
        "t": 5.0,
        "type": "return",
        "agent": "critic",
        "verb": "return",
        "from": "critic",
        "to": "lead",
        "role": "judge",
        "activation": span_id(2),
        "instance": "critic#1",
        "status": "ok",
    }
    assert one.edges == (Edge(span_id(2) + ".open", span_id(2) + ".close", "causal"),)


def test_who_caused_an_opening_is_said_by_the_span_where_it_was_not_the_parent() -> None:
    """A hand-off is the doing of the agent that handed over."""
    one = sound(root(), activation(2, **{a.BY: "planner"}), stop())
    assert keys(one, span_id(2) + ".open")["agent"] == "planner"
    assert keys(one, span_id(2) + ".close")["to"] == "planner"


def test_a_tool_is_a_call_and_a_result() -> None:
    """Both name the tool, the activation and the instance; the result has how it went."""
    found = {
        a.VERB: a.TOOL_CALL,
        a.OPERATION: a.EXECUTE_TOOL,
        a.TOOL_NAME: "search",
        a.AGENT_NAME: "critic",
        a.TOOL_CALL_ID: "c1",
        a.ERROR_TYPE: "ValueError",
        a.TRUSTED: False,
    }
    one = sound(root(), activation(2), span(3, 2, 12, 14, found, is_error=True), stop())
    shared = {
        "agent": "critic",
        "tool": "search",
        "activation": span_id(2),
        "instance": "critic#1",
        "tool_call_id": "c1",
    }
    assert keys(one, span_id(3) + ".open") == {
        "id": span_id(3) + ".open",
        "t": 2.0,
        "type": "tool_call",
        "verb": "tool_call",
        "status": "ok",
        **shared,
    }
    assert keys(one, span_id(3) + ".close") == {
        "id": span_id(3) + ".close",
        "t": 4.0,
        "type": "tool_result",
        "verb": "tool_result",
        "status": "error",
        "error_type": "ValueError",
        "trusted": False,
        **shared,
    }
    assert one.costs["tool_calls"] == 1


@pytest.mark.parametrize(
    ("verb", "type_", "decision"),
    [
        ("decide", "orchestrator_decision", None),
        ("spawn", "spawn", "O1"),
        ("delegate", "orchestrator_decision", "O2"),
        ("message", "message", "O3"),
        ("aggregate", "aggregate", "O4"),
        ("despawn", "despawn", "O1"),
        ("human_intervention", "human_intervention", None),
        ("safety_event", "safety_event", None),
    ],
)
def test_an_instant_is_one_event(verb: str, type_: str, decision: str | None) -> None:
    """Its keys are what the span says; a message says who it is from."""
    one = sound(root(), point(2, verb, **{a.TO: "critic", a.CAUSALITY: "inferred"}), stop())
    assert keys(one, span_id(2)) == {
        "id": span_id(2),
        "t": 2.0,
        "type": type_,
        "agent": "lead",
        "verb": verb,
        **({"from": "lead"} if verb == "message" else {}),
        "activation": span_id(1),
        "instance": "lead#1",
        "status": "ok",
        "causality": "inferred",
        "to": "critic",
        **({} if decision is None else {"decision": decision}),
    }


def test_an_event_that_takes_time_says_how_long() -> None:
    """An interval that is one event has its duration, exact to the nanosecond."""
    lasting = span(2, 1, 12, 12, {a.VERB: "aggregate", a.AGENT_NAME: "lead"})
    lasting.end += 1
    assert keys(sound(root(), lasting, stop()), span_id(2))["duration_s"] == 1e-9


def test_a_decision_keeps_what_was_chosen_and_among_what() -> None:
    """Name, choice and candidates come as the span has them."""
    facts = {a.DECISION_NAME: "route", a.CHOSEN: ("a",), a.CANDIDATES: ("a", "b")}
    event = keys(sound(root(), point(2, "decide", **facts), stop()), span_id(2))
    assert (event["name"], event["chosen"], event["candidates"]) == ("route", ["a"], ["a", "b"])


def test_no_sender_decides_the_order_of_keys() -> None:
    """Attributes in another order, as a collector may send them, give the same text."""
    facts = {a.TO: "x", a.CHANNEL: "c", a.ATTEMPT: 2, a.CAUSALITY: "exact", a.ROLE: "r"}
    backwards = dict(reversed(facts.items()))
    one = sound(root(), point(2, "message", **facts), stop())
    other = sound(root(), point(2, "message", **backwards), stop())
    assert one.to_json() == other.to_json()


def test_causes_in_other_runs_are_links_and_no_edges() -> None:
    """A resumed run says of which run and event it is the continuation."""
    resumed = root(**{a.RUN_LINKS: ("ab-cd:ef.close",)})
    one = sound(resumed, stop())
    assert one.events[0]["links"] == [{"run": "ab-cd", "event": "ef.close"}]
    assert one.edges == ()


def test_edges_enter_openings_instants_and_closings() -> None:
    """Both arrays become edges of the type they name, each once."""
    edges = {a.EDGES: (f"spawn:{span_id(1)}.open",) * 2, a.EDGES_CLOSE: (f"causal:{span_id(3)}",)}
    one = sound(root(), activation(2, **edges), point(3, "message", 2, 13), stop())
    assert set(one.edges) == {
        Edge(span_id(2) + ".open", span_id(2) + ".close", "causal"),
        Edge(span_id(1) + ".open", span_id(2) + ".open", "spawn"),
        Edge(span_id(3), span_id(2) + ".close", "causal"),
    }
    assert len(one.edges) == 3
    assert one.flags == ()


def test_a_cause_that_is_a_span_of_a_caller_means_the_work_it_is_part_of() -> None:
    """Another process knows the calling span only; the edge starts at the activation's opening."""
    client = span(3, 2, 12, 14, {})
    remote = activation(4, 3, 12, 13, **{a.EDGES: (f"spawn:{span_id(3)}",)})
    one = sound(root(), activation(2), client, remote, stop())
    assert Edge(span_id(2) + ".open", span_id(4) + ".open", "spawn") in one.edges
    assert one.flags == ()
