"""A team that cannot run again is blocked, and what is missing is said."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from autogen_agentchat.agents import UserProxyAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat
from autogen_core.memory import ListMemory, MemoryContent

import orchtrace_otel as orchtrace
from orchtrace_autogen import AutoGenAdapter, Recorded
from orchtrace_otel.errors import ConfigError, ReplayBlockedError
from orchtrace_otel.replay import Change, Slot, is_replaying
from tests.adapters.autogen.replay.teams import (
    AGENTS,
    LETTERS,
    Counting,
    has_both,
    ran,
    round_robin,
)


class Telling(Counting):
    async def save_state(self) -> Mapping[str, Any]:
        return {"spoke": self.spoke}


def test_what_cannot_be_rebuilt_says_so(traced, cast) -> None:
    """State of an agent's own, a memory, a person, another kind of team: blocked, and why."""

    async def asks(prompt: str, cancellation_token: Any = None) -> str:
        assert not is_replaying()
        return "yes"

    async def memory() -> ListMemory:
        kept = ListMemory()
        await kept.add(MemoryContent(content="old", mime_type="text/plain"))
        return kept

    kept = asyncio.run(memory())
    teams: dict[str, Callable[[], list[Any]]] = {
        "what a Telling keeps": lambda: [Telling("ann"), cast.agent("bob", "b")],
        "has a memory": lambda: [cast.agent("ann", "a", memory=[kept]), cast.agent("bob", "b")],
        "ask a person": lambda: [
            cast.agent("ann", "a"),
            cast.agent("bob", "b"),
            UserProxyAgent("eve", input_func=asks),
        ],
    }
    for why, agents in teams.items():

        def build(agents: Any = agents) -> RoundRobinGroupChat:
            people = agents()
            end = MaxMessageTermination(len(people) + 1)
            return RoundRobinGroupChat(people, termination_condition=end)

        trace, result = ran(traced, build)
        replayer = AutoGenAdapter().replayer(
            Recorded(team=build, messages=result), trace, lambda _: 1.0
        )
        change = Change(without=frozenset({Slot("bob", "broadcast", 1)}))
        with pytest.raises(ReplayBlockedError, match=why):
            asyncio.run(replayer.value(change, 0))


def test_a_flow_is_not_rebuilt(traced, cast) -> None:
    """A team in which several speak at once is blocked."""

    def build() -> GraphFlow:
        ann, bob = cast.agent("ann", "red"), cast.agent("bob", "blue")
        flow = DiGraphBuilder().add_node(ann).add_node(bob).add_edge(ann, bob)
        return GraphFlow([ann, bob], graph=flow.build())

    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    found = orchtrace.counterfactual(trace, target, AGENTS[:1], score=has_both, replays=2)
    assert found.lost == {"blocked": 2}


def test_another_team_than_the_recorded_is_blocked(traced, cast) -> None:
    """One that asks others than spoke in the record, and one that is no fresh one."""
    build = round_robin(cast)
    trace, result = ran(traced, build)

    def other() -> RoundRobinGroupChat:
        team = build()
        return RoundRobinGroupChat(team._participants[::-1], max_turns=4)

    same = build()
    asyncio.run(same.run(task="go"))
    for made in (other, lambda: same):
        target = Recorded(team=made, messages=result)
        found = orchtrace.counterfactual(trace, target, LETTERS, score=has_both, replays=2)
        assert found.lost == {"blocked": 6}


@pytest.mark.parametrize(
    ("make", "must"),
    [
        (lambda build, result: Recorded(team=build), "no content is captured"),
        (lambda build, result: Recorded(team=build, messages=result.messages[1:]), "its task"),
        (lambda build, result: build(), "a component"),
    ],
)
def test_what_is_missing_is_said(traced, cast, make, must) -> None:
    """No content, no task, a team that AutoGen cannot dump."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    with pytest.raises(ConfigError, match=must):
        orchtrace.counterfactual(trace, make(build, result), AGENTS, score=has_both)
    assert AutoGenAdapter().replayer(object(), trace, len) is None
