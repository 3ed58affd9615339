"""A team's reward function gets the result; where it fails it costs its reward alone."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from tests.given import given_rewards
from tests.trees import recording


def test_a_teams_reward_function_gets_the_result() -> None:
    """A number is the task's reward; a mapping gives several by component."""
    with recording() as captured:
        assert orchtrace.team("one", reward=len)(lambda: "four")() == "four"
        both = orchtrace.team("two", reward=lambda result: {"exact": 1, "short": 0.5})
        assert asyncio.run(both(_give)(3)) == 3
    assert [given_rewards(trace) for trace in captured.traces] == [
        {"task": 4.0},
        {"exact": 1.0, "short": 0.5},
    ]


async def _give(value: object) -> object:
    return value


@pytest.mark.parametrize(
    "reward",
    [
        pytest.param(lambda result: 1 / 0, id="raises"),
        pytest.param(lambda result: float("nan"), id="nan"),
        pytest.param(lambda result: None, id="none"),
        pytest.param(lambda result: "much", id="text"),
    ],
)
def test_a_reward_function_that_fails_costs_the_reward_not_the_run(
    reward: Callable[[object], Any],
) -> None:
    """The result comes back, the run is ok, and a flag says that the reward is missing."""
    with recording() as captured:
        assert orchtrace.team("t", reward=reward)(lambda: "done")() == "done"
    assert given_rewards(captured.trace) == {}
    assert captured.trace.flags == ("reward_failed:task",)
    assert captured.trace.events[-1]["status"] == "ok"


class Judge:
    """A reward function that is an object."""

    def __call__(self, result: object) -> float:
        msg = "the canary"
        raise LookupError(msg)


_JUDGE = f"{__name__}.Judge"
_LAMBDA = rf"{re.escape(__name__)}\.<lambda>:\d+"
_OUT = "it is left out, with the flag reward_failed:"


@pytest.mark.parametrize(
    ("reward", "told", "flag"),
    [
        pytest.param(
            Judge(),
            f"a reward function failed in {_JUDGE} with LookupError and costs its reward, with the "
            "flag reward_failed:task; further failures there are only counted; the traceback is "
            "logged at DEBUG",
            "task",
            id="raises",
        ),
        pytest.param(
            lambda result: {"style": "the canary"},
            rf"reward 'style' must be a number that a float can hold, got str, from {_LAMBDA}; "
            f"{_OUT}task",
            "task",
            id="text",
        ),
        pytest.param(
            lambda result: {"style": float("nan")},
            rf"a reward function, {_LAMBDA}, gave a reward whose value must be a finite number; "
            f"{_OUT}style",
            "style",
            id="nan",
        ),
        pytest.param(
            lambda result: {"": 1.0},
            rf"a reward function, {_LAMBDA}, gave a reward whose component must be a text of UTF-8 "
            f"with something in it; {_OUT}task",
            "task",
            id="no component",
        ),
    ],
)
def test_a_reward_function_that_fails_is_named(
    reward: Callable[[object], Any], told: str, flag: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who reads the log knows which of their functions it was, and what was wrong with it."""
    with recording() as captured:
        orchtrace.team("t", reward=reward)(lambda: "done")()
    said, lost = caplog.messages
    assert re.fullmatch(told, said)
    assert lost == (
        f"orchtrace lost data (rewards_failed, reward_failed:{flag}); further losses of this kind "
        "are counted, and told at shutdown"
    )
    assert captured.trace.flags == (f"reward_failed:{flag}",)
    assert given_rewards(captured.trace) == {}


def test_an_interrupt_in_a_reward_function_is_the_hosts_and_ends_the_run() -> None:
    """The trace is whole, and nothing stays open."""

    def judge(_: object) -> float:
        raise KeyboardInterrupt

    @orchtrace.team(reward=judge)
    def team() -> str:
        return "done"

    with recording() as captured, pytest.raises(KeyboardInterrupt):
        team()
    assert captured.trace.stop["stop_reason"] == "information_complete"
    assert captured.started == captured.ended


def test_a_run_that_failed_gets_no_reward_from_its_function() -> None:
    """There is no result to rate."""

    @orchtrace.team(reward=lambda result: 1.0)
    def team() -> None:
        raise ValueError

    with recording() as captured, pytest.raises(ValueError):  # noqa: PT011 - of the test itself
        team()
    assert given_rewards(captured.trace) == {}
