"""`orchtrace rewards`: lines for programs, tables for people, and why a number is what it is."""

from __future__ import annotations

import json
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from orchtrace_otel.cli.rewards import command
from orchtrace_otel.model import Edge, Event, Reward, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.builtin import COMPONENTS
from orchtrace_otel.rewards.explaining import EXPLAINED, explain
from orchtrace_otel.rewards.measures import MEASURES

if TYPE_CHECKING:
    from collections.abc import Callable

# Since click 8.2 the two streams are always kept apart.
APART = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
LEAD = {"activation": "O", "instance": "O#1", "status": "ok"}


def life(name: str, end: float, status: str, tokens: int) -> list[Event]:
    """A researcher that lives from second 2 on."""
    keys = {"activation": name, "instance": f"{name}#1", "status": "ok"}
    opened = {**keys, "verb": "spawn", "parent": "O", "to": name}
    closed = {**keys, "verb": "return", "status": status, "tokens": tokens}
    return [
        Event(f"{name}.open", 2, "spawn", "O", opened),
        Event(f"{name}.close", end, "return", name, closed),
    ]


def fork(run_id: str = "fork3", **stop: Any) -> Trace:
    """The sheet's FORK3: A, B and C at once, C fails; one message that B reads; a tool call."""
    decide = {**LEAD, "verb": "decide", "duration_s": 2, "tokens": 200}
    said = {"verb": "message", "activation": "A", "instance": "A#1", "status": "ok", "to": "B"}
    merge = {**LEAD, "verb": "aggregate", "duration_s": 1, "tokens": 100}
    events = [
        Event("O.open", 0, "message", "user", {**LEAD, "verb": "begin", "to": "O"}),
        Event("e1", 0, "orchestrator_decision", "O", decide),
        *life("A", 6, "ok", 400),
        *life("B", 8, "ok", 600),
        *life("C", 4, "error", 200),
        Event("m", 5, "message", "A", said),
        Event("e11", 8, "aggregate", "O", merge),
    ]
    events.sort(key=lambda event: (event.t, event.id != "O.open", event.id))
    stopping = {**LEAD, "verb": "stop", "stop_reason": "verified", **stop}
    edges = [Edge("O.open", "e1", "causal"), Edge("e11", "e12", "causal")]
    for name in "ABC":
        edges += [
            Edge("e1", f"{name}.open", "spawn"),
            Edge(f"{name}.open", f"{name}.close", "causal"),
        ]
    edges += [Edge(f"{name}.close", "e11", "aggregate") for name in "AB"]
    edges += [Edge("A.open", "m", "causal"), Edge("m", "B.close", "message")]
    return Trace(
        run_id,
        "task",
        (*events, Event("e12", 9, "orchestrator_decision", "O", stopping)),
        tuple(edges),
        rewards={"task": 1.0},
        costs={"tokens": 1500, "wall_clock_s": 9},
        system="python",
        metrics={"turns_without_usage": 0},
    )


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    """Run the verb on traces, as its user does."""

    def invoke(*arguments: str, traces: tuple[Trace | str, ...] = (fork(),)) -> Result:
        file = tmp_path / "traces.jsonl"
        lines = [one if isinstance(one, str) else one.to_json() for one in traces]
        file.write_text("\n".join(lines) + "\n")
        return CliRunner(**APART).invoke(command, [str(file), *arguments], standalone_mode=False)

    return invoke


def test_json_is_one_line_a_run(run):
    """Programs read the id, rewards by component and metrics by name, and nothing else."""
    result = run("--json", traces=(fork("one"), fork("two")))
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert [document["trace_id"] for document in documents] == ["one", "two"]
    scored = score(fork("one"))
    assert documents[0] == {
        "trace_id": "one",
        "rewards": dict(scored.rewards),
        "metrics": dict(scored.metrics or {}),
    }
    assert documents[0]["rewards"]["task"] == 1
    assert round(documents[0]["rewards"]["r_finish"], 4) == 0.6667
    assert result.return_value == 0


def test_rewards_of_many_calls_are_a_line_unless_all_is_asked_for(run):
    """Their mean, and how many they are; ten or fewer, and those of another kind, stay."""
    many = [
        Reward(id=f"{n}", component="step", value=n / 10, unit="turn", target=f"{n:016x}")
        for n in range(11)
    ]
    few = [replace(one, id=f"few{one.id}", component="few") for one in many[:10]]
    trace = fork(reward_records=[one.to_dict() for one in (*many, *few)])
    steps = [line.split() for line in run(traces=(trace,)).stdout.splitlines() if " turn " in line]
    assert [line[0] for line in steps] == ["step"] + ["few"] * 10
    assert steps[0][1] == "0.5"
    assert " ".join(steps[0]).endswith("mean of 11: --all lists them")
    assert run("--all", traces=(trace,)).stdout.count("  step  ") == 11
    assert "mean of 11" in run("--explain", "step", traces=(trace,)).stdout


def test_a_reward_that_is_called_like_credit_is_listed(run):
    """What a user gave stands in the table, and the shares of the outcome do not."""
    given = Reward(id="u", component="credit_check", value=0.75)
    lines = run(traces=(fork(reward_records=[given.to_dict()]),)).stdout.splitlines()
    named = [line.split()[:2] for line in lines if "credit_" in line]
    assert named == [["credit_check", "0.75"]]


def test_a_scored_file_gives_the_same_lines(run):
    """What a trace tells by itself is computed again; what users recorded is carried."""
    given = Reward(id="u", component="tone", value=-0.25, family="R6", unit="agent", target="A")
    bare = fork(reward_records=[given.to_dict()])
    assert run("--json", traces=(bare,)).stdout == run("--json", traces=(score(bare),)).stdout


def test_the_table_says_all_of_each_component(run):
    """Value, family, unit, target and estimator of each; a mean over events; the measures."""
    given = Reward(id="u", component="tone", value=-0.25, family="R6", unit="agent", target="A",
                   n=8, se=0.125, provisional=True)  # fmt: skip
    result = run(traces=(fork(reward_records=[given.to_dict()]),))
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.split()}
    assert lines["1"][:4] == ["1", "O", "run", "fork3"]
    assert lines["component"] == ["component", "value", "family", "unit", "target", "estimator"]
    assert lines["tone"] == [
        "tone",
        "-0.25",
        "R6",
        "agent",
        "A",
        "outcome",
        "provisional,",
        "n",
        "8,",
        "se",
        "0.125",
    ]
    assert lines["r_finish"] == ["r_finish", "0.6667", "R7", "orchestrator", "structural"]
    assert lines["message_used"][:3] == ["message_used", "1", "R7"]
    assert lines["speed_up"] == ["speed_up", "1.667"]
    assert not any(name.startswith("credit_") for name in lines)


def test_an_explanation_fills_the_formula_in_and_names_events(run):
    """Who reads a number sees what it is made of."""
    result = run("--explain", "r_finish")
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["r_finish", "=", "0.6667", "R7", "orchestrator", "structural"],
        [
            "assignments",
            "that",
            "came",
            "back",
            "in",
            "time",
            "without",
            "an",
            "error",
            "/",
            "assignments",
        ],
        ["=", "2", "/", "3"],
        ["O", "spawn", "A", "2", "s", "came", "back", "A.open"],
        ["O", "spawn", "B", "2", "s", "came", "back", "B.open"],
        ["O", "spawn", "C", "2", "s", "did", "not", "come", "back,", "or", "failed", "C.open"],
    ]


@pytest.mark.parametrize(
    ("name", "filled"),
    [
        ("work", "5 pieces of own work, together 15 s"),
        ("span", "2 s + 6 s + 1 s -> 9 s"),
        ("makespan", "9 s - 0 s"),
        ("parallelism", "15 s / 9 s"),
        ("speed_up", "15 s / 9 s"),
        ("peak_concurrency", "K = 3, of 5 that end with these events"),
        ("parallelism_efficiency", "15 s / (3 * 9 s)"),
        ("protocol_overhead", "300 / 1,500"),
        ("waste", "1 - 1,300 / 1,500"),
        ("r_parallel", "K = 3: (3 - 1) / 4"),
        ("spurious_parallelism", "- 1 / 3"),
        ("serial_collapse", "K = 3, independent pairs: 2"),
        ("independence", "(3 - 1) / 3"),
        ("error_amplification", "1 / 1 - 1"),
        ("messages_used", "1 / 1"),
        ("message_delay", "9 s - 9 s"),
        ("balance", "(A#1 4 s, B#1 6 s, C#1 2 s): mean 4 s, greatest 6 s"),
    ],
)
def test_explanations_of_fork3_hold_the_sheets_values(name, filled):
    """The values that a formula is filled with are those that the number is made of."""
    explained = explain(fork(), name)
    assert explained is not None
    assert explained.filled == filled


def test_a_number_that_a_trace_came_with_is_not_explained_by_its_events(run):
    """Filled in they would make another number; those of a trace without events made an error."""
    metrics = {"work": 9.0, "speed_up": 2.0}
    costs = {"tokens": 0, "wall_clock_s": 0}
    event = Event("a", 0, "spawn", "x")
    alone = Trace("run", "task", (event,), metrics=metrics, costs=costs)
    for name in metrics:
        shown = run("--explain", name, traces=(alone,))
        assert "the trace came with it, and does not tell it by itself" in shown.stdout
    assert explain(replace(alone, events=(), metrics={"makespan": 9.0}), "makespan") is None


def test_every_built_in_number_can_be_explained():
    """A component without an explanation would be a number that nobody can check."""
    assert set(EXPLAINED) == {*MEASURES, *(one.name for one in COMPONENTS)}
    assert explain(fork(), "task") is None


@pytest.mark.parametrize("name", sorted(EXPLAINED))
def test_explanations_stand_for_whatever_a_trace_lacks(run, name):
    """Empty, foreign and broken traces are explained, or said to be absent, never a crash."""
    bare = Trace(
        "bare", "task", (Event("a", 0, "spawn", "x"),), costs={"tokens": 0, "wall_clock_s": 0}
    )
    cyclic = replace(fork("cyclic"), edges=(*fork().edges, Edge("m", "m", "causal")))
    result = run("--explain", name, traces=(fork(), bare, cyclic))
    assert result.exception is None
    assert result.stdout.count("run ") >= 3


def test_what_users_recorded_is_said_to_be_theirs(run):
    """There is no formula to fill in for a number that somebody gave."""
    assert "recorded by the user" in run("--explain", "task").stdout


def test_long_lists_are_cut_and_say_so(run):
    """A run of very many events does not flood the terminal unless asked to."""
    calls = [
        Event(f"c{number:03}", 3, "tool_call", "A", {"tool": "t", "status": "ok"})
        for number in range(60)
    ]
    trace = replace(fork(), events=(*fork().events[:-1], *calls, fork().events[-1]))
    cut = run("--explain", "tools_used", traces=(trace,)).stdout
    assert "and 20 more: --all" in cut
    whole = run("--explain", "tools_used", "--all", traces=(trace,)).stdout
    assert whole.count("tool_call t") == 60


def test_a_name_that_no_run_has_is_a_wrong_usage(run):
    """The message says which names there are."""
    result = run("--explain", "r_finnish")
    assert "no run has a number called 'r_finnish'; there are balance" in str(result.exception)


def test_what_is_no_trace_is_told_and_the_others_are_not_lost(run):
    """One bad line costs itself: the rest is printed, and the exit code says that it was there."""
    result = run("--json", traces=("{}", fork(), "no json"))
    assert len(result.stdout.splitlines()) == 1
    assert result.return_value == 1
    assert result.stderr.count("error:") == 1
    assert "2 documents are no traces" in result.stderr


def test_names_of_strangers_are_shown_as_text(run):
    """A component's name cannot steer the terminal."""
    result = run(traces=(replace(fork(), rewards={"\x1b[31mred": 1.0}),))
    assert "\x1b" not in result.stdout
    assert "[31mred" in result.stdout
