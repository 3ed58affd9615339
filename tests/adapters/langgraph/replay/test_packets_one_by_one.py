"""What a `Send` hands out is taken out packet by packet, or as many as there is capacity for."""

from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.replay import Part, Slot
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import Calls, fan_out, has_both, ran


def test_what_is_sent_out_is_taken_out_packet_by_packet(traced: Captured, calls: Calls) -> None:
    """Without its packet a researcher is not called, and the others' work is as it was."""
    trace, target = ran(traced, fan_out(calls))
    calls.taken()
    packets = [Slot("plan", "scout", n) for n in (1, 2, 3)]
    found = orchtrace.counterfactual(trace, target, packets, score=has_both, replays=2)
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]
    # With the packet in, its researcher works anew; the other two never do.
    assert calls.taken() == {"scout": 3, "writer": 6}


@pytest.mark.usefixtures("hasty")
def test_a_packet_is_known_by_its_place_and_not_by_who_begins_first(
    traced: Captured, calls: Calls
) -> None:
    """Researchers of one step begin in threads, in no order: each packet keeps its effect."""
    trace, target = ran(traced, fan_out(calls))
    packets = [Slot("plan", "scout", n) for n in (1, 2, 3)]
    found = orchtrace.counterfactual(trace, target, packets, score=has_both, replays=10)
    assert [effect.value for effect in found.effects] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(("capacity", "value"), [(1, -1.0), (2, 0.0), (3, 0.0)])
def test_capacity_says_how_many_work_at_once(
    traced: Captured, calls: Calls, capacity: int, value: float
) -> None:
    """The first so many packets are worked on."""
    trace, target = ran(traced, fan_out(calls))
    found = orchtrace.counterfactual(
        trace,
        target,
        method="edits",
        alternatives={Part("capacity", "scout"): capacity},
        score=has_both,
        replays=2,
    )
    assert [effect.value for effect in found.effects] == [value]


def test_without_any_capacity_nothing_is_worked_on(traced: Captured, calls: Calls) -> None:
    """All packets are left, and who joins gets nothing."""
    trace, target = ran(traced, fan_out(calls))
    calls.taken()
    answers: list[str] = []

    def score(state: Any) -> float:
        answers.append(state["answer"])
        return has_both(state)

    capacity = Part("capacity", "scout")
    (effect,) = orchtrace.counterfactual(
        trace, target, [capacity], score=score, replays=2, workers=1
    ).effects
    assert effect.value == 1.0
    assert sorted(answers) == ["", "red blue green"]
    assert "scout" not in calls.taken()
