"""Bad input, one thing at a time: flagged, absent instead of wrong, and nothing else lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from orchtrace_otel import schema
from orchtrace_otel.model import Edge, Event, Trace
from orchtrace_otel.rewards import Facts, measure, score
from orchtrace_otel.rewards.credit import assign, credit_to_go, why_absent
from orchtrace_otel.rewards.groups import Groups

TIMES = {"work", "parallelism", "speed_up", "peak_concurrency", "parallelism_efficiency", "span"}
TIMES |= {"balance", "r_parallel", "serial_collapse"}
CAUSES = {"span", "parallelism", "waste", "error_amplification", "independence"}
CAUSES |= {"spurious_parallelism"}  # what ran at once did not collapse, whatever its causes


def numbers(trace: Trace) -> dict[str, float]:
    """All numbers of the run, and what its events have of credit."""
    found = {**(trace.metrics or {}), **trace.rewards}
    for event in trace.events:
        for method, value in event.get("credit", {}).items():
            found[f"credit {method} {event.id}"] = value
    return found


def credit(names: set[str]) -> set[str]:
    return {name for name in names if name.startswith("credit ")}


def changed(trace: Trace, identity: str, *, t: float | None = None, **keys: object) -> Trace:
    events = [
        replace(event, keys={**event.keys, **keys}, t=event.t if t is None else t)
        if event.id == identity
        else event
        for event in trace.events
    ]
    return replace(trace, events=tuple(events))


def without(trace: Trace, *names: str) -> Trace:
    return replace(trace, events=tuple(e for e in trace.events if e.id not in names))


@pytest.fixture
def graded(fork3: Trace) -> Trace:
    """FORK3 with a known outcome."""
    return replace(fork3, rewards={"task": 1.0})


@pytest.mark.parametrize(
    ("spoil", "flags", "absent"),
    [
        (
            lambda t: replace(t, edges=(*t.edges, Edge("e2", "e2", "causal"))),
            ("cyclic",),
            CAUSES,
        ),
        (lambda t: changed(t, "e11", duration_s=-1), ("skewed",), TIMES | {"makespan"}),
        (lambda t: changed(t, "A.close", t=1), ("skewed",), TIMES | {"makespan"}),
        (
            lambda t: replace(t, events=(*t.events[:-1], t.events[2], t.events[-1])),
            ("duplicate_ids",),
            TIMES | CAUSES | {"r_finish"},
        ),
    ],
    ids=["cycle", "negative duration", "clock skew", "duplicate id"],
)
def test_what_would_be_wrong_is_absent_and_all_else_stays(
    graded: Trace, spoil: Callable[[Trace], Trace], flags: tuple[str, ...], absent: set[str]
) -> None:
    """The same bits for all that the fault does not touch; credit would be wrong each time."""
    whole, found = numbers(score(graded)), score(spoil(graded))
    assert found.flags == flags
    left = numbers(found)
    assert whole.keys() - left.keys() - credit(set(whole)) == absent
    assert credit(set(left)) == set()
    assert left == {name: whole[name] for name in left}


@pytest.mark.parametrize(
    ("spoil", "gone"),
    [
        (lambda t: replace(t, edges=(*t.edges, Edge("gone", "e11", "causal"))), set()),
        (lambda t: replace(t, edges=(*t.edges, Edge("e11", "gone", "causal"))), set()),
        (lambda t: without(t, "A.open"), {"A.open"}),
    ],
    ids=["cause", "effect", "event of two edges"],
)
def test_a_missing_parent_is_flagged(
    graded: Trace, spoil: Callable[[Trace], Trace], gone: set[str]
) -> None:
    """What is there is counted, and the flag says that it is not all; a second time as well."""
    whole, found = numbers(score(graded)), score(spoil(graded))
    assert found.flags == ("missing_causes",)
    assert score(found) == found
    left = numbers(found)
    assert {name.rpartition(" ")[2] for name in whole.keys() - left.keys()} == gone
    if not gone:
        assert left == whole


def test_of_two_aggregates_the_later_one_is_the_answer(graded: Trace) -> None:
    """It starts with the outcome, the earlier one leads to it, and nothing is counted twice."""
    merge = next(event for event in graded.events if event.id == "e11")
    again = replace(merge, id="again", t=9)
    trace = replace(
        graded,
        events=(*graded.events[:-1], again, replace(graded.events[-1], t=10)),
        edges=(*graded.edges, Edge("e11", "again", "causal"), Edge("again", "e12", "causal")),
        costs={"tokens": 1600, "wall_clock_s": 10},
    )
    found = score(trace)
    assert found.flags == ()
    values = numbers(found)
    assert (values["credit last_writer again"], values["credit last_writer e11"]) == (1.0, 0.0)
    assert (values["credit flow again"], values["credit flow e11"]) == (0.5, 0.25)
    flow = [value for name, value in values.items() if name.startswith("credit flow ")]
    assert math.fsum(flow) == pytest.approx(1.0, rel=1e-12)


def test_without_a_stop_all_but_its_records_is_there(graded: Trace) -> None:
    """The answer is then the latest merge: the same measures, and credit on the events."""
    whole, left = numbers(score(graded)), numbers(score(without(graded, "e12")))
    assert left == {name: value for name, value in whole.items() if not name.endswith(" e12")}


def test_flags_and_records_stand_on_the_stop_of_others(foreign_fork3: Trace) -> None:
    """It is written as the formula sheet has it, without a verb."""
    cyclic = replace(
        foreign_fork3, edges=(*foreign_fork3.edges, Edge("e8", "e5", "causal")), rewards={"team": 1}
    )
    scored = score(cyclic)
    assert scored.flags == ("cyclic", "skewed")
    assert "r_finish" in {record.component for record in scored.reward_records}
    assert score(scored) == scored


@pytest.mark.swallows_errors
@pytest.mark.parametrize(
    "function",
    [lambda trace: 1 / 0, lambda trace: math.nan, lambda trace: -math.inf],
    ids=["raises", "nan", "infinite"],
)
def test_a_reward_function_that_fails_loses_nothing_else(
    graded: Trace, function: Callable[[Trace], float]
) -> None:
    """Absent and flagged by its name; every other number is the same."""
    found = score(graded, [("mine", function), ("other", lambda trace: 0.25)])
    assert found.flags == ("reward_failed:mine",)
    assert numbers(found) == {**numbers(score(graded)), "other": 0.25}


@pytest.mark.parametrize("key", ["flags", "reward_records", "turn_records"])
@pytest.mark.parametrize("held", [5, "x", None, [5, None], {"a": 1}, [["a"]]])
def test_what_others_keep_where_our_records_stand_is_none_of_them(
    graded: Trace, key: str, held: object
) -> None:
    """A trace of others may hold anything on its stop: all numbers are there all the same."""
    expected = numbers(score(graded))
    found = score(changed(graded, "e12", **{key: held}))
    assert numbers(found) == expected
    assert (found.turns, found.flags) == ((), ())
    assert all(reward.is_sound for reward in found.reward_records)
    if key == "reward_records" and held is not None:
        assert found.events[-1][key] == held


def test_a_record_that_is_no_reward_is_kept_and_is_none(graded: Trace) -> None:
    """Of records that lack an id or a number nothing is read, and nothing is lost."""
    odd: list[dict[str, object]] = [
        {"component": "x", "value": 1},
        {"id": ["y"], "component": "y", "value": 1},
        {"id": "z", "component": "z", "value": 10**400},
    ]
    found = score(changed(graded, "e12", reward_records=odd))
    assert found.events[-1]["reward_records"][:3] == odd
    assert {reward.component for reward in found.reward_records}.isdisjoint("xyz")
    assert numbers(found) == numbers(score(graded))


@pytest.mark.parametrize("value", [10**400, -(10**400), math.inf, math.nan, 1e308, -1.7e308])
def test_an_outcome_whose_sums_no_double_holds_is_none(graded: Trace, value: float) -> None:
    """Nothing is divided of it, in groups neither; a run that has one can be written."""
    trace = replace(graded, rewards={"task": value})
    facts, groups = Facts(trace), Groups()
    assert (assign(facts), why_absent(facts), credit_to_go(facts)) == (None, "no_outcome", None)
    groups.observe(trace)
    assert groups.advantages(trace) == {}
    of_function = score(replace(graded, rewards={}), [("task", lambda _: value)])
    assert of_function.to_json()
    assert not any("credit" in event.keys for event in of_function.events)


def test_what_follows_a_cycle_is_measured_by_what_holds_it_at_once(graded: Trace) -> None:
    """Work needs no order: after a cycle a tool still rests while another goes on in it."""
    call = {"type": "tool_call", "agent": "O", "activation": "O"}
    done = {**call, "type": "tool_result"}
    rows = [("T.open", 9, call), ("U.open", 10, call), ("U.close", 12, done), ("T.close", 13, done)]
    rows += [("V.open", 10, call), ("V.close", 11, done)]
    events = [Event.from_dict({"id": name, "t": t, **keys}) for name, t, keys in rows]
    chain = ("e11", "T.open", "U.open", "V.open", "V.close", "U.close", "T.close")
    trace = replace(
        graded,
        events=(*graded.events[:-1], *events, replace(graded.events[-1], t=13)),
        edges=(*graded.edges, *(Edge(*pair, "causal") for pair in pairwise(chain))),
    )
    ring = replace(trace, edges=(*trace.edges, Edge("e11", "e11", "causal")))
    metrics, _ = measure(trace)
    assert metrics["work"] == 19
    assert measure(ring)[0]["work"] == 19


def test_nothing_at_all_is_still_a_trace(graded: Trace) -> None:
    """No events, or one alone: no error, and what is written conforms."""
    for events in ((), graded.events[:1], graded.events[-1:]):
        found = score(replace(graded, events=events, edges=()))
        assert not [flag for flag in found.flags if flag.startswith("reward_failed")]
        if events:
            assert list(schema.check(found.to_dict())) == []
