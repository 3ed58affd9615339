"""Outcome, tools, verdicts and credit in traces of others: their words, ids, names and gaps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import Facts, find_outcome, score
from orchtrace_otel.rewards.credit import assign, by_unit, credit_to_go
from orchtrace_otel.rewards.credit.targets import roles
from orchtrace_otel.rewards.families.outcome import Price, net_outcome
from orchtrace_otel.rewards.families.process import progress_rewards
from orchtrace_otel.rewards.families.tools import ToolWeights, tool_rewards
from orchtrace_otel.rewards.families.verifier import verdict_rewards

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


def picked(found: Trace, *names: str) -> list[float | None]:
    scored = score(found)
    return [scored.rewards.get(name) for name in names]


def call(name: str, t: float, agent: str, tool: str, **keys: object) -> Row:
    return name, t, "tool_call", agent, {"tool": tool, **keys}


def result(name: str, t: float, agent: str, tool: str | None = None, **keys: object) -> Row:
    return name, t, "tool_result", agent, {**({} if tool is None else {"tool": tool}), **keys}


LOGS = {
    "by tool": (result("s1", 2, "A", "find"), result("r1", 3, "A", "read")),
    "the tool is the agent": (result("s1", 2, "find"), result("r1", 3, "read")),
    "and named": (result("s1", 2, "find", "find"), result("r1", 3, "read", "read")),
    "the other one first": (result("r1", 2, "A", "read"), result("s1", 3, "A", "find")),
    "by id": (result("r1", 2, "A", tool_call_id="2"), result("s1", 3, "A", tool_call_id="1")),
}


@pytest.mark.parametrize("kind", ["temporal", "causal", ""])
@pytest.mark.parametrize("results", LOGS.values(), ids=LOGS.keys())
def test_results_are_those_of_the_calls_that_waited_for_them(results, kind):
    """A log puts one event after another, or has no edges; neither says which result is whose."""
    done = [
        (*row[:4], {**row[4], "status": "ok" if row[0] == "s1" else "error"})  # type: ignore[dict-item]  # keys
        for row in results
    ]
    rows = (
        call("s", 0, "A", "find", tool_call_id="1"),
        call("r", 1, "A", "read", tool_call_id="2"),
        *done,
        ("z", 4, "return", "A", {}),
    )
    names = " ".join(str(row[0]) for row in rows)
    found = trace(*rows, chain=names if kind else "", kind=kind)
    rewards = [event.get("rewards", {}) for event in score(found).events]
    assert [one.get("tool_succeeded") for one in rewards[:2]] == [1, 0]
    assert picked(found, "tools_succeeded") == [0.5]
    assert sum(units(found, "agent").values()) == 1
    assert units(found, "agent")["A"] == 1, "a tool is no agent, and its result is its caller's"
    assert sum(units(found, "tool_call").values()) == 1


@pytest.mark.parametrize("agent", ["A", "environment"])
def test_results_without_a_name_come_in_the_order_of_the_calls(agent):
    rows = (
        call("s", 0, "A", "find"),
        call("r", 1, "A", "read"),
        result("s1", 2, agent, status="error"),
    )
    found = trace(*rows, ("z", 4, "return", "A", {}))
    assert picked(found, "tools_succeeded") == [0]
    found = trace(*rows, result("r1", 3, agent))
    assert picked(found, "tools_succeeded") == [0.5]


def test_a_result_is_its_own_agents_and_comes_after_its_call():
    """Two agents use one tool; a result of another, or from before the call, is none."""
    rows = (call("a", 0, "A", "find"), call("b", 0, "B", "find"), result("b1", 1, "B", "find"))
    assert picked(trace(*rows), "tools_succeeded") == [0.5]
    early = trace(result("r", 0, "A", "find"), call("a", 1, "A", "find"))
    assert picked(early, "tools_succeeded") == [0]


def test_an_edge_says_whose_a_result_is_whatever_its_tool_is_called():
    rows = (call("a", 0, "A", "find"), result("r", 1, "find/v2", "find/v2"))
    assert picked(trace(*rows, chain="a r"), "tools_succeeded") == [1]
    assert picked(trace(*rows), "tools_succeeded") == [0]


def test_a_call_is_valid_or_not_as_its_trace_says():
    """It went through all the same, as where a tool takes what it was not asked for."""
    weights = ToolWeights(used=0, repeated=0)
    for said, value in ((False, 0.2), (True, 0.4)):
        found = trace(call("a", 0, "A", "find", valid=said, status="ok"))
        assert [one.value for one in tool_rewards(weights)(found)] == [value]


@pytest.mark.parametrize(
    ("rewards", "outcome"),
    [
        ({"team": 1.0, "orchestration": 0.3}, ("team", 1)),
        ({"correctness": 0.5, "tool": 0.1, "R5": 0.2}, ("correctness", 0.5)),
        ({"tool": 0.1}, ("task_success", 0)),
        ({"orchestration": 0.3, "process": 0.2}, ("task_success", 0)),
        ({}, ("task_success", 0)),
        ({"first": 1, "second": 0}, None),
    ],
)
def test_the_outcome_is_no_reward_of_another_layer_and_else_the_success(rewards, outcome):
    """The schema keys rewards by layer or family; one for tools is not what a run was worth."""
    found = find_outcome(trace(result("r", 0, "A"), rewards=rewards, metrics={"task_success": 0}))
    assert (found and found[:2]) == outcome


def test_the_cost_of_a_run_is_what_the_run_says_where_its_events_do_not():
    """The published example has 12,000 tokens, and none on an event."""
    net = net_outcome({"tokens": Price(0.5, 24_000)})
    rows = (("z", 0, "aggregate", "O", {}),)
    said = trace(*rows, costs={"tokens": 12_000, "wall_clock_s": 9})
    assert net(said) == {"outcome_net": 0.75, "cost_tokens": -0.25}
    some = replace(said, metrics={"turns_without_usage": 1})
    assert net(some) == {"outcome_net": None, "cost_tokens": None}


def test_what_is_no_number_is_no_verdict():
    """Others keep other things under `rewards` of an event; the verdicts beside them count."""
    odd = (["verdict"], "verdict", {"verdict": "good"}, {"verdict": None}, 3)
    rows = [
        ("a", 0, "message", "A", {"rewards": {"verdict": 0.25}}),
        *[(f"odd{at}", 1, "message", "A", {"rewards": one}) for at, one in enumerate(odd)],
        ("b", 2, "return", "A", {"rewards": {"verdict": 0.75}}),
        ("c", 3, "orchestrator_decision", "A", {"rewards": {"verdict": 0.5}}),
    ]
    changes = verdict_rewards()(trace(*rows))
    assert [(one.target, one.unit, one.value) for one in changes] == [
        ("b", "turn", 0.5),
        ("c", "turn", -0.25),
    ]


def test_steps_are_all_events_where_no_event_names_the_turns_that_led_to_it():
    """A count of turns is no list of them."""
    found = trace(("a", 0, "message", "A", {"turns": 2}), ("z", 1, "return", "A", {}))
    assert credit_to_go(Facts(found), gamma=0.5) == {"a": 0.5, "z": 1}


def test_of_one_moment_causes_come_first_whatever_their_ids():
    """Clocks of others may tick once a second: e9 led to e10."""
    rows = [
        ("e8", 3, "message", "A", {"rewards": {"verdict": 0.25}, "turns": ["t1"]}),
        ("e9", 3, "message", "A", {"rewards": {"verdict": 0.5}, "turns": ["t2"]}),
        ("e10", 3, "message", "A", {"rewards": {"verdict": 0.125}, "turns": ["t3"]}),
        ("z", 4, "return", "A", {}),
    ]
    found = trace(*rows, chain="e8 e9 e10 z")
    changes = {one.target: one.value for one in verdict_rewards()(found)}
    assert changes == {"e9": 0.25, "e10": -0.375}
    assert credit_to_go(Facts(found), gamma=0.5) == {"e8": 0.25, "e9": 0.5, "e10": 1}
    held = {"e8": {"a"}, "e9": {"a", "b"}, "e10": {"b"}}
    made = progress_rewards(lambda _: held, lambda _: {"a", "b"})(found)
    assert [(one.target, one.value) for one in made] == [("e8", 0.5), ("e9", 0.5), ("e10", -0.5)]


def test_of_one_moment_the_call_that_led_to_another_is_not_the_repeated_one():
    calls = [call(name, 0, "A", "find", content_ref="q", status="ok") for name in ("e9", "e10")]
    scored = score(trace(*calls, chain="e9 e10"))
    assert [event["rewards"]["tool_repeated"] for event in scored.events] == [0, -1]
