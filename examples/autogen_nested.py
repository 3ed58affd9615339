"""A team inside a team: one trace, in which each turn knows the team that it was part of.

A newsroom of two is one participant of an editorial team, which a chief heads. All models
are scripted. Run it with `python examples/autogen_nested.py`; it prints who was asked by
whom, and how deep.
"""

import asyncio
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent, SocietyOfMindAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace


def writer(name: str, *says: str) -> AssistantAgent:
    """Return an agent that says one thing after the other."""
    return AssistantAgent(name, model_client=ReplayChatCompletionClient(list(says)))


def build_team() -> RoundRobinGroupChat:
    """Return the editorial team. From 0.7 on the newsroom could take part in it directly."""
    newsroom = RoundRobinGroupChat(
        [writer("reporter", "The bridge is closed."), writer("checker", "That is true.")],
        termination_condition=MaxMessageTermination(3),
    )
    # AutoGen before 0.7 has no names for teams; these are the trace's alone.
    orchtrace.agent(newsroom, name="newsroom")
    desk = SocietyOfMindAgent(
        "desk",
        team=newsroom,
        model_client=ReplayChatCompletionClient(["The bridge is closed, and it is true."]),
    )
    team = RoundRobinGroupChat([writer("chief", "What is new?"), desk], max_turns=2)
    return orchtrace.agent(team, name="editorial")


def main() -> None:
    """Run the team, then read its tree off the trace."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("autogen"):
        asyncio.run(build_team().run(task="The front page, please."))
    orchtrace.shutdown()
    line = Path("orchtrace-data/traces.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    trace = orchtrace.Trace.from_json(line)
    depth: dict[str, int] = {}
    for event in trace.events:
        if event.id.endswith(".open"):
            below = event.get("parent")
            depth[event["activation"]] = 0 if below is None else depth[below] + 1
            print("  " * depth[event["activation"]] + f"{event.agent} {event.verb} {event['to']}")


if __name__ == "__main__":
    main()
