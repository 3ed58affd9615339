"""The AutoGen team of `orchtrace demo`: a round-robin team with a tool, on scripted models.

A planner says what to find out, an analyst looks prices up, two at a time, and a
reviewer sends it back once before approving. The same words come out each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace

if TYPE_CHECKING:
    from autogen_agentchat.base import TaskResult

TITLE: Final = "AutoGen: a round-robin team with a tool"
TASK: Final = "Which is cheaper for four people, the train or the car?"

_PRICES: Final = {"train": 34, "car": 96, "parking": 18}
_MODEL: Final = ModelInfo(
    vision=False,
    function_calling=True,
    json_output=False,
    structured_output=False,
    family=ModelFamily.UNKNOWN,
)


async def look_up_price(of: str) -> int:
    """Look a price up, in euros."""
    await asyncio.sleep(0.01 + 0.005 * len(of))
    return _PRICES[of]


def _says(text: str) -> CreateResult:
    usage = RequestUsage(prompt_tokens=40 + len(text), completion_tokens=len(text.split()))
    return CreateResult(finish_reason="stop", content=text, usage=usage, cached=False)


def _looks_up(*things: str) -> CreateResult:
    calls = [
        FunctionCall(id=f"price-{thing}", name="look_up_price", arguments=f'{{"of": "{thing}"}}')
        for thing in things
    ]
    usage = RequestUsage(prompt_tokens=60, completion_tokens=12 * len(calls))
    return CreateResult(finish_reason="function_calls", content=calls, usage=usage, cached=False)


class _Unhurried(ReplayChatCompletionClient):
    """Answers from a list, but takes its time, so that there is something to draw."""

    async def create(self, *args: Any, **kwargs: Any) -> CreateResult:
        await asyncio.sleep(0.02)
        return await super().create(*args, **kwargs)


def _scripted(*results: CreateResult) -> ReplayChatCompletionClient:
    return _Unhurried(list(results), model_info=_MODEL)


def build_team() -> RoundRobinGroupChat:
    """Return the team, ready to run once."""
    planner = AssistantAgent(
        "planner",
        model_client=_scripted(
            _says("Find what the train costs for one, and what the car costs."),
            _says("The car must be parked too: look that up."),
        ),
        description="Says what to find out.",
    )
    analyst = AssistantAgent(
        "analyst",
        model_client=_scripted(
            _looks_up("train", "car"),
            _says("The train is 34 each, 136 for four; the car is 96."),
            _looks_up("parking"),
            _says("With parking the car is 114, the train stays at 136."),
        ),
        tools=[look_up_price],
        reflect_on_tool_use=True,
        description="Looks prices up.",
    )
    reviewer = AssistantAgent(
        "reviewer",
        model_client=_scripted(
            _says("Parking is missing."),
            _says("The car, by 22 euros. APPROVED"),
        ),
        description="Approves an answer, or says what is missing.",
    )
    team = RoundRobinGroupChat(
        [planner, analyst, reviewer],
        termination_condition=TextMentionTermination("APPROVED") | MaxMessageTermination(12),
    )
    # AutoGen before 0.7 has no names for teams; this one is the trace's alone.
    return orchtrace.agent(team, name="price team")


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Keep the replaying client from warning that it counts no tokens of tool calls."""
    logger = logging.getLogger("autogen_core.events")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def run() -> TaskResult:
    """Run the team to its end and return what it said."""
    with _quiet():
        return asyncio.run(build_team().run(task=TASK))
