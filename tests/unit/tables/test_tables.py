"""The six tables: nothing is lost in them, and each reward stands where it was earned."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given

from orchtrace_otel.datasets.labels import Label, turn_label
from orchtrace_otel.model import Event, Reward, Trace, Turn
from orchtrace_otel.rewards import Facts, score
from orchtrace_otel.rewards.credit import assign, by_unit
from orchtrace_otel.tables import TABLES, rows_of, trace_of
from orchtrace_otel.tables.arrow import nest, schema, unnest
from orchtrace_otel.tables.columns import KINDS, VERSION
from orchtrace_otel.tables.gathering import flat
from orchtrace_otel.testing.world import make_world
from tests.properties import strategies

GENERATOR = Path(__file__).resolve().parents[3] / "docs" / "generate_tables.py"


def spelled(trace: Trace) -> str:
    """The document with its numbers as they are spelled; keys have no order."""
    return json.dumps(trace.to_dict(), sort_keys=True)


def through_arrow(trace: Trace) -> Trace:
    """A trace that went into tables and came back."""
    (rows,) = unnest(nest(flat([rows_of(trace)])))
    return trace_of(rows)


@given(strategies.documents())
@example(  # a number beyond 64 bits, and half a surrogate pair in a column
    {
        "trace_id": "r",
        "task_id": "q",
        "events": [{"id": "e", "t": 10**400, "type": "spawn", "agent": "a", "role": "\udc00"}],
        "edges": [],
        "rewards": {"x": 2**63},
        "costs": {"tokens": 1.0, "wall_clock_s": 2},
    }
)
def test_whatever_the_schema_accepts_comes_back_as_it_was(document) -> None:
    """Through rows and through Arrow, foreign keys and odd values too."""
    trace = Trace.from_dict(document)
    assert trace_of(rows_of(trace)) == trace
    assert spelled(through_arrow(trace)) == spelled(trace)


@given(strategies.traces())
def test_our_own_runs_come_back_with_their_turns_and_rewards(trace: Trace) -> None:
    """The records of the stop leave it for tables of their own, and return."""
    assert through_arrow(trace) == trace
    assert through_arrow(trace).turns == trace.turns


def test_a_task_that_no_column_holds_comes_back_with_its_run_alone() -> None:
    """Half a surrogate pair in its id does not go into the records of the run's calls."""
    record = Turn(id="c" * 16, activation="a" * 16, agent="critic", t=0.5, duration_s=0.1)
    keys = {"verb": "stop", "turn_records": [record.to_dict()]}
    stop = Event("e", 1.0, "orchestrator_decision", "lead", keys)
    trace = Trace("r", "caf\ud83d", (stop,), costs={"tokens": 0, "wall_clock_s": 1.0})
    assert through_arrow(trace) == trace


def test_tokens_that_are_no_numbers_make_no_cost() -> None:
    """Others may write what they like into a turn: it is kept, and nothing is made of it."""
    turns = [{"id": "t1", "input_tokens": 5, "output_tokens": "7"}, {"id": "t2", "input_tokens": 1}]
    stop = Event("s", 1.0, "orchestrator_decision", "lead", {"verb": "stop", "turn_records": turns})
    trace = Trace("r", "q", (stop,), costs={"tokens": 0, "wall_clock_s": 1})
    assert ["cost" in row for row in rows_of(trace).turns] == [False, False]
    assert through_arrow(trace) == trace


def test_a_table_that_is_wanted_in_part_has_these_columns_only() -> None:
    """What a data set does not read is not made into rows; other tables are whole."""
    nested = nest(flat([rows_of(run("r", 1.0))]))
    (whole,) = unnest(nested)
    (some,) = unnest(nested, ("events", "turns"), {"events": ("id", "type")})
    assert some.events == [{"id": row["id"], "type": row["type"]} for row in whole.events]
    assert (some.turns, some.edges) == (whole.turns, [])


def test_several_runs_keep_apart_and_in_order() -> None:
    """Runs folded into one table are unfolded as they were, also when their rows are mixed."""
    traces = [run(name, reward) for name, reward in (("b", 1.0), ("a", 0.0), ("c", 0.5))]
    tables = flat([rows_of(trace) for trace in traces])
    mixed = tables["events"].num_rows
    tables["events"] = tables["events"].take(list(reversed(range(mixed))))
    tables["edges"] = tables["edges"].slice(0, 0)
    found = [trace_of(rows) for rows in unnest(nest(tables))]
    assert found == traces


def test_tables_of_many_runs_are_those_of_each_in_order() -> None:
    """Rows go into columns a few at a time; a column that comes late, or once, keeps its place."""
    traces = [run(f"r{number:03}", number / 200, *_late(number)) for number in range(200)]
    many = flat(rows_of(trace) for trace in traces)
    each = [flat([rows_of(trace)]) for trace in traces]
    for name, table in many.items():
        assert table.to_pylist() == [row for one in each for row in one[name].to_pylist()]


def _late(number: int) -> list[Reward]:
    """A reward with a standard error and a target, which no other run has."""
    return [Reward(id="late", component="x", value=1, se=0.5, target="scout")] * (number == 150)


def run(name: str, reward: float, *more: Reward) -> Trace:
    """A run with two calls: one led to a message, two agents of one role."""
    turns = [
        Turn(id="t1", activation="a1", agent="scout", t=1.0, event="m1", input_tokens=3),
        Turn(id="t2", activation="a2", agent="critic", t=2.0, event="a2.close"),
    ]
    records = [Reward(id="out", component="task", value=reward), *more]
    events = (
        opening("a1", "scout"),
        opening("a2", "critic"),
        Event("m1", 1.5, "message", "scout", {"verb": "message", "turns": ["t1"], "to": "critic"}),
        Event(
            "a2.close",
            2.5,
            "return",
            "critic",
            {"verb": "return", "activation": "a2", "turns": ["t2"]},
        ),
        Event(
            "s",
            3.0,
            "orchestrator_decision",
            "lead",
            {
                "verb": "stop",
                "decision": "O5",
                "turn_records": [turn.to_dict() for turn in turns],
                "reward_records": [one.to_dict() for one in records],
            },
        ),
    )
    return Trace(
        name, "q", events, rewards={"task": reward}, costs={"tokens": 3, "wall_clock_s": 3}
    )


def opening(activation: str, agent: str) -> Event:
    """The spawn of an agent by the lead."""
    keys = {"verb": "spawn", "to": agent, "activation": activation, "role": "worker"}
    return Event(f"{activation}.open", 0.5, "spawn", "lead", keys)


def of_turn(value: float, unit: str, target: str | None, **more: object) -> Reward:
    """A reward of a component of its own."""
    return Reward(
        id=f"{unit}{target}", component="c", value=value, unit=unit, target=target, **more
    )


@pytest.mark.parametrize(
    ("reward", "place"),
    [
        (of_turn(0.5, "turn", "t1"), ("t1", "rewards")),
        (of_turn(0.5, "message", "m1"), ("t1", "rewards")),
        (of_turn(0.5, "turn", "a2.close"), ("t2", "rewards")),
        (of_turn(0.5, "agent", "critic"), ("t2", "agent_rewards")),
    ],
)
def test_a_reward_stands_on_the_call_that_its_ids_name(reward, place) -> None:
    """On the turn itself, on the one that led to the event, or on the agent's; on no other."""
    rows = rows_of(run("r", 1.0, reward)).turns
    found = [
        (row["id"], column)
        for row in rows
        for column in ("rewards", "agent_rewards", "run_rewards")
        if "c" in row.get(column, {})
    ]
    assert found == [place]


def test_a_role_and_the_team_reach_all_their_calls() -> None:
    """A role's reward is on both agents of it, the team's on every call, in other columns."""
    rows = rows_of(run("r", 1.0, of_turn(0.5, "role", "worker"))).turns
    assert [row["agent_rewards"] for row in rows] == [{"c": 0.5}, {"c": 0.5}]
    assert [row["run_rewards"] for row in rows] == [{"task": 1.0}, {"task": 1.0}]


def test_an_event_of_several_calls_gives_none_of_them_its_reward() -> None:
    """Nobody said which of them earned it."""
    trace = run("r", 1.0)
    both = Event("both", 2.7, "message", "lead", {"verb": "message", "turns": ["t1", "t2"]})
    given_to = of_turn(0.5, "message", "both").to_dict()
    stop = trace.events[-1]
    keys = {**stop.keys, "reward_records": [given_to]}
    changed = Event(stop.id, stop.t, stop.type, stop.agent, keys)
    rows = rows_of(Trace("r", "q", (*trace.events[:-1], both, changed)))
    assert all("rewards" not in row for row in rows.turns)
    assert [row.get("turn_id") for row in rows.rewards] == [None]


@pytest.mark.parametrize("topology", ["harness", "debate", "centralized"])
def test_the_credit_of_a_call_is_what_the_units_say(topology: str) -> None:
    """An event of several calls is split by their tokens, and a call has a share of each of its."""
    trace = score(make_world(3, topology).trace, ())
    facts = Facts(trace)
    credit = assign(facts)
    assert credit is not None
    rows = {row["id"]: row["credit"] for row in rows_of(trace).turns if "credit" in row}
    assert any(len(event.get("turns", ())) > 1 for event in trace.events)
    for method in ("flow", "decay", "reachability"):
        parts = by_unit(facts, credit, method, "turn").targets
        assert {turn: row[method] for turn, row in rows.items()} == pytest.approx(parts)


def test_rewards_that_contradict_each_other_count_for_nothing_and_are_told() -> None:
    """Two final values of one estimator; a provisional one or a judge gives way instead."""
    two = [Reward(id=str(value), component="c", value=value) for value in (1.0, 0.0)]
    row = rows_of(run("r", 1.0, *two)).turns[0]
    assert (row["run_rewards"], row["contradictory"]) == ({"task": 1.0}, ["c"])

    first = Reward(id="a", component="c", value=0.0, provisional=True)
    judged = Reward(id="b", component="c", value=0.25, estimator="judge")
    final = Reward(id="d", component="c", value=1.0)
    row = rows_of(run("r", 1.0, first, judged, final)).turns[0]
    assert row["run_rewards"] == {"task": 1.0, "c": 1.0}
    assert "contradictory" not in row


def of_c(identity: str, value: float, unit: str, target: str | None = None) -> Reward:
    """One of several rewards of the same component."""
    return Reward(id=identity, component="c", value=value, unit=unit, target=target)


def renamed(event: Event) -> Event:
    """The event of a run whose scout is called like its role."""
    keys = json.loads(json.dumps(event.keys).replace('"scout"', '"worker"'))
    return Event(event.id, event.t, event.type, event.agent, keys)


@pytest.mark.parametrize("order", [1, -1])
def test_an_agent_that_is_called_like_a_role_has_rewards_of_its_own(order: int) -> None:
    """Names are of a unit, and the agent's is nearer, whichever was given first."""
    rewards = [of_c("r", 0.25, "role", "worker"), of_c("a", 1.0, "agent", "worker")][::order]
    trace = run("r", 1.0, *rewards)
    events = [renamed(event) for event in trace.events]
    rows = rows_of(replace(trace, events=tuple(events))).turns
    assert {row["agent"]: row["agent_rewards"]["c"] for row in rows} == {
        "worker": 1.0,
        "critic": 0.25,
    }


@pytest.mark.parametrize("order", [1, -1])
def test_the_team_goes_before_an_orchestrator_without_a_name(order: int) -> None:
    """Both are the run's; what was given first does not decide. A turn without a name is none."""
    rewards = [
        of_c("t", 1.0, "team"),
        of_c("o", 0.25, "orchestrator"),
        of_c("n", 0.5, "turn"),
    ][::order]
    rows = rows_of(run("r", 1.0, *rewards)).turns
    assert [row["run_rewards"]["c"] for row in rows] == [1.0, 1.0]
    alone = rows_of(run("r", 1.0, of_c("n", 0.5, "turn"))).turns
    assert [row["run_rewards"] for row in alone] == [{"task": 1.0}, {"task": 1.0}]


def test_a_wider_reward_does_not_stand_in_for_nearer_ones_that_disagree() -> None:
    """A turn with two rewards has none, whatever its team has; one that agrees is its own."""
    two = [of_c("1", 1.0, "turn", "t1"), of_c("2", 0.0, "turn", "t1")]
    rows = rows_of(run("r", 1.0, *two, of_c("3", 0.5, "team"))).turns
    assert [row.get("contradictory") for row in rows] == [["c"], None]
    assert [turn_label(row, "c") for row in rows] == [
        Label(missing="contradictory_rewards", component="c"),
        Label(0.5, "c", "team"),
    ]
    own = [of_c("1", 1.0, "turn", "t1"), of_c("2", 0.0, "team"), of_c("3", 0.5, "team")]
    rows = rows_of(run("r", 1.0, *own)).turns
    assert [row.get("contradictory") for row in rows] == [None, ["c"]]


def test_what_is_to_go_counts_from_a_call_to_the_end() -> None:
    """A call's return has its own and later rewards and the team's; earlier ones do not count."""
    rewards = [of_turn(0.25, "turn", "t1"), of_turn(0.5, "turn", "t2")]
    rows = rows_of(run("r", 1.0, *rewards))
    assert [row["return"]["c"] for row in rows.turns] == [0.75, 0.5]
    assert [row["return"]["task"] for row in rows.turns] == [1.0, 1.0]
    assert rows.decisions[-1]["reward_to_go"] == {"task": 1.0}
    assert [row["done"] for row in rows.decisions] == [False, False, False, True]


def test_equal_histories_have_equal_states_and_others_do_not() -> None:
    """The state of a decision is the task, the place, and all that was decided before."""
    one, other = (rows_of(run(name, 1.0)).decisions for name in ("r1", "r2"))
    assert [row["state_hash"] for row in one] == [row["state_hash"] for row in other]
    assert len({row["state_hash"] for row in one}) == len(one)


def test_every_column_has_a_kind_that_arrow_knows_and_the_schema_its_version() -> None:
    """Files say which layout they have, and what each column means."""
    for table, columns in TABLES.items():
        written = schema(table)
        assert written.metadata[b"orchtrace.tables"] == f"{table} {VERSION}".encode()
        assert written.names == [column.name for column in columns]
        assert [str(field.type).replace("item: ", "") for field in written] == [
            KINDS[column.kind] for column in columns
        ]
        assert all(field.metadata[b"about"] for field in written)


def test_the_page_of_the_tables_is_what_the_code_says() -> None:
    """docs/tables.md was made anew after the last change; `make docs` does it."""
    spec = importlib.util.spec_from_file_location("generate_tables", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.PAGE.read_text(encoding="utf-8") == generator.render(), "run: make docs"


def test_each_field_that_trainers_ask_for_has_its_column() -> None:
    """The turn record and the decision record of offline learning, under our names."""
    turns = {column.name for column in TABLES["turns"]}
    assert {
        *("run_id", "task_id", "group_id", "episode_id", "instance", "agent", "role"),
        *("parent_agent", "branch_id", "index", "id", "response_id", "decision", "messages"),
        *("tools", "prompt_ids", "response_ids", "response_mask", "logprobs"),
        *("token_provenance", "sampling", "model", "policy_version_min", "policy_version_max"),
        *("rewards", "advantage", "return", "cost", "behavior_prob", "done", "truncated"),
        "redactions",
    } <= turns
    decisions = {column.name for column in TABLES["decisions"]}
    assert {
        *("run_id", "index", "features", "action", "legal_actions", "behavior_prob"),
        *("reward_to_go", "cost_to_go", "policy_version", "done", "state_hash"),
    } <= decisions


def test_points_where_a_run_could_have_stopped_are_decisions_with_their_chance() -> None:
    """At the last it did stop, with that chance; at the others it went on, with the rest."""
    seen = [
        Event(
            f"p{number}",
            float(number),
            "return",
            "scout",
            {
                "verb": "return",
                "decision_point": "after",
                "features": {"n": number},
                "stop_probability": 0.25,
            },
        )
        for number in (1, 2)
    ]
    stop = Event("s", 3.0, "orchestrator_decision", "lead", {"verb": "stop"})
    costs = {"tokens": 0, "wall_clock_s": 3}
    rows = rows_of(Trace("r", "q", (*seen, stop), costs=costs)).decisions
    found = [(row["action"], row.get("behavior_prob"), row.get("features")) for row in rows]
    assert found == [
        ("continue", 0.75, {"n": 1}),
        ("stop", 0.25, {"n": 2}),
        ("stop", None, None),
    ]
