"""Links between calls: what led to what, from the graph of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchtrace_datasets.links import TABLES, Links
from orchtrace_otel.datasets import Job, Run
from orchtrace_otel.datasets.contents import Contents
from orchtrace_otel.model import Edge, Event, Trace, Turn
from orchtrace_otel.tables.rows import rows_of
from tests.recorded import Recorder, siblings


def linked(trace: Trace) -> dict[str, set[tuple[str, str]]]:
    """Return what led to each call, by agent: source agent and type."""
    run = Run(rows_of(trace, TABLES), Contents(None), Job(format="verifiers"))
    links = Links(run)
    return {call.id: {(link.source.id, link.type) for link in links.to(call)} for call in run.calls}


def event(name: str, t: float, kind: str, agent: str, **keys: Any) -> Event:
    """An event of a run that is written by hand."""
    return Event(name, t, kind, agent, {"activation": name.partition(".")[0], **keys})


def turn(name: str, activation: str, t: float, carrier: str) -> Turn:
    """A call of a tenth of a second."""
    agent = activation
    return Turn(
        id=name,
        activation=activation,
        agent=agent,
        instance=f"{agent}#1",
        t=t,
        duration_s=0.1,
        event=carrier,
        status="ok",
    )


def made(events: list[Event], edges: list[tuple[str, str, str]], turns: list[Turn]) -> Trace:
    """A run of them."""
    stop = event(
        "stop",
        99.0,
        "orchestrator_decision",
        "lead",
        verb="stop",
        turn_records=[one.to_dict() for one in turns],
    )
    return Trace("r", "q", (*events, stop), tuple(Edge(*edge) for edge in edges))


def test_parallel_siblings_led_to_nothing_of_each_other(tmp_path: Path) -> None:
    """They overlap in time, and no edge joins them."""
    assert set(map(len, linked(siblings(Recorder(tmp_path))).values())) == {0}


def test_a_report_belongs_to_the_first_call_that_had_it() -> None:
    """A later call of the same activation had it by way of that one."""
    trace = made(
        [
            event("lead.open", 0.0, "spawn", "lead"),
            event("sub.open", 2.0, "spawn", "sub", parent="lead"),
            event("sub.close", 3.0, "return", "sub"),
            event("lead.close", 9.0, "return", "lead"),
        ],
        [
            ("lead.open", "sub.open", "spawn"),
            ("sub.open", "sub.close", "causal"),
            ("sub.close", "lead.close", "return"),
            ("lead.open", "lead.close", "causal"),
        ],
        [
            turn("a", "lead", 1.0, "lead.close"),
            turn("s", "sub", 2.5, "sub.close"),
            turn("b", "lead", 4.0, "lead.close"),
            turn("c", "lead", 5.0, "lead.close"),
        ],
    )
    assert linked(trace) == {
        "a": set(),
        "s": {("a", "subagent_call")},
        "b": {("a", "continuation"), ("s", "subagent_return")},
        "c": {("b", "continuation")},
    }


def test_a_message_of_a_stranger_is_a_message() -> None:
    """Neither works for the other; what stands between carries no call."""
    trace = made(
        [
            event("one.open", 0.0, "spawn", "one", parent="team"),
            event("one.close", 2.0, "return", "one"),
            event("relay", 3.0, "message", "team"),
            event("two.open", 4.0, "spawn", "two", parent="team"),
            event("two.close", 6.0, "return", "two"),
        ],
        [
            ("one.open", "one.close", "causal"),
            ("one.close", "relay", "message"),
            ("relay", "two.open", "message"),
            ("two.open", "two.close", "causal"),
            ("one.open", "two.open", "temporal"),
        ],
        [turn("a", "one", 1.0, "one.close"), turn("b", "two", 5.0, "two.close")],
    )
    assert linked(trace) == {"a": set(), "b": {("a", "agent_message")}}


def test_links_of_edges_that_go_round_or_nowhere_end() -> None:
    """Traces of others may hold both."""
    trace = made(
        [
            event("one.open", 0.0, "spawn", "one", parent="one"),
            event("one.close", 2.0, "return", "one"),
        ],
        [
            ("one.close", "one.open", "causal"),
            ("one.open", "one.close", "causal"),
            ("gone.close", "one.open", "return"),
        ],
        [turn("a", "one", 1.0, "one.close")],
    )
    assert linked(trace) == {"a": set()}


def test_each_report_of_thousands_is_that_of_the_call_after_it() -> None:
    """All of them went into one event, which carries all the calls of the lead."""
    events = [event("lead.open", 0.0, "spawn", "lead")]
    edges: list[tuple[str, str, str]] = []
    turns: list[Turn] = []
    for place in range(3_000):
        t = 1.0 + place * 10
        name = f"sub{place}"
        events.append(event(f"{name}.open", t, "spawn", name, parent="lead"))
        events.append(event(f"{name}.close", t + 3, "return", name))
        edges.append(("lead.open", f"{name}.open", "spawn"))
        edges.append((f"{name}.open", f"{name}.close", "causal"))
        edges.append((f"{name}.close", "lead.close", "return"))
        turns.append(turn(f"s{place}", name, t + 1, f"{name}.close"))
        turns.append(turn(f"l{place}", "lead", t + 5, "lead.close"))
    events.append(event("lead.close", 9e9, "return", "lead"))
    found = linked(made(events, edges, turns))
    assert found["l0"] == {("s0", "subagent_return")}
    for place in range(1, 3_000):
        assert found[f"s{place}"] == {(f"l{place - 1}", "subagent_call")}
        assert found[f"l{place}"] == {
            (f"s{place}", "subagent_return"),
            (f"l{place - 1}", "continuation"),
        }
