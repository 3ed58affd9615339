"""Where content is captured it stands in for the result, unless it was redacted."""

from collections.abc import Sequence
from typing import Any

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat

import orchtrace_otel as orchtrace
from orchtrace_autogen import Recorded
from orchtrace_otel import content
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.replay import Slot, record
from tests.adapters.autogen.replay.teams import (
    AGENTS,
    has_both,
    priced,
    ran,
    round_robin,
    selector,
    swarm,
)


@pytest.fixture
def store(tmp_path) -> Any:
    """Content goes to a store meanwhile."""
    capture = content.Capture(mode="EVENT_ONLY", store=str(tmp_path / "content"))
    recorder = set_up(capture, None)
    yield tmp_path / "content"
    content.use(None)
    recorder.shutdown(5.0)


@pytest.mark.parametrize("make", [round_robin, selector, swarm])
def test_captured_content_is_enough(traced, cast, store, make) -> None:
    """With content on, the factory alone is handed over; or the store is named."""
    build = make(cast)
    build.__annotations__["return"] = type(build())
    trace, _ = ran(traced, build)
    content.active().flush(5.0)
    for target in (build, Recorded(team=build, store=store)):
        found = orchtrace.counterfactual(trace, target, AGENTS, score=has_both, replays=2)
        assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]
        assert found.lost == {}


def test_captured_calls_of_tools_are_remembered(traced, cast, store) -> None:
    """An assistant whose turn is as it was has its calls in its context, off the store."""
    asked: list[str] = []
    seen: list[list[str]] = []

    build_priced = priced(cast, asked)

    def build() -> RoundRobinGroupChat:
        team = build_priced()
        team._max_turns = 5
        team._termination_condition = None
        shopper = team._participants[1]
        answers = shopper._model_client._answers

        def noted(messages: Sequence[Any]) -> Any:
            seen.append([type(one).__name__ for one in messages])
            return answers(messages)

        shopper._model_client._answers = noted
        return team

    with record() as recording:
        trace, _ = ran(traced, build)
    content.active().flush(5.0)
    wanted = seen[-2:]
    seen.clear()
    again = Slot("guest", "broadcast", 2)
    found = orchtrace.counterfactual(
        trace,
        Recorded(team=build, store=store),
        method="edits",
        alternatives={again: ["pie"]},
        score=lambda _: 1.0,
        replays=2,
        workers=1,
        recording=recording,
    )
    assert found.lost == {}
    assert seen == wanted * 2


def test_redacted_content_is_not_taken_for_what_was_said(traced, cast, tmp_path) -> None:
    """A team that would read something else than it did is not rebuilt."""
    capture = content.Capture(
        mode="EVENT_ONLY", store=str(tmp_path / "content"), redact_patterns=("red",)
    )
    recorder = set_up(capture, None)
    try:
        build = round_robin(cast)
        trace, _ = ran(traced, build)
        with pytest.raises(ConfigError, match="redacted"):
            orchtrace.counterfactual(trace, Recorded(team=build), AGENTS, score=has_both)
    finally:
        content.use(None)
        recorder.shutdown(5.0)
