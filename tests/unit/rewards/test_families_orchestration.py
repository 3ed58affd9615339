"""R7 from the trace alone: the sheet's numbers on FORK3, ways to game them, and what is absent."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.assignments import assignments
from orchtrace_otel.rewards.families.orchestration.communication import message_delays
from orchtrace_otel.rewards.families.orchestration.lineage import MOST

TURNS = [("e1", 1), ("A.close", 2), ("B.close", 3), ("C.close", 1), ("e11", 1)]


def changed(trace: Trace, identity: str, **keys: object) -> Trace:
    """The trace with keys of one event replaced; None takes a key away."""

    def change(event: Event) -> Event:
        held = {k: v for k, v in {**event.keys, **keys}.items() if v is not None}
        return replace(event, keys=held) if event.id == identity else event

    return replace(trace, events=tuple(map(change, trace.events)))


def with_turns(trace: Trace) -> Trace:
    """FORK3 with the sheet's steps as LLM calls: O 1 + 1, A 2, B 3, C 1."""
    records = []
    for identity, count in TURNS:
        names = [f"{identity} {number}" for number in range(count)]
        trace = changed(trace, identity, turns=names)
        records += [{"id": name, "event": identity} for name in names]
    return changed(trace, "e12", turn_records=records)


def numbers(trace: Trace) -> dict[str, float]:
    """Rewards and metrics of a scored trace that no reward function lost."""
    scored = score(trace)
    assert not [flag for flag in scored.flags if flag.startswith("reward_failed")]
    return {**scored.rewards, **(scored.metrics or {})}


def picked(trace: Trace, *names: str) -> list[float | None]:
    found = numbers(trace)
    return [None if name not in found else round(found[name], 4) for name in names]


def test_fork3_has_the_numbers_of_the_sheet(fork3):
    """Balance, critical steps, PARL's terms and the detectors, to the printed digits."""
    found = numbers(with_turns(fork3))
    expected = {
        "balance": 0.6667,
        "critical_steps": 5,
        "r_parallel": 0.5,
        "r_finish": 0.6667,
        "serial_collapse": 0,
        "spurious_parallelism": -0.3333,
        "independence": 1,
        "error_amplification": 0,
    }
    assert {name: round(found[name], 4) for name in expected} == expected
    for absent in ("message_delay", "messages_used", "tools_used", "overlap"):
        assert absent not in found


def test_fork3_as_others_write_it_has_the_same_terms(foreign_fork3):
    """Without activations spawns are followed to the agent's own events and its return."""
    names = (
        "r_parallel", "r_finish", "balance", "spurious_parallelism", "independence",
        "critical_steps",
    )  # fmt: skip
    assert picked(foreign_fork3, *names) == [0.5, 0.6667, 0.6667, -0.3333, 1, None]


def test_fork3_shuffled_has_the_same_bits(fork3):
    """Five thousand orders of its events and edges, the stop last, give one set of numbers."""
    trace = with_turns(fork3)
    expected = numbers(trace)
    chance = random.Random(5)  # noqa: S311 - seeded
    *events, stop = trace.events
    edges = list(trace.edges)
    for _ in range(5000):
        chance.shuffle(events)
        chance.shuffle(edges)
        assert numbers(replace(trace, events=(*events, stop), edges=tuple(edges))) == expected


def test_error_amplification_counts_what_failed_because_of_another(foreign_fork3):
    """The sheet's flagged e5, e8, e11 have one root: 3 / 1 - 1."""
    trace = changed(foreign_fork3, "e7", status=None)
    trace = changed(trace, "e10", status=None)
    for identity in ("e5", "e8", "e11"):
        trace = changed(trace, identity, status="error")
    assert numbers(trace)["error_amplification"] == 2


def team(make_event, *lives: tuple[str, float, float], edges: tuple[Edge, ...] = ()) -> Trace:
    """O, and sub-agents that lived from one time to another, each with tokens; O merges them."""
    events = [make_event("O.open", 0, "begin", "O")]
    links = list(edges)
    for name, start, end in lives:
        events.append(make_event(f"{name}.open", start, "spawn", name, parent="O", to=name))
        events.append(make_event(f"{name}.close", end, "return", name, tokens=10))
        links += [
            Edge("O.open", f"{name}.open", "spawn"),
            Edge(f"{name}.open", f"{name}.close", "causal"),
            Edge(f"{name}.close", "merge", "aggregate"),
        ]
    end = max(end for _, _, end in lives)
    events.append(make_event("merge", end, "aggregate", "O"))
    links.append(Edge("merge", "stop", "causal"))
    events.append(make_event("stop", end, "stop", "O", stop_reason="information_complete"))
    events[:-1] = sorted(events[:-1], key=lambda event: (event.t, event.id))
    return Trace("run", "task", tuple(events), tuple(links))


def test_agents_one_after_the_other_are_not_parallel(make_event):
    """Ten spawns in a row give 0; that they did not depend on each other is a collapse."""
    lives = [(f"a{number}", number, number + 1) for number in range(10)]
    apart = team(make_event, *lives)
    assert picked(apart, "r_parallel", "serial_collapse", "independence") == [0, -1, 1]
    row = [Edge(f"a{n}.close", f"a{n + 1}.open", "return") for n in range(9)]
    in_turn = team(make_event, *lives, edges=tuple(row))
    assert picked(in_turn, "r_parallel", "serial_collapse", "independence") == [0, 0, 0]


def test_an_agent_that_waits_for_its_own_does_not_count_as_parallel(make_event):
    """A calls B and waits: one at a time; beside both, C makes two."""
    trace = team(make_event, ("A", 0, 9), ("C", 2, 4))
    inner = (
        make_event("B.open", 1, "spawn", "B", parent="A", to="B"),
        make_event("B.close", 8, "return", "B"),
    )
    nested = replace(trace, events=(trace.events[0], *inner, *trace.events[1:]))
    assert picked(nested, "r_parallel") == [0.25]


def test_messages_make_siblings_dependent(make_event):
    """A message from inside of one into the other is a path between them; both ways count once."""
    said = (
        make_event("m", 1, "message", "A", to="B"),
        make_event("n", 2, "message", "B", to="A"),
    )
    trace = team(
        make_event,
        ("A", 0, 5),
        ("B", 0, 5),
        ("C", 0, 5),
        edges=(
            Edge("A.open", "m", "causal"),
            Edge("m", "B.close", "message"),
            Edge("B.open", "n", "causal"),
            Edge("n", "A.close", "message"),
        ),
    )
    both = replace(trace, events=(*trace.events[:-1], *said, trace.events[-1]))
    assert picked(both, "independence", "messages_used") == [0.6667, 1]


def test_siblings_that_take_no_time_may_lead_into_each_other(make_event):
    """Where clocks are coarse all happens at once: such a pair counts once, too."""
    trace = team(
        make_event,
        ("A", 1, 1),
        ("B", 1, 1),
        ("C", 3, 4),
        edges=(Edge("A.open", "B.close", "message"), Edge("B.open", "A.close", "message")),
    )
    assert picked(trace, "independence", "serial_collapse") == [0.6667, -1]


def test_beyond_a_bound_pairs_are_absent_and_nothing_else(make_event):
    """Pairs grow by the square; a run with very many assignments says nothing of them."""
    lives = [(f"a{number}", number, number + 1) for number in range(MOST + 1)]
    found = numbers(team(make_event, *lives))
    assert "independence" not in found
    assert "serial_collapse" not in found
    assert found["r_finish"] == 1


@pytest.mark.parametrize(
    ("closing", "finished"),
    [
        ({}, 1.0),
        ({"status": "error"}, 0.5),
        ({"status": "cancelled"}, 0.5),
        ({"status": "paused"}, 0.5),
        ({"late": True}, 0.5),
    ],
)
def test_only_what_came_back_well_and_in_time_is_finished(make_event, closing, finished):
    """An assignment that failed, was cancelled, waits, or came after the stop is not finished."""
    trace = team(make_event, ("A", 0, 5), ("B", 0, 5))
    assert picked(changed(trace, "A.close", **closing), "r_finish") == [finished]


def test_a_despawn_before_the_return_is_unfinished(make_event):
    """Who was ended from outside did not finish, whatever it said later."""
    trace = team(make_event, ("A", 0, 5), ("B", 0, 5))
    gone = make_event("gone", 2, "despawn", "O", to="A")
    ended = replace(trace, events=(*trace.events[:-1], gone, trace.events[-1]))
    assert picked(ended, "r_finish") == [0.5]


@pytest.mark.parametrize("order", [("early", "late"), ("late", "early")])
def test_the_first_of_two_despawns_counts_whichever_is_listed_first(make_event, order):
    """The later one is after the return: by it alone the work was finished."""
    trace = team(make_event, ("A", 0, 5), ("B", 0, 5))
    gone = {
        "early": make_event("early", 2, "despawn", "O", to="A"),
        "late": make_event("late", 7, "despawn", "O", to="A"),
    }
    ended = replace(trace, events=(*trace.events[:-1], *map(gone.get, order), trace.events[-1]))
    assert picked(ended, "r_finish") == [0.5]


def test_announced_work_that_never_began_is_unfinished(fork3, make_event):
    """A spawn without an opening is an assignment all the same."""
    more = make_event("e5", 2, "spawn", "O", to="D")
    trace = replace(fork3, events=(*fork3.events[:-1], more, fork3.events[-1]))
    found = Facts(trace).share(assignments)
    assert [*zip(found.agents, found.finished, strict=True)] == [
        ("A", True),
        ("B", True),
        ("C", False),
        ("D", False),
    ]
    assert picked(trace, "r_finish") == [0.5]


def test_a_run_without_assignments_earns_nothing_for_them(make_event):
    """No spawn: r_parallel 0 and no r_finish, or "never spawn" would score full."""
    trace = Trace("run", "task", (make_event("O.open", 0, "begin", "O"),
                                  make_event("stop", 2, "stop", "O")))  # fmt: skip
    assert picked(trace, "r_parallel", "r_finish", "balance") == [0, None, 1]


def test_who_ran_beside_others_and_did_nothing_was_for_show(make_event):
    """Idle counts only in parallel, and only where the run has tokens at all."""
    trace = changed(team(make_event, ("A", 0, 5), ("B", 0, 5)), "A.close", tokens=None)
    assert picked(trace, "spurious_parallelism") == [-0.5]
    alone = changed(team(make_event, ("A", 0, 5), ("B", 5, 9)), "A.close", tokens=None)
    assert picked(alone, "spurious_parallelism") == [0]
    silent = changed(trace, "B.close", tokens=None)
    assert picked(silent, "spurious_parallelism") == [0]


def test_a_brief_given_twice_is_an_overlap_and_for_show(make_event):
    """Where content is captured, briefs are the same where their references are."""
    trace = team(make_event, ("A", 0, 5), ("B", 0, 5), ("C", 0, 5))
    for name, ref in (("A", "r1"), ("B", "r1"), ("C", "r2")):
        trace = changed(trace, f"{name}.open", content_ref=ref)
    assert picked(trace, "overlap", "spurious_parallelism") == [0.3333, -0.3333]


def test_a_message_that_nobody_read_was_not_used(fork3, make_event):
    """To be said on the way to the answer is not enough; to be read and to lead there is."""
    events = (
        make_event("read", 3, "message", "A", to="B"),
        make_event("lost", 4, "message", "A", to="X"),
    )
    edges = (
        Edge("A.open", "read", "causal"),
        Edge("read", "lost", "causal"),
        Edge("lost", "A.close", "causal"),
        Edge("read", "B.close", "message"),
    )
    trace = replace(
        fork3, events=(*fork3.events[:-1], *events, fork3.events[-1]), edges=fork3.edges + edges
    )
    scored = score(trace)
    assert scored.rewards["messages_used"] == 0.5
    used = {e.id: e["rewards"] for e in scored.events if e.get("rewards")}
    assert used == {"read": {"message_used": 1.0}, "lost": {"message_used": 0.0}}


def test_the_last_message_that_is_the_answer_was_used(fork3, make_event):
    """What a team ends with is read by nobody inside it, and was no filler."""
    said = make_event("said", 8.5, "message", "O", to="user")
    edges = (Edge("e11", "said", "causal"), Edge("said", "e12", "causal"))
    kept = tuple(edge for edge in fork3.edges if edge.dst != "e12")
    trace = replace(fork3, events=(*fork3.events[:-1], said, fork3.events[-1]), edges=kept + edges)
    assert numbers(trace)["messages_used"] == 1


def waiting(make_event, make_edges, sent: float) -> Trace:
    """B reads at its beginning what A sent; B works 3 s after that."""
    events = (
        make_event("O.open", 0, "begin", "O"),
        make_event("A.open", 0, "spawn", "A", parent="O"),
        make_event("m", sent, "message", "A", to="B"),
        make_event("A.close", sent, "return", "A"),
        make_event("B.open", sent, "spawn", "B", parent="O"),
        make_event("B.close", sent + 3, "return", "B"),
        make_event("stop", sent + 3, "stop", "O"),
    )
    chain = make_edges("O.open A.open A.close m", "O.open B.open B.close stop")
    return Trace("run", "task", events, (*chain, Edge("m", "B.open", "message")))


def test_a_message_delays_what_had_to_wait_for_it(make_event, make_edges):
    """The span less what it would be without: A's two seconds lie before B's three."""
    trace = waiting(make_event, make_edges, 2)
    assert picked(trace, "span", "message_delay") == [5, 2]
    assert message_delays(trace) == {"m": 2.0}


def test_a_message_beside_another_cause_delays_nothing(make_event, make_edges):
    """With slack, or where the reader waits for the sender anyway, the delay is 0."""
    trace = waiting(make_event, make_edges, 2)
    tied = replace(trace, edges=(*trace.edges, Edge("m", "B.open", "causal")))
    assert message_delays(tied) == {"m": 0.0}
    assert picked(tied, "message_delay") == [0]


@pytest.mark.parametrize(
    ("edge", "flag", "gone"),
    [
        (Edge("e2", "e2", "causal"), "cyclic", {"critical_steps", "spurious_parallelism",
                                                 "independence", "error_amplification"}),
    ],
)  # fmt: skip
def test_a_cycle_costs_what_follows_causes_and_nothing_else(fork3, edge, flag, gone):
    """Absent and flagged; what needs no causes stays as it was."""
    whole, broken = with_turns(fork3), with_turns(fork3)
    broken = replace(broken, edges=(*broken.edges, edge))
    before, after = numbers(whole), numbers(broken)
    assert flag in score(broken).flags
    assert gone <= before.keys() - after.keys()
    for name in ("r_parallel", "r_finish", "balance"):
        assert after[name] == before[name]


def test_times_that_cannot_be_cost_what_is_measured_in_time(fork3):
    """A closing before its opening: no K, no balance; what came back is known all the same."""
    events = [replace(e, t=1) if e.id == "A.close" else e for e in fork3.events]
    found = numbers(replace(fork3, events=tuple(events)))
    assert {"r_parallel", "serial_collapse", "balance"}.isdisjoint(found)
    assert found["r_finish"] == pytest.approx(2 / 3)


def test_ids_that_are_not_unique_cost_all_that_names_events(fork3):
    """With two events of one id nothing that follows edges can be told."""
    twin = replace(fork3.events[2], t=3)
    found = numbers(replace(fork3, events=(*fork3.events[:-1], twin, fork3.events[-1])))
    assert {"r_parallel", "r_finish", "balance", "independence"}.isdisjoint(found)


@pytest.mark.parametrize(
    "events",
    [
        (),
        (Event("only", 0, "spawn", "lead"),),
        (Event("a", 0, "return", "x", {"to": ["odd"], "instance": 7}),),
        (Event("m", 0, "message", "x"), Event("t", 1, "tool_call", "x", {"tool": 3})),
    ],
    ids=["empty", "one spawn", "odd keys", "bare"],
)
def test_odd_traces_raise_nothing(events):
    """Whatever others write, there is a trace again, and no reward failed."""
    numbers(Trace("run", "task", events))


def test_turns_whose_event_is_missing_leave_critical_steps_out(fork3):
    """A count that would lack a turn is no count."""
    trace = with_turns(fork3)
    assert numbers(trace)["critical_steps"] == 5
    assert "critical_steps" not in numbers(changed(trace, "B.close", turns=None))
    assert "critical_steps" not in numbers(fork3)
