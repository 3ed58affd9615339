"""An aggregate follows from what it merges, and covers its block."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from tests.trees import edges, recording, tree
from tests.unit.verbs.crew import critic, look_up, writer

MERGES: dict[str, Callable[[str, str], Any]] = {
    "the results": lambda one, two: [one, two],
    "a tuple of them": lambda one, two: (one, two),
    "names": lambda one, two: ["critic", "writer"],
    "nothing said": lambda one, two: None,
}


@pytest.mark.parametrize("sources", MERGES.values(), ids=MERGES)
def test_an_aggregate_follows_from_what_it_merges(sources: Callable[[str, str], Any]) -> None:
    """By result, by name, or all that came back; what is called inside follows from it."""

    @orchtrace.team
    def team() -> str:
        one, two = critic("a"), writer("b")
        with orchtrace.aggregate(sources(one, two)):
            look_up()
            return one + two

    with recording() as captured:
        assert team() == "a?b!"
    assert tree(captured.trace) == (
        "team#1 begin\n"
        "  critic#1 spawn < spawn team#1.open\n"
        "  critic#1.close\n"
        "  writer#1 spawn < return critic#1.close, spawn team#1.open\n"
        "  writer#1.close\n"
        "  aggregate < aggregate critic#1.close, aggregate writer#1.close\n"
        "  look_up.open < causal aggregate\n"
        "  look_up.close\n"
        "  stop information_complete < causal aggregate, tool_dependency look_up.close"
    )


def test_an_aggregate_of_some_leaves_the_others() -> None:
    """What is not merged still came back; a result is merged once."""

    @orchtrace.team
    def team() -> None:
        one, _ = critic("a"), writer("b")
        with orchtrace.aggregate([one]):
            pass
        with orchtrace.aggregate():
            pass

    with recording() as captured:
        team()
    assert edges(captured.trace) == {
        "team#1.open -spawn-> critic#1.open",
        "team#1.open -spawn-> writer#1.open",
        "critic#1.close -return-> writer#1.open",
        "critic#1.close -aggregate-> aggregate",
        "writer#1.close -return-> aggregate",
        "writer#1.close -aggregate-> aggregate:2",
        "aggregate -causal-> aggregate:2",
        "aggregate:2 -causal-> stop",
    }


def test_an_aggregate_of_nothing_known_is_recorded_and_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It gets no edge from what it cannot place, and the warning names no content."""

    @orchtrace.team
    def team() -> None:
        with orchtrace.aggregate([{"a": "the canary"}]):
            pass

    with recording() as captured:
        team()
    assert edges(captured.trace) == {"team#1.open -causal-> aggregate", "aggregate -causal-> stop"}
    assert "got a dict that is neither" in caplog.text
    assert "canary" not in caplog.text


def test_an_error_in_an_aggregate_is_the_hosts_and_the_aggregates() -> None:
    """It passes through as the same object."""
    error = ValueError("the canary")

    @orchtrace.team
    def team() -> None:
        with orchtrace.aggregate():
            raise error

    with recording() as captured:
        with pytest.raises(ValueError, match="canary") as caught:
            team()
        assert caught.value is error
    assert "  aggregate ValueError [error] < causal team#1.open\n" in tree(captured.trace)


def test_an_aggregate_in_a_coroutine_covers_what_it_awaits() -> None:
    """Its length is that of the block."""

    @orchtrace.team
    async def team() -> None:
        with orchtrace.aggregate():
            await asyncio.sleep(0)
            critic()

    with recording() as captured:
        asyncio.run(team())
    aggregated = captured.trace.events[1]
    assert aggregated.verb == "aggregate"
    assert aggregated["duration_s"] > 0
