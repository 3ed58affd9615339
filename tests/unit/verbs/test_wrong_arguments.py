"""Whatever a verb is given, the host goes on, and the trace is whole."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from tests.given import given_records
from tests.trees import recording
from tests.unit.verbs.crew import HALF, writer


class Hostile:
    """An object that fails at whatever is asked of it."""

    def __str__(self) -> str:
        raise RuntimeError("the canary")

    __repr__ = __str__
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("the canary")

    def __iter__(self) -> None:
        raise RuntimeError("the canary")


WRONG: dict[str, Callable[[Any], object]] = {
    "spawn": orchtrace.spawn,
    "delegate": lambda wrong: orchtrace.delegate(wrong, task=wrong),
    "message": lambda wrong: orchtrace.message(wrong, wrong),
    "message content": lambda wrong: orchtrace.message("critic", wrong),
    "decide": lambda wrong: orchtrace.decide(
        wrong, chosen=wrong, candidates=wrong, probability=wrong
    ),
    "stop": lambda wrong: orchtrace.stop(wrong, wrong),
    "aggregate": lambda wrong: orchtrace.aggregate(sources=wrong).__enter__(),
    "aggregate of": lambda wrong: orchtrace.aggregate([wrong]).__enter__(),
    "reward": lambda wrong: orchtrace.record_reward(wrong, value=wrong),
    "reward run": lambda wrong: orchtrace.record_reward("a", 1, run_id=wrong),
    **{
        f"reward {field}": lambda wrong, field=field: orchtrace.record_reward(  # type: ignore[misc]
            "a", 1, **{field: wrong}
        )
        for field in (
            "event_id",
            "family",
            "unit",
            "target",
            "estimator",
            "provisional",
            "n",
            "se",
            "version",
        )
    },
    "chosen": lambda wrong: orchtrace.decide("a", chosen=[wrong], candidates=[wrong]),
    "detail": lambda wrong: orchtrace.stop("quality_met", wrong),
}


@pytest.mark.swallows_errors
@pytest.mark.parametrize(
    "wrong",
    [None, 1 << 70, 1.5, True, b"bytes", HALF, ["a"], {}, object(), Hostile()],
    ids=type,
)
@pytest.mark.parametrize("verb", WRONG.values(), ids=WRONG)
def test_wrong_arguments_never_raise_and_cost_no_trace(
    verb: Callable[[Any], object], wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The host goes on, the trace is whole and valid, and no log tells what it came from."""
    caplog.set_level(logging.WARNING)

    @orchtrace.team
    def team() -> str:
        before = otel_context.get_current()
        verb(wrong)
        token = otel_context.attach(before)
        otel_context.detach(token)
        return writer("on")

    with recording_loosely() as captured:
        assert team() == "on!"
    assert captured.trace.events[-1].verb == "stop"
    assert "writer" in [event.get("to") for event in captured.trace.events]
    assert "canary" not in caplog.text
    assert {"garbled", "rewards_unreadable"}.isdisjoint(captured.trace.flags)
    assert captured.spans[-1].name == "invoke_workflow team"
    assert encode_spans(captured.spans).ByteSize()
    assert "Failed to encode" not in caplog.text


def recording_loosely() -> Any:
    """Record without the check of open spans: a test here enters a block and never leaves it."""
    from orchtrace_otel.testing import capture

    return capture(deterministic=True)


def test_a_name_that_is_none_is_logged_not_recorded(caplog: pytest.LogCaptureFixture) -> None:
    """Of an agent or a reward: a trace names them, so that nothing may stand for them."""

    @orchtrace.team
    def team() -> None:
        orchtrace.spawn(None)  # type: ignore[arg-type]
        orchtrace.delegate("")
        orchtrace.message(3)  # type: ignore[arg-type]
        orchtrace.record_reward("", 1)

    with recording() as captured:
        team()
    assert [event.verb for event in captured.trace.events] == ["begin", "stop"]
    assert (captured.trace.flags, given_records(captured.trace)) == ((), [])
    must = "that is a text with something in it, got"
    for told in (
        f"spawn() needs an agent {must} None; the spawn is lost",
        f"delegate() needs an agent {must} ''; the delegate is lost",
        f"message() needs a recipient {must} 3; the message is lost",
        f"record_reward() needs a component {must} ''; the reward is lost",
    ):
        assert told in caplog.text
