"""Verbs say something inside a run, and nothing outside of it; who is inside knows which one."""

import asyncio
from collections.abc import Callable

import pytest
from opentelemetry.instrumentation.utils import suppress_instrumentation

import orchtrace_otel as orchtrace
from orchtrace_otel import spans
from tests.given import given_rewards
from tests.trees import recording

EVERY_VERB: dict[str, Callable[[], object]] = {
    "spawn": lambda: orchtrace.spawn("a"),
    "delegate": lambda: orchtrace.delegate("a", task="x"),
    "message": lambda: orchtrace.message("a", "x"),
    "decide": lambda: orchtrace.decide("a", chosen="b"),
    "stop": lambda: orchtrace.stop("quality_met"),
    "current_run": orchtrace.current_run,
}


@pytest.mark.parametrize("verb", EVERY_VERB.values(), ids=EVERY_VERB)
def test_outside_a_run_verbs_do_nothing(
    verb: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    """No span, no warning, no value; with a listener and without."""
    assert verb() is None
    with orchtrace.aggregate([1]):
        pass
    with recording() as captured:
        assert verb() is None
        with orchtrace.aggregate([1]):
            pass
    assert captured.started == 0
    assert caplog.records == []


def test_verbs_after_the_run_has_stopped_do_nothing() -> None:
    """A task that outlives its run cannot add to it by verbs."""

    @orchtrace.team
    async def team() -> "asyncio.Task[None]":
        async def late() -> None:
            await asyncio.sleep(0)
            orchtrace.decide("late", chosen="x")
            orchtrace.spawn("late")
            orchtrace.message("late")
            with orchtrace.aggregate():
                pass

        return asyncio.create_task(late())

    async def main() -> None:
        await (await team())

    with recording() as captured:
        asyncio.run(main())
    assert [event.verb for event in captured.trace.events] == ["begin", "stop"]


def test_where_instrumentation_is_suppressed_verbs_do_nothing() -> None:
    """Not a span, an edge, a reward or a reason to stop; what is announced there is forgotten."""

    @orchtrace.agent("scout")
    def scout() -> str:
        return "found"

    @orchtrace.team("team")
    def team() -> str:
        with suppress_instrumentation():
            orchtrace.spawn("scout")
            orchtrace.delegate("scout", task="look")
            orchtrace.message("scout", "hurry")
            orchtrace.decide("route", chosen="scout")
            orchtrace.stop("no_progress")
            orchtrace.record_reward("quality", 1.0)
            with orchtrace.aggregate():
                found = scout()
        return found + scout()

    with recording() as captured:
        assert team() == "foundfound"
    trace = captured.trace
    verbs = [event.verb for event in trace.events]
    assert verbs == ["begin", "spawn", "return", "stop"]
    assert trace.stop is not None
    assert trace.stop["stop_reason"] == "information_complete"
    assert given_rewards(trace) == {}


def test_the_current_run_is_known_inside_and_only_there() -> None:
    """Its id is that of the trace, and its trace id that of the spans."""
    seen: list[spans.Run | None] = []

    @orchtrace.tool
    def look() -> None:
        seen.append(orchtrace.current_run())

    @orchtrace.team
    def team() -> None:
        seen.append(orchtrace.current_run())
        look()

    with recording() as captured:
        team()
    assert orchtrace.current_run() is None
    assert [run.id for run in seen if run is not None] == [captured.trace.trace_id] * 2
    assert seen[0] is seen[1]
    assert seen[0] is not None
    context = captured.spans[-1].get_span_context()
    assert context is not None
    assert int(seen[0].trace_id, 16) == context.trace_id
