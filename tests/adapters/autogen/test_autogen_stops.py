"""Why a team stopped: each condition, alone and combined, and every other end."""

import asyncio

import pytest
from autogen_agentchat.base import TerminatedException, TerminationCondition
from autogen_agentchat.conditions import (
    ExternalTermination,
    FunctionalTermination,
    FunctionCallTermination,
    HandoffTermination,
    MaxMessageTermination,
    SourceMatchTermination,
    StopMessageTermination,
    TextMentionTermination,
    TextMessageTermination,
    TimeoutTermination,
    TokenUsageTermination,
)
from autogen_agentchat.messages import StopMessage
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm


class Bored(TerminationCondition):
    """A condition of the host's own, which signs with whatever it likes."""

    def __init__(self) -> None:
        self._done = False

    @property
    def terminated(self) -> bool:
        return self._done

    async def __call__(self, messages):
        if self._done:
            raise TerminatedException
        if len(messages) == 1 and messages[0].source == "user":
            return None
        self._done = True
        return StopMessage(content="secret words", source="a, b and c")

    async def reset(self) -> None:
        self._done = False


async def _run_alone(agent, condition) -> None:
    await RoundRobinGroupChat([agent], termination_condition=condition).run(task="go")


def _external() -> ExternalTermination:
    condition = ExternalTermination()
    condition.set()
    return condition


CONDITIONS = {
    "MaxMessageTermination": (lambda: MaxMessageTermination(2), "max_steps"),
    "TextMentionTermination": (lambda: TextMentionTermination("one"), "information_complete"),
    "TokenUsageTermination": (
        lambda: TokenUsageTermination(max_total_token=1),
        "token_budget",
    ),
    "TimeoutTermination": (lambda: TimeoutTermination(0), "time_budget"),
    "ExternalTermination": (_external, "external"),
    "SourceMatchTermination": (lambda: SourceMatchTermination(["a"]), "information_complete"),
    "TextMessageTermination": (lambda: TextMessageTermination("a"), "information_complete"),
    "FunctionalTermination": (
        lambda: FunctionalTermination(lambda messages: messages[-1].source == "a"),
        "information_complete",
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_is_named_and_typed(traced, script, name) -> None:
    """Each built-in condition stops the run under its own reason and class."""
    make, reason = CONDITIONS[name]
    team = RoundRobinGroupChat([script.agent("a", "one")], termination_condition=make())
    asyncio.run(team.run(task="go"))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"], stop["status"]) == (reason, name, "ok")


def test_stop_message_and_function_call_and_handoff(traced, script, plain) -> None:
    """Conditions that look for a kind of message."""

    async def finish() -> str:
        """Finish."""
        return "done"

    async def all_three() -> None:
        says = plain("a", lambda _: StopMessage(content="stop", source="a"))
        await RoundRobinGroupChat([says], termination_condition=StopMessageTermination()).run(
            task="go"
        )
        calls = script.agent("a", script.calls(("1", "finish", "{}")), tools=[finish])
        await RoundRobinGroupChat(
            [calls], termination_condition=FunctionCallTermination("finish")
        ).run(task="go")
        hands = script.agent("a", script.calls(("1", "transfer_to_user", "{}")), handoffs=["user"])
        await Swarm([hands], termination_condition=HandoffTermination("user")).run(task="go")

    asyncio.run(all_three())
    assert [(t.stop["stop_reason"], t.stop["stop_detail"]) for t in traced.traces] == [
        ("information_complete", "StopMessageTermination"),
        ("information_complete", "FunctionCallTermination"),
        ("handoff", "HandoffTermination"),
    ]


def test_combined_conditions_name_those_that_fired(traced, script) -> None:
    """Or names the one that fired, And both; the first of them gives the reason."""

    async def both() -> None:
        either = TextMentionTermination("never") | MaxMessageTermination(2)
        await RoundRobinGroupChat([script.agent("a", "one")], termination_condition=either).run(
            task="go"
        )
        every = MaxMessageTermination(2) & TextMentionTermination("one")
        await RoundRobinGroupChat([script.agent("a", "one")], termination_condition=every).run(
            task="go"
        )

    asyncio.run(both())
    assert [(t.stop["stop_reason"], t.stop["stop_detail"]) for t in traced.traces] == [
        ("max_steps", "MaxMessageTermination"),
        ("max_steps", "MaxMessageTermination, TextMentionTermination"),
    ]


def test_condition_of_the_hosts_own_is_named_by_its_class(traced, script) -> None:
    """What it signs with may be content; its class is not."""

    team = RoundRobinGroupChat([script.agent("a", "one")], termination_condition=Bored())
    asyncio.run(team.run(task="go"))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("information_complete", "Bored")
    assert "secret" not in traced.trace.to_json()
    assert "a, b and c" not in traced.trace.to_json()


def test_condition_of_the_hosts_own_is_named_among_others(traced, script) -> None:
    """Combined with built-in ones, the host's condition is the one that none of them is."""
    either = Bored() | MaxMessageTermination(9)
    asyncio.run(_run_alone(script.agent("a", "one"), either))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("information_complete", "Bored")


def test_condition_derived_from_a_built_in_one_keeps_its_reason(traced, script) -> None:
    """A subclass is named by its own class and typed by its base."""

    class Patience(MaxMessageTermination):
        pass

    asyncio.run(_run_alone(script.agent("a", "one"), Patience(2)))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("max_steps", "Patience")


def test_turn_limit(traced, plain) -> None:
    """A team's own limit on turns is a limit on steps."""
    asyncio.run(RoundRobinGroupChat([plain("a")], max_turns=2).run(task="go"))
    stop = traced.trace.stop
    assert (stop["stop_reason"], stop["stop_detail"]) == ("max_steps", "max_turns")
