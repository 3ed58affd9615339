"""Trace an AutoGen team: one call before it runs, nothing else changes.

A round-robin team of a researcher with a tool and a critic, on scripted models. Run it
with `python examples/autogen_team.py`; it needs no network and no key.
"""

import asyncio
import logging

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace

MODEL = ModelInfo(
    vision=False,
    function_calling=True,
    json_output=False,
    structured_output=False,
    family=ModelFamily.UNKNOWN,
)
ASK_ARCHIVE = CreateResult(
    finish_reason="function_calls",
    content=[FunctionCall(id="1", name="archive", arguments='{"topic": "lake"}')],
    usage=RequestUsage(prompt_tokens=50, completion_tokens=10),
    cached=False,
)


async def archive(topic: str) -> str:
    """Look a topic up."""
    return f"the {topic} is 254 m deep"


def build_team() -> RoundRobinGroupChat:
    """Return the team; it knows nothing of tracing."""
    researcher = AssistantAgent(
        "researcher",
        model_client=ReplayChatCompletionClient([ASK_ARCHIVE], model_info=MODEL),
        tools=[archive],
    )
    critic = AssistantAgent(
        "critic",
        model_client=ReplayChatCompletionClient(["Deep enough. DONE"], model_info=MODEL),
    )
    stop = TextMentionTermination("DONE") | MaxMessageTermination(10)
    return RoundRobinGroupChat([researcher, critic], termination_condition=stop)


def main() -> None:
    """Run the team, and write its trace to `orchtrace-data/`."""
    # The replaying client warns that it counts no tokens of tool calls.
    logging.getLogger("autogen_core.events").setLevel(logging.ERROR)
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("autogen"):
        result = asyncio.run(build_team().run(task="How deep is the lake?"))
    orchtrace.shutdown()
    for message in result.messages:
        print(f"{message.source}: {message.to_text()}")
    print("The trace is in orchtrace-data/; draw it with: orchtrace show orchtrace-data/")


if __name__ == "__main__":
    main()
