"""`orchtrace credit`: what it writes for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from orchtrace_otel.cli import credit
from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.credit import METHODS

CHAIN = Trace(
    "run-1",
    "q",
    (
        Event("1", 0, "spawn", "lead", {"verb": "spawn", "to": "coder", "role": "dev"}),
        Event("2", 1, "return", "coder", {"verb": "return"}),
        Event("3", 2, "aggregate", "lead", {"verb": "aggregate"}),
        Event("4", 3, "orchestrator_decision", "lead", {"verb": "stop", "stop_reason": "verified"}),
    ),
    tuple(Edge(a, b, "causal") for a, b in pairwise("1234")),
    {"task": 1.0},
    {"tokens": 0, "wall_clock_s": 3},
)
UNGRADED = replace(CHAIN, trace_id="run-2", rewards={})


@pytest.fixture
def file(tmp_path) -> Path:
    """Two runs: one that somebody graded, one that nobody did."""
    path = tmp_path / "traces.jsonl"
    path.write_text(f"{CHAIN.to_json()}\n{UNGRADED.to_json()}\n")
    return path


def run(*arguments: object) -> int:
    return credit.command.main(list(map(str, arguments)), standalone_mode=False)


def test_each_run_is_a_line_of_json(file, capsys):
    """Methods by name, events by id; a run without credit says why and has none."""
    assert run(file, "--json") == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["trace_id"] == "run-1"
    assert set(first["credit"]) == set(METHODS) - {"critical_path"}
    assert first["credit"]["flow"] == {"1": 0.25, "2": 0.25, "3": 0.5, "4": 0.0}
    assert first["credit"]["last_writer"] == {"1": 0.0, "2": 0.0, "3": 1.0, "4": 0.0}
    assert second == {"trace_id": "run-2", "credit": {}, "absent": "no_outcome"}


def test_a_scored_trace_has_the_same_credit(tmp_path, capsys):
    """What the command computes is what was written onto the events."""
    scored = score(CHAIN)
    path = tmp_path / "scored.jsonl"
    path.write_text(scored.to_json() + "\n")
    assert run(path, "--json") == 0
    found = json.loads(capsys.readouterr().out)["credit"]
    written = {
        method: {event.id: event["credit"][method] for event in scored.events} for method in found
    }
    assert found == written


def test_people_read_tables(file, capsys):
    """Agents, roles and the events with most, and why a run has none."""
    assert run(file, "--top", "2") == 0
    assert capsys.readouterr().out.splitlines() == [
        "1  q  run run-1  task 1",
        "  agents  reachability  dominator  flow   decay  last_writer",
        "  coder              1          1  0.25  0.2857            0",
        "  lead               2          2  0.75  0.7143            1",
        "  roles       reachability  dominator  flow   decay  last_writer",
        "  dev                    1          1  0.25  0.2857            0",
        "  unassigned             2          2  0.75  0.7143            1",
        "  events                       reachability  dominator  flow   decay  last_writer",
        "  aggregate of lead at 2 s  3             1          1   0.5  0.5714            1",
        "  spawn of lead at 0 s  1                 1          1  0.25  0.1429            0",
        "",
        "2  q  run run-2",
        "  no credit: nobody said what the run was worth: record a reward `task`, or only one of "
        "the team",
    ]


def test_what_is_no_trace_is_told(tmp_path, capsys):
    """The others are shown, and the exit code says that the input is at fault."""
    path = tmp_path / "mixed.jsonl"
    path.write_text(f"{{}}\n{CHAIN.to_json()}\n[]\n")
    assert run(path, "--json") == 1
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 1
    assert told.err.startswith("error: ")
    assert "2 documents are no traces" in told.err


def test_names_of_strangers_steer_no_terminal(tmp_path, capsys):
    """An agent's name is shown without what would move a cursor."""
    events = tuple(replace(one, agent="a\x1b[2Jb") for one in CHAIN.events)
    path = tmp_path / "odd.jsonl"
    path.write_text(replace(CHAIN, events=events).to_json() + "\n")
    assert run(path) == 0
    assert "\x1b" not in capsys.readouterr().out
