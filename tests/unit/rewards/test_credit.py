"""Credit: the sheet's worked numbers, what is conserved, and when there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from orchtrace_otel.model import Edge, Event, Reward, Trace, Turn
from orchtrace_otel.rewards import Facts, find_outcome, score
from orchtrace_otel.rewards.credit import (
    METHODS,
    assign,
    by_unit,
    credit_by_gae,
    credit_to_go,
    gae,
    return_to_go,
    why_absent,
)

WON = {"task": 1.0}

SHEET = {
    "reachability": {"e1": 1, "e2": 1, "e3": 1, "e5": 1, "e6": 1, "e8": 1, "e9": 1, "e11": 1},
    "dominator": {"e1": 1, "e11": 1},
    "flow": {
        "e11": 0.5,
        "e8": 0.125,
        "e9": 0.125,
        "e5": 0.0625,
        "e6": 0.0625,
        "e2": 0.03125,
        "e3": 0.03125,
        "e1": 0.0625,
    },
    "decay": {
        "e11": 0.3556,
        "e8": 0.1778,
        "e9": 0.1778,
        "e5": 0.0889,
        "e6": 0.0889,
        "e2": 0.0444,
        "e3": 0.0444,
        "e1": 0.0222,
    },
    "critical_path": {"e1": 2 / 9, "e6": 6 / 9, "e11": 1 / 9},
    "last_writer": {"e11": 1},
}
"""FORK3 with R = 1; events that are not listed get 0."""


def credit_of(trace: Trace, method: str) -> dict[str, float]:
    credit = assign(Facts(trace))
    assert credit is not None
    return credit.by_id(method)


def division(trace: Trace, method: str, unit: str):
    facts = Facts(trace)
    return by_unit(facts, assign(facts), method, unit)


@pytest.mark.parametrize("method", METHODS)
def test_fork3_has_the_credit_of_the_sheet(foreign_fork3, method):
    """Every worked number holds to its printed digits, in the sheet's own twelve events."""
    found = credit_of(replace(foreign_fork3, rewards=WON), method)
    assert list(found) == [event.id for event in foreign_fork3.events]
    wanted = dict.fromkeys(found, 0) | SHEET[method]
    assert found == pytest.approx(wanted, abs=0.5e-4)


@pytest.mark.parametrize("value", [1.0, 0.0, 0.3, -2.0])
def test_credit_is_in_proportion_to_the_outcome(foreign_fork3, value):
    """A failed task gives none, and a loss is divided as a gain is."""
    won = replace(foreign_fork3, rewards=WON)
    other = replace(foreign_fork3, rewards={"task": value})
    for method in METHODS:
        wanted = {name: share * value for name, share in credit_of(won, method).items()}
        assert credit_of(other, method) == pytest.approx(wanted, rel=1e-15)


def test_units_of_fork3(fork3):
    """Agents and the orchestrator sum up their events; what a unit does not cover is unassigned."""
    won = replace(fork3, rewards=WON)
    agents = {"A": 0.1875, "B": 0.1875, "C": 0.0, "O": 0.625}
    assert division(won, "flow", "agent") == (agents, 0.0)
    assert division(won, "flow", "role") == ({}, 1.0)
    assert division(won, "flow", "orchestrator") == ({"orchestrator": 0.59375}, 0.40625)
    assert division(won, "flow", "team") == ({"team": 1.0}, 0.0)
    assert division(won, "flow", "turn") == ({}, 1.0)
    assert division(won, "flow", "message") == ({}, 1.0)
    assert division(won, "flow", "tool_call") == ({}, 1.0)


def test_a_unit_that_is_none_is_refused(fork3):
    """The message says which there are."""
    with pytest.raises(ValueError, match="unit must be one of token, turn"):
        division(replace(fork3, rewards=WON), "flow", "planet")


@pytest.fixture
def chat(make_event, make_edges) -> Trace:
    """A lead asks a coder, who calls a tool and answers by message; two turns led to the merge."""
    turns = (
        Turn(id="t1", agent="lead", input_tokens=10, output_tokens=20),
        Turn(id="t2", agent="coder", input_tokens=50, output_tokens=10),
        Turn(id="t3", agent="lead"),
    )
    events = (
        Event("r.open", 0, "message", "user", {"verb": "begin", "to": "lead", "role": "boss"}),
        make_event("d", 1, "delegate", "lead", to="coder", turns=["t1"], role="dev"),
        make_event("u.open", 2, "tool_call", "coder", tool="run", turns=["t2"]),
        make_event("u.close", 3, "tool_result", "coder", tool="run"),
        make_event("m", 4, "message", "coder", to="lead", turns=["t2"]),
        make_event("z", 5, "aggregate", "lead", turns=["t1", "t2"]),
        make_event(
            "s",
            6,
            "stop",
            "lead",
            stop_reason="verified",
            turn_records=[turn.to_dict() for turn in turns],
        ),
    )
    chain = make_edges("r.open d u.open u.close m z s")
    return Trace("run", "q", events, chain, rewards=WON, costs={"tokens": 0})


def test_credit_reaches_all_eight_units(chat):
    """Half of what is held stays with each event of the chain; every unit adds up its own."""
    assert credit_of(chat, "flow") == {
        "z": 0.5,
        "m": 0.25,
        "u.close": 0.125,
        "u.open": 0.0625,
        "d": 0.03125,
        "r.open": 0.03125,
        "s": 0.0,
    }
    assert division(chat, "flow", "message") == ({"m": 0.25}, 0.75)
    assert division(chat, "flow", "tool_call") == ({"u.open": 0.1875}, 0.8125)
    assert division(chat, "flow", "agent") == ({"coder": 0.4375, "lead": 0.5625}, 0.0)
    assert division(chat, "flow", "role") == ({"boss": 0.5625, "dev": 0.4375}, 0.0)
    assert division(chat, "flow", "orchestrator") == ({"orchestrator": 0.53125}, 0.46875)
    # The merge is split by the turns' 30 and 60 tokens.
    turns, rest = division(chat, "flow", "turn")
    wanted = {"t1": 0.03125 + 0.5 / 3, "t2": 0.0625 + 0.25 + 1 / 3, "t3": 0.0}
    assert turns == pytest.approx(wanted)
    assert rest == 0.15625
    tokens, rest = division(chat, "flow", "token")
    assert tokens == pytest.approx({"t1": turns["t1"] / 20, "t2": turns["t2"] / 10})
    assert rest == 0.15625


def test_a_turn_without_usage_has_no_tokens_to_credit(chat):
    """An event of turns with unknown tokens is split evenly, and their tokens are unassigned."""
    *before, stop = chat.events
    keys = {**stop.keys, "turn_records": [{"id": "t1"}, {"id": "t2", "output_tokens": 4}]}
    other = replace(chat, events=(*before, replace(stop, keys=keys)))
    turns, _ = division(other, "flow", "turn")
    assert turns == {"t1": 0.28125, "t2": 0.5625}
    assert division(other, "flow", "token") == ({"t2": 0.140625}, 0.15625 + 0.28125)


def test_tools_are_never_agents():
    """The published example names a tool as the agent of its result: its caller is credited."""
    events = (
        Event("1", 0, "orchestrator_decision", "lead", {"role": "boss"}),
        Event("2", 1, "tool_call", "worker", {"tool": "search", "role": "dev"}),
        Event("3", 2, "tool_result", "search", {"tool": "search"}),
        Event("4", 3, "tool_result", "nobody's", {"tool": "orphan"}),
        Event("5", 4, "aggregate", "lead"),
    )
    edges = tuple(Edge(a, b, "causal") for a, b in (("1", "2"), ("2", "3"), ("3", "5"), ("4", "5")))
    trace = Trace("run", "q", events, edges, rewards=WON)
    assert division(trace, "flow", "agent") == ({"lead": 0.53125 + 0.03125, "worker": 0.1875}, 0.25)
    assert division(trace, "flow", "tool_call") == ({"2": 0.1875}, 0.8125)


def test_a_verb_that_is_no_text_costs_no_credit():
    """Others may write what they like where we have verbs, and what they like has no hash."""
    events = (
        Event("1", 0, "message", "lead", {"role": "boss", "verb": ["say", "it"]}),
        Event("2", 1, "aggregate", "lead"),
    )
    trace = Trace("run", "q", events, (Edge("1", "2", "causal"),), rewards=WON)
    assert division(trace, "flow", "role") == ({"boss": 1.0}, 0.0)


def test_relabelling_agents_permutes_their_credit(fork3):
    """Names carry nothing: another name for an agent is another name for its credit."""
    new = {"A": "zoe", "B": "ann", "C": "kim", "O": "max"}
    renamed = replace(
        fork3, events=tuple(replace(one, agent=new[one.agent]) for one in fork3.events), rewards=WON
    )
    for method in METHODS:
        before, rest = division(replace(fork3, rewards=WON), method, "agent")
        after, rest_after = division(renamed, method, "agent")
        assert after == {new[name]: number for name, number in before.items()}
        assert rest == rest_after


def test_two_edges_between_two_events_are_one_cause(fork3):
    """A cause that is told twice gets no more than one that is told once."""
    twice = replace(fork3, rewards=WON, edges=(*fork3.edges, Edge("A.close", "e11", "aggregate")))
    for method in METHODS:
        assert credit_of(twice, method) == credit_of(replace(fork3, rewards=WON), method)


def test_order_in_time_is_no_cause(fork3):
    """A `temporal` edge gives no credit to what merely came before."""
    edges = (*fork3.edges, Edge("C.close", "e11", "temporal"))
    assert credit_of(replace(fork3, rewards=WON, edges=edges), "flow")["C.close"] == 0.0


def test_two_critical_paths_count_both(fork3, make_event):
    """Where A works as long as B, neither has slack, and each counts in full."""
    later = [
        make_event("A.close", 8, "return", "A", tokens=400) if one.id == "A.close" else one
        for one in fork3.events
    ]
    found = credit_of(replace(fork3, rewards=WON, events=tuple(later)), "critical_path")
    assert (found["A.close"], found["B.close"]) == (6 / 9, 6 / 9)


def test_work_that_no_answer_needed_gets_no_critical_credit(fork3, make_event):
    """C works longest, in vain: it is on the longest path, and led to nothing."""
    slow = [
        make_event("C.close", 11, "return", "C", tokens=200, status="error")
        if one.id == "C.close"
        else one
        for one in fork3.events
    ]
    found = credit_of(replace(fork3, rewards=WON, events=tuple(slow)), "critical_path")
    assert found == dict.fromkeys(found, 0.0) | {"e1": 2 / 11}


def test_a_chain_deeper_than_what_can_be_split_keeps_all(make_event):
    """Flow and decay conserve the reward over ten thousand steps, and stay finite."""
    events = [make_event(f"{n:05}", n, "message", "a") for n in range(10_000)]
    edges = [Edge(f"{n:05}", f"{n + 1:05}", "causal") for n in range(9_999)]
    stop = make_event("stop", 10_000, "stop", "a")
    trace = Trace("r", "q", (*events, stop), (*edges, Edge("09999", "stop", "causal")), WON)
    facts = Facts(trace)
    credit = assign(facts)
    for method in ("flow", "decay"):
        parts, whole = credit.shares[method]
        assert sum(parts) == whole
        assert math.fsum(credit.numbers(method)) == 1.0


def test_a_begin_that_names_nobody_is_the_users():
    """What is no name is no agent, and costs nobody else their credit."""
    begin = Event("r.open", 0, "message", "user", {"verb": "begin", "to": 5, "activation": "r"})
    keys = {"verb": "stop", "activation": "r", "tokens": 1}
    stop = Event("stop", 1, "orchestrator_decision", "lead", keys)
    edges = (Edge("r.open", "stop", "causal"),)
    facts = Facts(Trace("r", "q", (begin, stop), edges, WON))
    assert dict(by_unit(facts, assign(facts), "reachability", "agent").targets) == {
        "lead": 1.0,
        "user": 1.0,
    }


def looped(trace):
    return replace(trace, edges=(*trace.edges, Edge("e11", "e11", "causal")))


def skewed(trace):
    events = [replace(one, t=5) if one.id == "e1" else one for one in trace.events]
    return replace(trace, events=tuple(events))


def repeated(trace):
    return replace(trace, events=(trace.events[0], *trace.events))


def unanswered(trace):
    return replace(trace, events=(trace.events[0], trace.events[-1]), edges=())


def unrewarded(trace):
    return replace(trace, rewards={})


def ambiguous(trace):
    return replace(trace, rewards={"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (looped, "cyclic"),
        (skewed, "skewed"),
        (repeated, "duplicate_ids"),
        (unanswered, "no_answer"),
        (unrewarded, "no_outcome"),
        (ambiguous, "no_outcome"),
    ],
)
def test_credit_that_cannot_be_told_is_absent(fork3, spoil, why):
    """Never 0 instead: no event has any, no record says any, and the reason can be asked."""
    trace = spoil(replace(fork3, rewards=WON))
    facts = Facts(trace)
    assert (assign(facts), why_absent(facts)) == (None, why)
    scored = score(trace)
    assert [event for event in scored.events if "credit" in event.keys] == []
    assert [one for one in scored.reward_records if one.component.startswith("credit_")] == []
    assert why in {*scored.flags, "no_answer", "no_outcome"}


@pytest.mark.parametrize("t", [math.nan, math.inf])
def test_a_time_that_is_none_leaves_no_credit(fork3, t):
    """A garbled time is skew."""
    events = (replace(fork3.events[0], t=t), *fork3.events[1:])
    assert why_absent(Facts(replace(fork3, events=events, rewards=WON))) == "skewed"


def test_a_stop_with_its_own_work_is_credited_where_nothing_else_answered(make_event):
    """A single agent that answers by itself: the stop carries what it did."""
    events = (
        make_event("O.open", 0, "begin", "O"),
        make_event("stop", 4, "stop", "O", tokens=10),
    )
    trace = Trace("r", "q", events, (Edge("O.open", "stop", "causal"),), WON)
    assert credit_of(trace, "flow") == {"O.open": 0.5, "stop": 0.5}
    assert credit_of(trace, "critical_path") == {"O.open": 0.0, "stop": 1.0}


def with_records(trace: Trace, *rewards: Reward) -> Trace:
    *before, stop = trace.events
    keys = {**stop.keys, "reward_records": [one.to_dict() for one in rewards]}
    return replace(trace, events=(*before, replace(stop, keys=keys)))


def test_the_outcome_is_task_or_the_only_one(fork3):
    """`task` wins; else the only outcome of the team; other families and units are none."""
    bare = replace(fork3, rewards={})
    shaped = Reward(id="1", component="shaped", value=9.0, family="R4", unit="turn", target="x")
    judged = Reward(id="2", component="judged", value=8.0, estimator="judge")
    tests = Reward(id="3", component="tests", value=0.25, provisional=True)
    style = Reward(id="4", component="style", value=0.75)
    task = Reward(id="5", component="task", value=0.5)
    assert find_outcome(bare) is None
    assert find_outcome(with_records(bare, shaped, judged)) is None
    assert find_outcome(with_records(bare, shaped, judged, tests)) == ("tests", 0.25, True)
    assert find_outcome(with_records(bare, tests, style)) is None
    assert find_outcome(with_records(bare, tests, style, task)) == ("task", 0.5, False)
    assert find_outcome(replace(bare, rewards={"team": 1, "tool": 0.5})) == ("team", 1, False)


def test_credit_lands_on_every_event_and_in_records(fork3):
    """Each event has what each method gives it; agents and the orchestrator have their sums."""
    scored = score(fork3)
    assert [set(event["credit"]) for event in scored.events] == [set(METHODS)] * 13
    flow = {event.id: event["credit"]["flow"] for event in scored.events}
    assert flow == credit_of(fork3, "flow")
    found = {
        (one.unit, one.target): (one.value, one.family, one.estimator)
        for one in scored.reward_records
        if one.component == "credit_flow"
    }
    assert found == {
        ("agent", "A"): (0.1875, "R2", "structural"),
        ("agent", "B"): (0.1875, "R2", "structural"),
        ("agent", "C"): (0.0, "R2", "structural"),
        ("agent", "O"): (0.625, "R2", "structural"),
        ("orchestrator", None): (0.59375, "R7", "structural"),
        ("orchestrator", "unassigned"): (0.40625, "R7", "structural"),
    }
    assert score(scored) == scored
    assert Trace.from_json(scored.to_json()) == scored


def test_credit_is_of_the_outcome_that_a_function_gives(fork3):
    """The outcome may come from a user's reward; where that is provisional its credit is."""
    bare = replace(fork3, rewards={})
    task = Reward(id="t", component="task", value=0.5, provisional=True)
    scored = score(bare, [("given", lambda trace: task), ("style", lambda trace: 0.25)])
    assert scored.events[-2]["credit"]["last_writer"] == 0.5
    told = [one for one in scored.reward_records if one.component.startswith("credit_")]
    assert len(told) > len(METHODS) * 5
    assert all(one.provisional for one in told)


def test_a_later_outcome_replaces_the_credit(fork3):
    """Scored again with another outcome, nothing of the first one is left."""
    again = score(replace(score(fork3), rewards={"task": 0.0}))
    assert again == score(replace(fork3, rewards={"task": 0.0}))
    assert [event["credit"] for event in again.events] == [dict.fromkeys(METHODS, 0.0)] * 13


def test_return_to_go_discounts_what_is_later():
    """Each step has the rewards from it on, and nothing of those before."""
    assert return_to_go([1.0, 0.0, 4.0], gamma=0.5) == [2.0, 2.0, 4.0]
    assert return_to_go([]) == []


def test_gae_spans_from_one_step_errors_to_returns():
    """With lambda 0 it is the error of each value, with 1 the return minus the value."""
    rewards, values = [0.0, 0.0, 1.0], [0.25, 0.5, 0.75]
    assert gae(rewards, values, gamma=1.0, decay=0.0) == [0.25, 0.25, 0.25]
    assert gae(rewards, values, gamma=1.0, decay=1.0) == [0.75, 0.5, 0.25]
    assert gae(rewards, values, gamma=0.5, decay=0.5) == [-0.015625, -0.0625, 0.25]
    with pytest.raises(ValueError, match="one value for each reward, got 1 for 2"):
        gae([0.0, 1.0], [0.5])


def test_a_run_has_its_steps_where_turns_led_to_events(chat):
    """The outcome comes with the last of them; values are given by event."""
    facts = Facts(chat)
    assert credit_to_go(facts, gamma=0.5) == {"d": 0.125, "u.open": 0.25, "m": 0.5, "z": 1.0}
    values = {"d": 0.5, "u.open": 0.5, "m": 0.5, "z": 0.75}
    assert credit_by_gae(facts, values, decay=0.0) == {
        "d": 0.0,
        "u.open": 0.0,
        "m": 0.25,
        "z": 0.25,
    }
    with pytest.raises(KeyError):
        credit_by_gae(facts, {"d": 0.5})
    unknown = Facts(replace(chat, rewards={}))
    assert (credit_to_go(unknown), credit_by_gae(unknown, values)) == (None, None)


def test_a_role_that_is_called_unassigned_is_none():
    """Each record has an id of its own, and all of them hold the outcome."""
    events = (
        Event("a.open", 0, "spawn", "lead", {"to": "a", "role": "unassigned", "verb": "spawn"}),
        Event("b.open", 0, "spawn", "lead", {"to": "b", "role": "writer", "verb": "spawn"}),
        Event("a.close", 1, "return", "a"),
        Event("b.close", 1, "return", "b"),
        Event("stop", 2, "orchestrator_decision", "lead", {"verb": "stop", "decision": "O5"}),
    )
    edges = (
        Edge("a.open", "a.close", "causal"),
        Edge("b.open", "b.close", "causal"),
        Edge("a.close", "b.close", "causal"),
        Edge("b.close", "stop", "return"),
    )
    records = score(Trace("run", "task", events, edges, WON)).reward_records
    assert len({one.id for one in records}) == len(records)
    roles = {
        one.target: one.value
        for one in records
        if one.component == "credit_flow" and one.unit == "role"
    }
    assert roles.keys() == {"unassigned", "writer"}
    assert sum(roles.values()) == 1.0
