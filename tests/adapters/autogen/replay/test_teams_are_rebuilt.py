"""Components, agents without state and teams that went on are made again as they were."""

import asyncio
import json
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace
from orchtrace_autogen import Recorded
from orchtrace_otel.replay import Part, Slot
from tests.adapters.autogen.replay.teams import LETTERS, Counting, joins, ran, round_robin


def test_a_team_that_is_a_component_is_built_again(traced) -> None:
    """The very team is handed over, and is not touched: what it keeps is as it was."""
    models = [ReplayChatCompletionClient(["one", "two"]) for _ in range(2)]
    agents = [
        AssistantAgent(name, model_client=model)
        for name, model in zip(("ann", "bob"), models, strict=True)
    ]
    team = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(3))
    result = asyncio.run(team.run(task="go"))
    before = json.dumps(asyncio.run(team.save_state()), sort_keys=True, default=str)
    found = orchtrace.counterfactual(
        traced.traces[-1],
        Recorded(team=team, messages=result),
        [Part("agent", "ann")],
        score=lambda r: float(len(str(r.messages[-1].content))),
        replays=2,
    )
    assert found.effects[0].value == 0.0
    assert json.dumps(asyncio.run(team.save_state()), sort_keys=True, default=str) == before
    assert "orchtrace" not in str(vars(agents[0]))


def test_an_agent_without_state_is_rebuilt(traced, cast) -> None:
    """One that tells of none has none, as AutoGen has it."""

    def build() -> RoundRobinGroupChat:
        team = [Counting("ann"), cast.agent("writer", joins)]
        return RoundRobinGroupChat(team, termination_condition=MaxMessageTermination(3))

    trace, result = ran(traced, build)
    target = Recorded(team=build, messages=result)
    letter = Slot("ann", "broadcast", 1)
    found = orchtrace.counterfactual(
        trace, target, [letter], score=lambda r: len(r.messages[-1].content), replays=2
    )
    assert found.effects[0].value == len(" hm")


def test_a_run_that_went_on_from_another_is_rebuilt_from_its_state(traced, cast) -> None:
    """What the team remembered before is loaded into the fresh one."""
    build = round_robin(cast)

    async def twice() -> tuple[Any, TaskResult]:
        team = build()
        await team.run(task="first")
        return await team.save_state(), await team.run(task="second")

    state, result = asyncio.run(twice())
    writer = str(result.messages[-1].content)
    assert writer == "first red blue green second red blue green"
    answers: list[str] = []

    def score(result: TaskResult) -> float:
        answers.append(str(result.messages[-1].content))
        return 1.0

    target = Recorded(team=build, messages=result, state=state)
    orchtrace.counterfactual(
        traced.traces[-1], target, LETTERS[2:], score=score, replays=2, workers=1
    )
    assert answers == [writer, "first red blue green second red blue"]


@pytest.mark.parametrize("names", [("user", "bob"), ("bob", "user")])
def test_a_task_may_be_in_the_names_of_participants(traced, cast, names) -> None:
    """As a dialogue that goes on, or where an agent is called what a task's source is called."""

    def build() -> RoundRobinGroupChat:
        team = [cast.agent(name, name.upper()) for name in names]
        return RoundRobinGroupChat([*team, cast.agent("writer", joins)], max_turns=3)

    task = [TextMessage(content=word, source=word) for word in ("user", "bob")]
    result = asyncio.run(build().run(task=task))
    said: list[list[str]] = []

    def score(replayed: TaskResult) -> float:
        said.append([str(one.content) for one in replayed.messages])
        return 1.0

    target = Recorded(team=build, messages=result)
    letter = Slot("bob", "broadcast", 1)
    orchtrace.counterfactual(traced.traces[-1], target, [letter], score=score, replays=2, workers=1)
    first, second = (name.upper() for name in names)
    assert said[0] == ["user", "bob", first, second, f"user bob {first} {second}"]
    assert said[1] == [one.replace(" BOB", "").replace("BOB", "") for one in said[0]]
