"""A swarm that hands over to a human, and goes on with the answer in a run linked to the first.

An agent books a table by handing over to a second one, which hands over to the guest. The
first run stops with `handoff`, the second goes on from it. Models and guest are scripted.
Run it with `python examples/autogen_swarm.py`; it prints how the two runs hang together.
"""

import asyncio
import logging
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import HandoffTermination, TextMentionTermination
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import Swarm
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


def hands_over(to: str) -> CreateResult:
    """Return a model's answer that calls the tool by which agents hand over."""
    return CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall(id=f"to-{to}", name=f"transfer_to_{to}", arguments="{}")],
        usage=RequestUsage(prompt_tokens=30, completion_tokens=5),
        cached=False,
    )


def build_team() -> Swarm:
    """Return the concierge and the waiter; who is handed over to speaks next."""
    concierge = AssistantAgent(
        "concierge",
        model_client=ReplayChatCompletionClient([hands_over("waiter")], model_info=MODEL),
        handoffs=["waiter"],
    )
    waiter = AssistantAgent(
        "waiter",
        model_client=ReplayChatCompletionClient(
            [hands_over("guest"), "A table for two at eight. BOOKED"], model_info=MODEL
        ),
        handoffs=["guest"],
    )
    stop = HandoffTermination("guest") | TextMentionTermination("BOOKED")
    return Swarm([concierge, waiter], termination_condition=stop)


async def book() -> None:
    """Run until the waiter asks the guest; give the answer, and run on."""
    team = build_team()
    await team.run(task="A table for tonight, please.")
    answer = HandoffMessage(source="guest", target="waiter", content="For two, at eight.")
    await team.run(task=answer)


def main() -> None:
    """Run the team, then read hand-offs and stops off the traces."""
    # The replaying client warns that it counts no tokens of tool calls.
    logging.getLogger("autogen_core.events").disabled = True
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("autogen"):
        asyncio.run(book())
    orchtrace.shutdown()
    lines = Path("orchtrace-data/traces.jsonl").read_text(encoding="utf-8").splitlines()
    for trace in map(orchtrace.Trace.from_json, lines[-2:]):
        for event in trace.events:
            if event.get("links"):
                print("goes on from another run")
            if event.verb == "delegate" and not event.id.endswith(".open"):
                print(f"{event.agent} hands over to {event['to']}")
        if trace.stop is not None:
            print(f"stopped: {trace.stop['stop_reason']} by {trace.stop['stop_detail']}")


if __name__ == "__main__":
    main()
