"""Bad input, one thing at a time: flagged, absent instead of wrong, and nothing else lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from orchtrace_otel import schema
from orchtrace_otel.model import Edge, Trace
from orchtrace_otel.rewards import score

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


def test_nothing_at_all_is_still_a_trace(graded: Trace) -> None:
    """No events, or one alone: no error, and what is written conforms."""
    for events in ((), graded.events[:1], graded.events[-1:]):
        found = score(replace(graded, events=events, edges=()))
        assert not [flag for flag in found.flags if flag.startswith("reward_failed")]
        if events:
            assert list(schema.check(found.to_dict())) == []
