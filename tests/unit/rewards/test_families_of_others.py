"""R7 in traces of others, which have types, names and times, and neither verbs nor activations."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.families.orchestration.communication import message_delays
from orchtrace_otel.rewards.topology import explain_topology

Row = tuple[object, ...]

STOP = ("stop", 9, "orchestrator_decision", "O", {"decision": "stop", "stop_reason": "verified"})
DELEGATES = {"decision": "delegate"}


def trace(*rows: Row, chains: tuple[str, ...] = ()) -> Trace:
    """Events as (id, t, type, agent, other keys), and causal edges along chains such as "a b"."""
    edges = [
        Edge(*pair, "causal")
        for chain in chains
        for pair in zip(chain.split(), chain.split()[1:], strict=False)
    ]
    events = tuple(Event(*row) for row in (*rows, STOP))  # type: ignore[arg-type]  # rows are loose
    return Trace("run", "task", events, tuple(edges), rewards={"team": 1.0})


def picked(trace: Trace, *names: str) -> list[float | None]:
    scored = score(trace)
    assert not [flag for flag in scored.flags if flag.startswith("reward_failed")]
    found = {**scored.rewards, **(scored.metrics or {})}
    return [None if name not in found else round(found[name], 4) for name in names]


def spawn(name: str, t: float, to: str) -> Row:
    return name, t, "spawn", "O", {"to": to}


def back(name: str, t: float, agent: str, **keys: object) -> Row:
    return name, t, "return", agent, keys


def works(name: str, t: float, agent: str, duration_s: float, **keys: object) -> Row:
    return name, t, "tool_call", agent, {"duration_s": duration_s, **keys}


def two(second: float) -> Trace:
    """O gives A and B two seconds of work each, B's beginning at `second`, and merges it."""
    return trace(
        spawn("a", 0, "A"),
        spawn("b", 0, "B"),
        works("a1", 0, "A", 2),
        back("a2", 2, "A"),
        works("b1", second, "B", 2),
        back("b2", second + 2, "B"),
        ("merge", 6, "aggregate", "O", {}),
        chains=("a a1 a2 merge stop", "b b1 b2 merge"),
    )


def test_independent_work_that_was_done_in_turn_is_a_serial_collapse():
    """At once it is none; where one waited for the other they were not independent."""
    names = ("serial_collapse", "independence")
    assert picked(two(0), *names) == [0, 1]
    assert picked(two(2), *names) == [-1, 1]
    waited = two(2)
    waited = replace(waited, edges=(*waited.edges, Edge("a2", "b1", "message")))
    assert picked(waited, *names) == [0, 0]


def test_work_is_dependent_that_was_given_because_of_other_work():
    """A path into the spawn is one into what came of it, though no edge leads on from there."""
    found = trace(
        spawn("a", 0, "A"), works("a1", 0, "A", 2), spawn("b", 2, "B"), works("b1", 2, "B", 2),
        chains=("a a1 b", "b1 stop"),
    )  # fmt: skip
    assert picked(found, "serial_collapse", "independence") == [0, 0]


def test_where_nobody_says_how_long_agents_worked_nothing_is_said_of_it():
    """The merging lasts, so the run has times, but none of them is a sub-agent's."""
    found = trace(
        spawn("a", 0, "A"), back("a2", 2, "A"), spawn("b", 0, "B"), back("b2", 4, "B"),
        ("merge", 4, "aggregate", "O", {"duration_s": 1}),
        chains=("a a2 merge stop", "b b2 merge"),
    )  # fmt: skip
    names = ("r_parallel", "balance", "serial_collapse", "independence", "r_finish")
    assert picked(found, *names) == [None, None, None, 1, 1]


def test_who_is_given_work_again_has_to_come_back_again():
    """A return ends what was given before it, not what was given after."""
    rows = (spawn("a", 0, "A"), back("r", 1, "A"), spawn("again", 2, "A"))
    assert picked(trace(*rows), "r_finish") == [0.5]
    assert picked(trace(*rows, back("r2", 3, "A")), "r_finish") == [1]
    assert picked(trace(*rows, back("r2", 3, "A", status="error")), "r_finish") == [0.5]


def test_agents_of_one_name_come_back_one_by_one():
    """By causes where these are known, else the first one first."""
    rows = (spawn("1", 0, "A"), spawn("2", 0, "A"))
    assert picked(trace(*rows, back("r", 1, "A")), "r_finish") == [0.5]
    assert picked(trace(*rows, back("r", 1, "A"), back("r2", 2, "A")), "r_finish") == [1]
    twice = trace(*rows, back("r", 1, "A"), back("r2", 2, "A"), chains=("2 r r2",))
    assert picked(twice, "r_finish") == [1]


def test_a_delegation_in_the_words_of_the_sheet_gives_work():
    """A decision `delegate` is counted, followed to its agent, and shows who leads."""
    rows = (
        ("d", 0, "orchestrator_decision", "O", {"to": "A", **DELEGATES}),
        works("a1", 0, "A", 2),
        back("a2", 2, "A"),
        ("d2", 0, "orchestrator_decision", "O", {"to": "B", **DELEGATES}),
        works("b1", 0, "B", 2),
    )
    found = trace(*rows, chains=("d a1 a2 stop", "d2 b1"))
    names = ("r_parallel", "r_finish", "spurious_parallelism", "independence")
    assert picked(found, *names) == [0.25, 0.5, -0.5, 1]
    assert explain_topology(found).topology == "centralized"


def gives(name: str, t: float, agent: str, to: str) -> Row:
    return name, t, "orchestrator_decision", agent, {"to": to, **DELEGATES}


def test_who_hands_over_and_does_no_more_is_a_peer_in_a_swarm():
    """Also where the first of them gets it back, who then leads no more than the others."""
    once = trace(gives("a", 0, "triage", "bills"), gives("b", 1, "bills", "refunds"))
    assert explain_topology(once).topology == "swarm"
    back_again = trace(
        gives("a", 0, "triage", "bills"),
        gives("b", 1, "bills", "triage"),
        gives("c", 2, "triage", "sales"),
        back("r", 3, "sales"),
    )
    assert explain_topology(back_again).topology == "swarm"


def test_who_goes_on_with_what_came_back_leads_those_below():
    """Delegations of delegates are a hierarchy where they return."""
    rows: list[Row] = []
    for number, lead in enumerate(("north", "south")):
        start = 4 * number
        rows += [
            gives(lead, start, "O", lead),
            gives(f"{lead} gives", start + 1, lead, f"{lead} worker"),
            back(f"{lead} gets", start + 2, f"{lead} worker"),
            back(f"{lead} back", start + 3, lead),
        ]
    assert explain_topology(trace(*rows)).topology == "hierarchical"


def test_an_agent_alone_with_its_tools_is_a_harness():
    """Nobody is given work; results that name their tool as the agent are its own."""
    calls = [(f"c{n}", n, "tool_call", "O", {"tool": "read"}) for n in range(3)]
    result = ("r", 3, "tool_result", "read", {"tool": "read"})
    assert explain_topology(trace(*calls, result)).topology == "harness"


def test_verbs_and_names_without_activations_change_nothing(foreign_fork3):
    """Who writes our keys by hand, on events of any ids, gets the same numbers."""
    verbs = {"orchestrator_decision": "decide"}
    with_verbs = replace(
        foreign_fork3,
        events=tuple(
            replace(event, keys={"verb": verbs.get(event.type, event.type), **event.keys})
            for event in foreign_fork3.events
        ),
    )
    names = ("r_parallel", "r_finish", "balance", "spurious_parallelism", "independence")
    named = replace(
        with_verbs,
        events=tuple(
            replace(event, keys={"activation": event.agent, "status": "ok", **event.keys})
            for event in with_verbs.events
        ),
    )
    for form in (foreign_fork3, with_verbs, named):
        assert picked(form, *names) == [0.5, 0.6667, 0.6667, -0.3333, 1]


@pytest.mark.parametrize(
    ("ended", "finished"),
    [((), 1), ((3,), 1), ((1,), 0), ((2,), 1)],
    ids=["never", "after it came back", "before", "just then"],
)
def test_who_was_ended_before_it_came_back_did_not_finish(ended, finished):
    """A despawn that cleans up afterwards is none; nor is one of a life before."""
    despawns = [(f"x{t}", t, "despawn", "O", {"to": "A"}) for t in ended]
    rows = (spawn("a", 0, "A"), back("r", 2, "A"), *despawns)
    assert picked(trace(*rows), "r_finish") == [finished]
    again = trace(*rows, spawn("b", 4, "A"), back("r2", 5, "A"))
    assert picked(again, "r_finish") == [(finished + 1) / 2]


def test_who_never_came_back_was_busy_all_the_same(foreign_fork3):
    """Balance is of all sub-agents that were seen; C works two seconds, and never returns."""
    lost = replace(
        foreign_fork3,
        events=tuple(event for event in foreign_fork3.events if event.id != "e10"),
        edges=tuple(edge for edge in foreign_fork3.edges if edge.dst != "e10"),
    )
    assert picked(lost, "balance", "r_finish") == [0.6667, 0.6667]


def test_who_was_seen_to_do_nothing_beside_others_was_for_show():
    """It came back, and its return led to the answer, but it had no tokens, tools or messages."""
    rows = (
        spawn("a", 0, "A"), works("a1", 0, "A", 2, tokens=5), back("a2", 2, "A"),
        spawn("b", 0, "B"), back("b2", 2, "B"), ("merge", 2, "aggregate", "O", {}),
    )  # fmt: skip
    chains = ("a a1 a2 merge stop", "b b2 merge")
    assert picked(trace(*rows, chains=chains), "spurious_parallelism") == [-0.5]
    speaks = ("m", 1, "message", "B", {"to": "A"})
    assert picked(trace(*rows, speaks, chains=chains), "spurious_parallelism") == [0]


def test_a_message_without_edges_of_messages_delays_what_it_led_to():
    """The sheet's span(G) - span(G without m): B, two seconds, waited for A, four."""
    found = trace(
        works("a", 0, "A", 4), ("m", 4, "message", "A", {"to": "B"}), works("b", 4, "B", 2),
        chains=("a m b stop",),
    )  # fmt: skip
    assert picked(found, "span", "message_delay") == [6, 2]
    assert message_delays(found) == {"m": 2}


def test_the_order_in_which_others_list_events_changes_nothing():
    """A thousand random traces, shuffled, have the same numbers."""
    chance = random.Random(4)  # noqa: S311 - seeded
    for _ in range(1000):
        found = _random_trace(chance)
        expected = score(found)
        events, edges = list(found.events), list(found.edges)
        chance.shuffle(events)
        chance.shuffle(edges)
        again = score(replace(found, events=tuple(events), edges=tuple(edges)))
        assert (again.rewards, again.metrics) == (expected.rewards, expected.metrics)


def _random_trace(chance: random.Random) -> Trace:
    types = ("spawn", "despawn", "return", "tool_call", "message", "orchestrator_decision")
    rows: list[Row] = []
    for number in range(chance.randint(2, 12)):
        keys: dict[str, object] = {"to": chance.choice("AB")}
        if chance.random() < 0.5:
            keys["duration_s"] = chance.randint(0, 2)
        kind = chance.choice(types)
        if kind == "orchestrator_decision":
            keys |= DELEGATES
        rows.append((f"e{number}", chance.randint(0, 4), kind, chance.choice("OAB"), keys))
    rows.sort(key=lambda row: row[1])  # type: ignore[arg-type, return-value]  # times
    chains = [
        f"{cause[0]} {effect[0]}"
        for at, effect in enumerate(rows)
        for cause in rows[:at]
        if chance.random() < 0.2
    ]
    return trace(*rows, chains=tuple(chains))
