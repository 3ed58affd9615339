"""Participants whose names are members of an enum, as applications keep them."""

import asyncio
import enum

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm

from orchtrace_otel.testing import capture


class Name(str, enum.Enum):  # noqa: UP042 - StrEnum formats as what it holds, and this does not
    ALPHA = "alpha"
    BETA = "beta"


def round_robin(script, name):
    return RoundRobinGroupChat(
        [script.agent(name("alpha"), "one", "two"), script.agent(name("beta"), "three")],
        termination_condition=MaxMessageTermination(4),
    )


def selected(script, name):
    def select(messages):
        return name("beta") if len(messages) % 2 else name("alpha")

    return SelectorGroupChat(
        [script.agent(name("alpha"), "one"), script.agent(name("beta"), "two", "three")],
        script.client("unused"),
        selector_func=select,
        termination_condition=MaxMessageTermination(4),
    )


def swarm(script, name):
    handoff = Handoff(target=name("beta"), name="to_beta")
    hands_over = script.client(script.calls(("c", "to_beta", "{}")))
    return Swarm(
        [
            AssistantAgent(name("alpha"), hands_over, handoffs=[handoff]),
            script.agent(name("beta"), "done"),
        ],
        termination_condition=MaxMessageTermination(3),
    )


@pytest.mark.parametrize("team", [round_robin, selected, swarm])
def test_a_participant_is_called_what_its_name_holds(traced, script, read, team) -> None:
    """Decisions, turns, hand-offs and their causes are those of the team with plain names."""
    asyncio.run(team(script, Name).run(task="go"))
    with capture() as plain:
        asyncio.run(team(script, str).run(task="go"))
    assert read.outline(traced.trace) == read.outline(plain.trace)
    assert {event.agent for event in traced.trace.events} == {
        event.agent for event in plain.trace.events
    }
    for event in traced.trace.events:
        for text in (event.agent, event.get("to", ""), event.get("instance", "")):
            assert type(text) is str
