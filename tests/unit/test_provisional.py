"""What an open run says of itself so far, and that asking changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import schema
from orchtrace_otel.model import Trace
from tests.trees import recording, tree

seen: list[Trace | None] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    """Each test sees its own."""
    seen.clear()


def look() -> None:
    run = orchtrace.current_run()
    assert run is not None
    seen.append(run.provisional())


@orchtrace.tool
def search() -> str:
    return "found"


@orchtrace.agent
def scout(*, looks: bool = False) -> str:
    found = search()
    if looks:
        look()
    return found


def team(ask: Callable[[], None]) -> None:
    @orchtrace.team("research")
    def work() -> None:
        ask()
        scout()
        ask()
        scout()
        orchtrace.record_reward("task", 0.5)
        ask()
        orchtrace.decide("route", chosen="done")
        ask()

    work()


def drawn(trace: Trace) -> list[str]:
    """The tree of a trace, without the words of its stop: a run that goes on has none."""
    *lines, stop = tree(trace).splitlines()
    return [*lines, stop.partition(" < ")[2]]


def first(trace: Trace | None) -> Trace:
    assert trace is not None
    return trace


def test_a_run_that_goes_on_tells_its_measures_and_rewards() -> None:
    """They grow with it; each is marked, the trace conforms, and nobody is told of it."""
    with recording() as captured:
        team(look)
    assert len(captured.traces) == 1
    before, one, two, three = map(first, seen)
    assert [len(trace.events) for trace in (before, one, two, three)] == [2, 6, 10, 11]
    for trace in (before, one, two, three):
        assert trace.trace_id == captured.trace.trace_id
        assert list(schema.check(trace.to_dict())) == []
        assert trace.flags == ("provisional",)
        assert trace.stop is not None
        assert trace.stop["stop_reason"] == "unknown"
    assert "r_finish" not in before.rewards
    assert (one.rewards["r_finish"], one.rewards["tools_used"]) == (1.0, 1.0)
    assert two.rewards["task"] == 0.5
    builtin = [record for record in two.reward_records if record.component != "task"]
    assert builtin
    assert all(record.provisional for record in builtin)
    assert not any(r.provisional for r in two.reward_records if r.component == "task")
    assert all("flow" in event["credit"] for event in two.events)


def test_asking_changes_nothing() -> None:
    """The same tree with all its causes, and the same rewards, whoever looked on the way."""
    with recording() as looked:
        team(look)
    with recording() as alone:
        team(lambda: None)
    assert tree(looked.trace) == tree(alone.trace)
    assert looked.trace.rewards == alone.trace.rewards


def test_just_before_the_stop_it_is_what_the_run_will_be() -> None:
    """All causes are known by then: the same span, work and use of everything."""
    with recording() as captured:
        team(look)
    so_far, end = first(seen[-1]), captured.trace
    assert drawn(so_far) == drawn(end)
    assert so_far.rewards == end.rewards
    names = (
        "waste",
        "critical_steps",
        "peak_concurrency",
        "error_amplification",
        "protocol_overhead",
    )
    for name in names:
        assert (so_far.metrics or {}).get(name) == (end.metrics or {}).get(name)


def test_who_is_at_work_has_not_finished() -> None:
    """An agent that asks in the middle of its work is paused there, and counts as open."""

    @orchtrace.team
    def one() -> None:
        scout()
        scout(looks=True)

    with recording() as captured:
        one()
    so_far = first(seen[0])
    assert so_far.rewards["r_finish"] == 0.5
    assert captured.trace.rewards["r_finish"] == 1.0
    paused = [event for event in so_far.events if event["status"] == "paused"]
    assert [(event.verb, event.agent) for event in paused] == [("return", "scout")]


def test_agents_in_threads_count_once_they_are_back() -> None:
    """Those elsewhere do so when they come back; those here as far as they got."""
    begun, asked = threading.Barrier(2), threading.Event()

    @orchtrace.agent
    def slow() -> None:
        begun.wait(30)
        asked.wait(30)

    @orchtrace.team
    def wide() -> None:
        with ThreadPoolExecutor(2) as pool:
            pool.submit(scout).result()
            waiting = pool.submit(slow)
            begun.wait(30)
            look()
            asked.set()
            waiting.result()
        look()

    with orchtrace.instrument(), recording() as captured:
        wide()
    during, after = map(first, seen)
    assert {event.agent for event in during.events if event.verb == "return"} == {"scout"}
    assert {event.agent for event in after.events if event.verb == "return"} == {"scout", "slow"}
    assert drawn(after) == drawn(captured.trace)


def test_where_nobody_follows_there_is_nothing_to_tell() -> None:
    """After the stop, in a run from another process, and without `configure`."""

    @orchtrace.team
    def short() -> object:
        return orchtrace.current_run()

    with recording():
        run = short()
        assert isinstance(run, orchtrace.Run)
        assert run.provisional() is None
    headers = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": f"orchtrace={'c' * 16}"}
    with recording(), orchtrace.extract(headers):
        look()
    assert seen == [None]
