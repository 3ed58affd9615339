"""Teams in teams, teams behind tools and behind agents."""

import asyncio
import gc

import pytest
from autogen_agentchat.agents import SocietyOfMindAgent
from autogen_agentchat.conditions import FunctionalTermination, MaxMessageTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat

from tests.adapters.autogen.versions import has_nested_teams


@has_nested_teams
def test_team_in_a_team_is_one_activation_that_holds_its_turns(traced, plain, read) -> None:
    """The inner team's turn and its run are the same stretch of work."""
    inner = RoundRobinGroupChat(
        [plain("x"), plain("y")], name="inner", termination_condition=MaxMessageTermination(3)
    )
    team = RoundRobinGroupChat([plain("a"), inner], max_turns=3, name="outer")
    asyncio.run(team.run(task="go"))
    assert read.outline(traced.trace) == [
        "0 user begin outer",
        "1 outer decide a <- causal 0",
        "2 outer spawn a <- message 0, spawn 1",
        "3 a message broadcast <- causal 2",
        "4 a return outer <- causal 3",
        "5 outer decide inner <- causal 4",
        "6 outer spawn inner <- message 0, message 3, spawn 5",
        "7 inner decide x <- causal 6",
        "8 inner spawn x <- message 0, message 3, spawn 7",
        "9 x message broadcast <- causal 8",
        "10 x return inner <- causal 9",
        "11 inner return outer <- return 10",
        "12 outer decide a <- causal 11",
        "13 outer delegate a <- causal 12, message 9",
        "14 a message broadcast <- causal 13",
        "15 a return outer <- causal 14",
        "16 outer stop <- causal 15",
    ]
    inner_span = next(span for span in traced.spans if span.name == "invoke_agent inner")
    assert inner_span.attributes["orchtrace.stop.reason"] == "max_steps"
    assert inner_span.attributes["orchtrace.stop.detail"] == "MaxMessageTermination"


@has_nested_teams
def test_error_in_an_inner_team_ends_all(traced, plain, caplog) -> None:
    """An inner participant's error closes its turn, its team's turn and the run as errors."""
    caplog.set_level("CRITICAL", logger="autogen_core")

    def fail(_: int) -> str:
        msg = "bad"
        raise LookupError(msg)

    inner = RoundRobinGroupChat([plain("x", fail)], name="inner", max_turns=1)
    with pytest.raises(RuntimeError):
        asyncio.run(RoundRobinGroupChat([inner], name="outer", max_turns=1).run(task="go"))
    trace = traced.trace
    assert [(e.agent, e["status"]) for e in trace.events if e.verb == "return"] == [
        ("x", "error"),
        ("inner", "error"),
    ]
    assert trace.stop["stop_reason"] == "error"


class Unknown(TextMessage):
    """A message that no team was told of."""


@has_nested_teams
def test_team_that_its_failed_turn_left_behind_ends_in_peace(traced, plain, caplog) -> None:
    """Where the turn fails itself, its team's stream is closed after it; nothing is said then."""
    caplog.set_level("CRITICAL", logger="autogen_core")

    async def run() -> None:
        inner = RoundRobinGroupChat(
            [plain("x", lambda _: Unknown(content="?", source="x"))],
            name="inner",
            max_turns=2,
            custom_message_types=[Unknown],
        )
        with pytest.raises(RuntimeError, match="not registered"):
            await RoundRobinGroupChat([inner], name="outer", max_turns=1).run(task="go")
        del inner
        gc.collect()
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(run())
    trace = traced.trace
    returned = {e.agent: e["status"] for e in trace.events if e.verb == "return"}
    assert returned == {"x": "ok", "inner": "error"}
    assert trace.stop["stop_detail"] == "ValueError"


def test_team_inside_an_agent_is_spawned_by_its_turn(traced, plain, script, read) -> None:
    """SocietyOfMind runs its team in its turn, and summarises with a turn of its own model."""
    inner = RoundRobinGroupChat([plain("x")], max_turns=1)
    mind = SocietyOfMindAgent("mind", team=inner, model_client=script.client("summary"))
    asyncio.run(RoundRobinGroupChat([mind], max_turns=1).run(task="go"))
    trace = traced.trace
    assert read.openings(trace) == [
        ("begin", "RoundRobinGroupChat"),
        ("spawn", "mind"),
        ("spawn", "RoundRobinGroupChat"),
        ("spawn", "x"),
    ]
    messages = [(e.agent, e.get("tokens")) for e in trace.events if e.verb == "message"]
    assert messages == [("x", None), ("mind", 10)]


def test_team_behind_a_tool_is_spawned_by_the_call(traced, plain, script, read) -> None:
    """A TeamTool's team follows from the call, and the result follows from the team."""
    from autogen_agentchat.tools import TeamTool

    inner = RoundRobinGroupChat([plain("x")], max_turns=1)
    tool = TeamTool(inner, name="ask", description="ask the team")
    agent = script.agent("a", script.calls(("1", "ask", '{"task": "x"}')), tools=[tool])
    asyncio.run(RoundRobinGroupChat([agent], max_turns=1).run(task="go"))
    lines = read.outline(traced.trace)
    assert lines[3:9] == [
        "3 a tool_call ask <- causal 2",
        "4 a spawn RoundRobinGroupChat <- spawn 3",
        "5 RoundRobinGroupChat decide x <- causal 4",
        "6 RoundRobinGroupChat spawn x <- message 4, spawn 5",
        "7 x message broadcast <- causal 6",
        "8 x return RoundRobinGroupChat <- causal 7",
    ]
    assert "10 a tool_result ask <- return 9" in lines


def test_agents_whom_conditions_and_selectors_ask_follow_from_the_answer(
    traced, plain, script, read
) -> None:
    """A judge and a chooser are asked because of what the manager handles; it chooses by both."""
    judge, chooser = plain("judge"), plain("chooser")

    async def is_good(_) -> bool:
        await judge.run(task="is it?")
        return judge.spoke == 3

    async def choose(_) -> str:
        await chooser.run(task="who?")
        return "ab"[chooser.spoke - 1]

    team = SelectorGroupChat(
        [plain("a"), plain("b")],
        model_client=script.client(),
        selector_func=choose,
        termination_condition=FunctionalTermination(is_good),
    )
    asyncio.run(team.run(task="go"))
    assert read.triggers(traced.trace)[:6] == [
        ("judge", ("user",)),
        ("chooser", ("judge", "user")),
        ("a", ("chooser", "user")),
        ("judge", ("a",)),
        ("chooser", ("a", "judge")),
        ("b", ("a", "chooser")),
    ]
