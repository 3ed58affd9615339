"""A selector team: which model call chose whom, and among whom.

A model picks the next speaker of a help desk; all models are scripted. Run it with
`python examples/autogen_selector.py`; it writes the trace to `orchtrace-data/` and prints
the decisions that are in it.
"""

import asyncio
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import SelectorGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace


def build_team() -> SelectorGroupChat:
    """Return the desk: a model chooses among a clerk, a technician and a lawyer."""
    desk = [
        AssistantAgent(name, model_client=ReplayChatCompletionClient([says]), description=name)
        for name, says in (
            ("clerk", "The printer is under guarantee."),
            ("technician", "The fuser is broken; a new one is on its way. SOLVED"),
            ("lawyer", "Nobody asked me."),
        )
    ]
    return SelectorGroupChat(
        desk,
        model_client=ReplayChatCompletionClient(["clerk", "technician"]),
        termination_condition=TextMentionTermination("SOLVED") | MaxMessageTermination(6),
    )


def main() -> None:
    """Run the team, then read its decisions off the trace."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("autogen"):
        asyncio.run(build_team().run(task="The printer smells of smoke."))
    orchtrace.shutdown()
    line = Path("orchtrace-data/traces.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    trace = orchtrace.Trace.from_json(line)
    for event in trace.events:
        if event.verb == "decide":
            among = ", ".join(event["candidates"])
            print(f"chose {event['chosen']} among {among}, by {len(event['turns'])} LLM turn")
    if trace.stop is not None:
        print(f"stopped: {trace.stop['stop_reason']} by {trace.stop['stop_detail']}")


if __name__ == "__main__":
    main()
