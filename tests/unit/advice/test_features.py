"""What a run did and what the host observes becomes features of its points."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import spans
from tests.trees import recording
from tests.unit.advice.teams import broken, points, poll, run, writer


def test_what_the_host_observes_becomes_features() -> None:
    """Answers and results are hashed; no word of them is in the trace."""
    advisor = orchtrace.advise()

    @orchtrace.team
    def observed() -> None:
        advisor.observe(answer="canary one", verdict=0.25, plan=(1, 4), votes="aab")
        writer()
        advisor.observe(answer="canary one", verdict=0.75, is_done=True, heat=2.5)
        writer()
        advisor.observe(result="canary two canary three", answer="canary four canary five")
        writer()

    with advisor:
        trace = run(observed)
    assert "canary" not in trace.to_json()
    names = (
        "answer_unchanged",
        "verdict",
        "verdict_change",
        "plan_share",
        "agreement",
        "novelty",
        "self_report",
        "progress",
    )
    seen = [[event["features"][name] for name in names] for event in points(trace)[:3]]
    share = pytest.approx(2 / 3)
    assert seen == [
        [0, 0.25, 0, 0.25, share, 1, 0, 1],
        [1, 0.75, 0.5, 0.25, share, 1, 1, 1],
        [0, 0.75, 0.5, 0.25, share, 1, 1, 1],
    ]
    assert [event["features"].get("heat") for event in points(trace)] == [None, 2.5, 2.5, 2.5]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"verdict": math.nan}, "observe() needs verdict to be a number from 0 to 1, got nan"),
        ({"verdict": 7}, "observe() needs verdict to be a number from 0 to 1, got 7"),
        ({"plan": (3, 2)}, "needs plan to be (done, items), 0 <= done <= items, got (3, 2)"),
        ({"plan": (math.nan, 2)}, "needs plan to be (done, items)"),
        ({"heat": math.inf}, "observe() needs finite numbers, got heat=inf"),
    ],
)
def test_what_means_nothing_is_left_out_and_said_once(
    said: dict[str, Any], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A number that is none would spoil every later point of the run, and the log for learning."""
    advisor = orchtrace.advise()

    @orchtrace.team
    def observed() -> None:
        for _ in range(2):
            advisor.observe(**said, is_done="yes")
            writer()

    with advisor:
        trace = run(observed)
    assert trace.flags == ()
    names = ("verdict", "has_verdict", "plan_items", "plan_share", "self_report")
    assert [[event["features"][name] for name in names] for event in points(trace)] == [
        [0, 0, 0, 0, 1]
    ] * 3
    (record,) = caplog.records
    assert message in record.getMessage()


def test_verdicts_come_from_rewards_of_judges_too() -> None:
    """Of family R6, or of a judge; others are no verdicts."""

    @orchtrace.team
    def judged() -> None:
        orchtrace.record_reward("speed", 0.1)
        orchtrace.record_reward("quality", 0.5, estimator="judge")
        writer()
        orchtrace.record_reward("debate", 0.75, family="R6")
        writer()

    with orchtrace.advise():
        found = [event["features"] for event in points(run(judged))]
    assert [(one["has_verdict"], one["verdict"], one["verdict_change"]) for one in found[:2]] == [
        (1, 0.5, 0.0),
        (1, 0.75, 0.25),
    ]


def test_failures_open_agents_and_depth_are_counted() -> None:
    """An agent that failed, one inside another, and what is open meanwhile."""

    @orchtrace.agent
    def outer() -> None:
        writer()

    @orchtrace.team
    def nested() -> None:
        for _ in range(2):
            with pytest.raises(LookupError):
                broken()
        outer()

    with orchtrace.advise():
        found = [event["features"] for event in points(run(nested))]
    names = ("last_ok", "failures_in_a_row", "open_agents", "depth", "agents")
    assert [[one[name] for name in names] for one in found[:4]] == [
        [0, 1, 0, 1, 1],
        [0, 2, 0, 1, 1],
        [1, 0, 1, 2, 3],
        [1, 0, 0, 1, 3],
    ]


def test_parallelism_is_that_of_the_finished_trace() -> None:
    """Work over the longest chain, as the measures say once the run is over."""

    @orchtrace.agent
    async def slow() -> None:
        await asyncio.sleep(0)
        poll()

    @orchtrace.team
    async def wide() -> None:
        await asyncio.gather(*(slow() for _ in range(4)))

    with orchtrace.advise(), recording() as captured:
        asyncio.run(wide())
    last = points(captured.trace)[-2]["features"]["parallelism"]
    metrics = captured.trace.metrics or {}
    assert last > 1
    assert last == pytest.approx(metrics["parallelism"], rel=0.35)


def test_features_that_an_adapter_wrote_stay_beside_ours() -> None:
    """Such as those of AutoGen's ledger."""

    @orchtrace.team
    def ledger() -> None:
        root = spans.current()
        assert root is not None
        spans.instant(
            root, "decide", attributes={"orchtrace.decision.features": ["is_in_loop=1", "step=9"]}
        )

    with orchtrace.advise():
        seen = points(run(ledger))[0]["features"]
    assert (seen["is_in_loop"], seen["step"]) == (1, 1)
