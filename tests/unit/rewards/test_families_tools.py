"""R5: valid calls, failures, calls again, results that led to the answer; absent where unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchtrace_otel.model import Event, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.tools import (
    ToolUse,
    ToolWeights,
    by_tool,
    read_uses,
    tool_reward,
    tool_rewards,
)


@pytest.fixture
def calls(make_event, make_edges):
    """Make a run of calls in a row, each one second long: (name, keys of call, keys of result)."""

    def make(*rows: tuple[str, dict[str, Any], dict[str, Any] | None]) -> Trace:
        events = [make_event("O.open", 0, "begin", "O")]
        path = ["O.open"]
        for number, (name, call, result) in enumerate(rows):
            events.append(make_event(f"{name}.open", number, "tool_call", "O", tool="t", **call))
            path.append(f"{name}.open")
            if result is not None:
                at = number + 1
                events.append(
                    make_event(f"{name}.close", at, "tool_result", "O", tool="t", **result)
                )
                path.append(f"{name}.close")
        events.append(make_event("stop", len(rows) + 1, "stop", "O", tokens=1))
        return Trace("run", "task", tuple(events), make_edges(" ".join([*path, "stop"])))

    return make


def uses(trace: Trace, *changing: str) -> list[ToolUse]:
    return list(read_uses(Facts(trace), changing))


def test_each_call_says_what_is_known_of_it(calls):
    """Its result, its time, whether it led on; validity of a failed call is not known."""
    trace = calls(("a", {}, {}), ("b", {}, {"status": "error"}), ("c", {}, None))
    assert uses(trace) == [
        ToolUse(1, valid=True, succeeded=True, used=True, repeated=None, seconds=1.0),
        ToolUse(3, valid=None, succeeded=False, used=True, repeated=None, seconds=1.0),
        ToolUse(5, valid=None, succeeded=False, used=False, repeated=None, seconds=None),
    ]
    found = score(trace).rewards
    assert found["tools_succeeded"] == pytest.approx(1 / 3)
    assert found["tools_used"] == pytest.approx(2 / 3)
    assert "tools_repeated" not in found


def test_the_same_call_again_is_repeated_unless_something_changed(calls):
    """A retry after an error, a result that moved, or a tool that writes in between are none."""
    same, ok = {"content_ref": "args"}, {}
    again = calls(("a", same, ok), ("b", same, ok))
    assert [use.repeated for use in uses(again)] == [False, True]
    assert score(again).rewards["tools_repeated"] == -0.5
    retry = calls(("a", same, {"status": "error"}), ("b", same, ok))
    assert [use.repeated for use in uses(retry)] == [False, False]
    polled = calls(("a", same, {"content_ref": "r1"}), ("b", same, {"content_ref": "r2"}))
    assert [use.repeated for use in uses(polled)] == [False, False]
    write = calls(("a", same, ok), ("w", {"content_ref": "x"}, ok), ("b", same, ok))
    assert [use.repeated for use in uses(write)] == [False, False, True]
    writer = [
        replace(e, keys={**e.keys, "tool": "write"}) if e.id.startswith("w.") else e
        for e in write.events
    ]
    written = replace(write, events=tuple(writer))
    assert [use.repeated for use in uses(written, "write")] == [False, False, False]


def test_calls_are_compared_in_order_of_time(calls):
    """However the trace lists them, the later one is the repeated one."""
    same = {"content_ref": "args"}
    trace = calls(("a", same, {}), ("b", same, {}))
    turned = replace(trace, events=(*reversed(trace.events[:-1]), trace.events[-1]))
    repeated = {turned.events[use.place].id: use.repeated for use in uses(turned)}
    assert repeated == {"a.open": False, "b.open": True}
    assert score(turned).rewards == score(trace).rewards


def test_a_reward_for_each_call_needs_all_parts_that_have_weight(calls):
    """Where arguments are not known only weights without repetition give a number."""
    trace = calls(("b", {}, {"status": "error"}), ("a", {}, {}))
    assert tool_rewards()(trace) == []
    plain = tool_rewards(ToolWeights(repeated=0, latency=0.5, budget_s=10))
    (reward,) = plain(trace)
    assert (reward.target, reward.unit, reward.family) == ("a.open", "tool_call", "R5")
    assert reward.value == pytest.approx(0.2 + 0.2 + 0.6 - 0.05)
    scored = score(trace, [("tools", plain)])
    assert [r.target for r in scored.reward_records if r.component == "tool_use"] == ["a.open"]
    without = tool_rewards(ToolWeights(valid=0, repeated=0))(trace)
    assert [reward.value for reward in without] == pytest.approx([0.6, 0.8])


def test_a_call_is_worth_at_most_the_sum_of_its_good_parts():
    """The sheet's bound, with everything well and without a cost."""
    best = ToolUse(0, valid=True, succeeded=True, used=True, repeated=False, seconds=0)
    assert tool_reward(best, ToolWeights(latency=1)) == pytest.approx(1.0)
    assert tool_reward(best._replace(used=None)) is None


def test_tools_of_others_are_followed_by_edges_or_say_it_themselves(make_edges):
    """Without our ids a result is an effect of its call; a call that lasts is its own result."""
    events = (
        Event("c", 0, "tool_call", "a", {"tool": "search"}),
        Event("r", 1, "tool_result", "search", {"tool": "search"}),
        Event("d", 2, "tool_call", "a", {"tool": "write", "duration_s": 1, "status": "error"}),
        Event("e", 3, "tool_call", "a", {"tool": "write"}),
        Event("z", 4, "aggregate", "a"),
    )
    trace = Trace("run", "task", events, make_edges("c r z"))
    assert [(use.succeeded, use.used) for use in uses(trace)] == [
        (True, True),
        (False, False),
        (False, False),
    ]
    assert by_tool(trace) == {
        "search": {"calls": 1, "succeeded": 1, "used": 1},
        "write": {"calls": 2, "succeeded": 0, "used": 0},
    }


def test_on_a_cycle_use_is_unknown_and_success_is_not(calls, make_edges):
    """What follows causes is absent; what a result says itself stays."""
    trace = calls(("a", {}, {}))
    cyclic = replace(trace, edges=(*trace.edges, *make_edges("O.open O.open")))
    found = score(cyclic)
    assert "tools_used" not in found.rewards
    assert found.rewards["tools_succeeded"] == 1
    assert found.events[1]["rewards"] == {"tool_succeeded": 1.0}
