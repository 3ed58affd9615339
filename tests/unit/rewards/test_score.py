"""Scoring: where measures and rewards land, and that a broken reward function costs only itself."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from orchtrace_otel import _guard
from orchtrace_otel.model import Event, Reward, Trace
from orchtrace_otel.rewards import MEASURES, reward, score

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = {
    "trace_id": "demo-trace-001",
    "task_id": "demo-task-browser-research",
    "events": [
        {"id": "e1", "t": 0, "type": "orchestrator_decision", "agent": "orchestrator"},
        {"id": "e2", "t": 1, "type": "spawn", "agent": "orchestrator", "to": "planner_1"},
        {"id": "e8", "t": 7, "type": "aggregate", "agent": "orchestrator"},
    ],
    "edges": [
        {"src": "e1", "dst": "e2", "type": "spawn"},
        {"src": "e2", "dst": "e8", "type": "aggregate"},
    ],
    "rewards": {"team": 1.0},
    "costs": {"tokens": 12000, "wall_clock_s": 420},
    "metrics": {"task_success": 1, "protocol_overhead": 0.18},
}
"""A trace in the manner of the published example: no verbs, no durations, no tokens."""


@pytest.fixture
def swallowed() -> Iterator[None]:
    """Forget what the guard swallows, for tests in which reward functions fail."""
    before = _guard.swallowed.copy()
    yield
    _guard.swallowed.clear()
    _guard.swallowed.update(before)


def given(scored: Trace) -> dict[str, float]:
    """The rewards that users gave: all but the built-in ones."""
    ours = {record.component for record in scored.reward_records if ":=" in record.id}
    return {name: value for name, value in scored.rewards.items() if name not in ours}


def given_records(scored: Trace) -> list[dict[str, object]]:
    """The records of users: all but the built-in ones."""
    assert scored.stop is not None
    return [record for record in scored.stop["reward_records"] if ":=" not in record["id"]]


def texts(trace: Trace) -> list[str]:
    return ["the canary"]


@reward(range=(0, 1))
def beyond(trace: Trace) -> float:
    return 1.5


def raising(trace: Trace) -> float:
    msg = "broken"
    raise RuntimeError(msg)


def half_way(trace: Trace) -> Iterator[Reward]:
    yield Reward(id="first", component="first", value=1.0)
    msg = "broken"
    raise RuntimeError(msg)


def test_measures_land_in_metrics_beside_what_is_there(fork3):
    """Every measure is a metric, the builder's own numbers stay, and nothing else changes."""
    scored = score(replace(fork3, metrics={"turns_without_usage": 0}))
    assert set(scored.metrics) >= {*MEASURES, "turns_without_usage"}
    assert given(scored) == fork3.rewards
    assert [replace(event, keys={}) for event in scored.events] == [
        replace(event, keys={}) for event in fork3.events
    ]
    assert scored.edges == fork3.edges


def test_rewards_land_in_rewards_and_records(fork3):
    """Each form of result becomes records; rewards of the team are numbers of the trace too."""
    one = Reward(id="r1", component="tone", value=1, family="R6", unit="agent", target="A")
    scored = score(
        fork3,
        [
            ("calm", lambda trace: True),
            ("parts", lambda trace: {"tests": 0.5, "style": None}),
            ("judge", lambda trace: one),
            (
                "many",
                lambda trace: iter([replace(one, id="r2", unit="team", target=None, value=0.25)]),
            ),
            ("silent", lambda trace: None),
            ("measured", lambda trace: trace.metrics["work"]),
        ],
    )
    assert given(scored) == {
        "outcome": 1.0,
        "calm": 1.0,
        "tests": 0.5,
        "tone": 0.25,
        "measured": 15.0,
    }
    records = {
        (r["id"], r["component"], r["value"], r.get("target")) for r in given_records(scored)
    }
    assert records == {
        ("fork3:calm:calm", "calm", 1.0, None),
        ("fork3:parts:tests", "tests", 0.5, None),
        ("r1", "tone", 1.0, "A"),
        ("r2", "tone", 0.25, None),
        ("fork3:measured:measured", "measured", 15.0, None),
    }
    assert scored.flags == ()
    assert Trace.from_json(scored.to_json()) == scored


@pytest.mark.usefixtures("swallowed")
@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (raising, {}),
        (half_way, {}),
        (lambda trace: float("nan"), {}),
        (lambda trace: float("inf"), {}),
        (lambda trace: {"good": 1.0, "bad": float("nan")}, {"good": 1.0}),
        (lambda trace: "1.0", {}),
        (lambda trace: object(), {}),
        (lambda trace: 10**400, {}),
        (lambda trace: Reward(id="r", component="text", value="much"), {}),
    ],
    ids=["raises", "raises midway", "nan", "inf", "one nan", "text", "object", "huge", "no number"],
)
def test_a_broken_reward_is_absent_and_flagged(fork3, function, kept):
    """A reward function that fails loses its own reward, says so, and nothing else is lost."""
    scored = score(fork3, [("before", lambda trace: 1), ("odd", function), ("after", lambda t: 2)])
    assert given(scored) == {"outcome": 1.0, "before": 1.0, "after": 2.0} | kept
    assert scored.flags == ("reward_failed:odd",)
    assert scored.metrics == score(fork3).metrics


@pytest.mark.usefixtures("swallowed")
@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            raising,
            f"a reward function failed in {__name__}.raising with RuntimeError and costs its "
            "reward, with the flag reward_failed:odd; further failures there are only counted; "
            "the traceback is logged at DEBUG",
        ),
        (
            texts,
            "reward function 'odd' must return a number, a Reward, several of them or a mapping "
            f"of numbers, got str inside list; return one of those, from {__name__}.texts; "
            "it is left out, with the flag reward_failed:odd",
        ),
        (
            beyond,
            f"a reward function, {__name__}.beyond, gave a reward whose value must be from 0 to "
            "1, as it declares; it is left out, with the flag reward_failed:odd",
        ),
    ],
)
def test_a_broken_reward_is_told_by_its_function(fork3, function, told, monkeypatch, caplog):
    """By the class of what it raised or by what it gave, whose texts may not leave."""
    monkeypatch.setattr(_guard, "_told", set())
    _guard.swallowed.clear()
    for _ in range(2):
        score(fork3, [("odd", function)])
    assert caplog.messages == [told]


@pytest.mark.usefixtures("swallowed")
def test_an_interrupt_is_never_swallowed(fork3):
    """Only `Exception` is a failure of the function; a cancellation passes."""

    def interrupted(trace: Trace) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(fork3, [("odd", interrupted)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"se": math.nan},
        {"se": math.inf},
        {"se": "0.1"},
        {"n": math.nan},
        {"n": 2.5},
        {"family": "R9"},
        {"unit": "planet"},
        {"estimator": "hope"},
        {"estimator": []},
        {"id": None},
        {"component": 7},
        {"target": b"lead"},
        {"target": 0},
        {"version": 2},
        {"provisional": "no"},
    ],
    ids=str,
)
def test_a_reward_with_an_unsound_field_is_left_out_and_flagged(fork3, wrong):
    """Whatever a function puts into a field, the trace can be written, and says who failed."""
    sound = Reward(id="r1", component="good", value=1.0, se=0.5, n=4)
    odd = replace(sound, **wrong)
    scored = score(fork3, [("odd", lambda trace: odd), ("good", lambda trace: sound)])
    assert scored.flags == ("reward_failed:odd",)
    assert given_records(scored) == [sound.to_dict()]
    assert Trace.from_json(scored.to_json()) == scored


def test_flags_are_sorted_and_unique_beside_older_ones(fork3):
    """What the builder flagged stays; ours are added once, in order."""
    stop = fork3.events[-1]
    flagged = replace(stop, keys={**stop.keys, "flags": ["truncated", "late"]})
    trace = replace(
        fork3,
        events=(*fork3.events[:-1], flagged),
        metrics={"turns_without_usage": 2},
    )
    scored = score(trace)
    assert scored.flags == ("late", "tokens_unknown", "truncated")
    assert score(scored) == scored


def test_records_of_users_stay_and_an_id_counts_once(fork3):
    """A function's reward with the id of a record replaces it; the others stay as they were."""
    stop = fork3.events[-1]
    held = [{"id": "u1", "component": "kept", "value": 1.0, "ours": "no"}, {"id": "r1"}]
    trace = replace(
        fork3,
        events=(*fork3.events[:-1], replace(stop, keys={**stop.keys, "reward_records": held})),
    )
    mine = Reward(id="r1", component="mine", value=3.0)
    scored = score(trace, [("mine", lambda trace: mine)])
    assert given_records(scored) == [held[0], mine.to_dict()]


def test_a_trace_of_others_gets_what_can_be_known():
    """Without durations and tokens there is the makespan; what others measured stays theirs."""
    trace = Trace.from_json(json.dumps(EXAMPLE))
    scored = score(trace, [("good", lambda trace: 1)])
    assert scored.metrics == {
        "task_success": 1,
        "protocol_overhead": 0.18,
        "makespan": 7.0,
        "error_amplification": 0.0,
    }
    assert scored.rewards == {
        "team": 1.0,
        "good": 1.0,
        "r_finish": 0.0,
        "spurious_parallelism": -1.0,
    }
    assert scored.flags == ()


def test_a_number_that_has_a_name_of_credit_stays_as_it_is(fork3):
    """A trace that is dropped is scored to what another is: our own records are not yet there."""
    given = replace(fork3, rewards={"task": 1.0, "credit_flow": 5.0})
    scored = score(given)
    assert scored.rewards["credit_flow"] == 5.0
    assert score(Trace.from_dict(given.to_dict()), fresh=True) == scored


def test_an_empty_trace_is_scored():
    """Nothing is no error."""
    assert score(Trace("run", "task", ())).events == ()


def test_the_given_trace_is_left_as_it_was(fork3):
    """Scoring makes a new trace; the given one, with its mappings, is untouched."""
    before = fork3.to_json()
    score(fork3, [("calm", lambda trace: 1)])
    assert fork3.to_json() == before
    assert isinstance(fork3.events[0], Event)


def test_what_a_function_writes_on_a_trace_stays_with_it(fork3):
    """Functions must not, and where one does it costs nobody else: the trace is what it was."""

    def scribbles(trace):
        for event in trace.events:
            event.keys["tokens"] = object()
        trace.costs.clear()
        trace.rewards["mine"] = 1.0
        trace.metrics["work"] = 0.0
        return 0.5

    alone = score(fork3, [("half", lambda trace: 0.5)])
    found = score(fork3, [("half", scribbles)])
    assert found == alone
