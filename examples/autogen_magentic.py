"""Magentic-One: what its ledger said when it chose the next speaker, planned anew, or ended.

A coder gets stuck, the orchestrator makes a new plan, and a reader finds the fault. All
models are scripted. Run it with `python examples/autogen_magentic.py`; it prints the
decisions with the ledger's answers of yes and no. Its reasons are content, and stay out.
"""

import asyncio
import json
from pathlib import Path

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import MagenticOneGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace


def ledger(speaker: str, *, is_done: bool = False, is_moving: bool = True) -> str:
    """Return a ledger as the orchestrator's model fills it in."""
    answers = {
        "is_request_satisfied": is_done,
        "is_in_loop": False,
        "is_progress_being_made": is_moving,
        "next_speaker": speaker,
        "instruction_or_question": "Go on.",
    }
    return json.dumps({k: {"answer": v, "reason": "It looks so."} for k, v in answers.items()})


def build_team() -> MagenticOneGroupChat:
    """Return the orchestrator's team."""
    coder, reader = (
        AssistantAgent(name, model_client=ReplayChatCompletionClient([says]), description=name)
        for name, says in (
            ("coder", "The test still fails."),
            ("reader", "The manual says that the port is 8080."),
        )
    )
    thoughts = [
        "A test fails.",
        "Let the coder mend it.",
        ledger("coder"),
        ledger("coder", is_moving=False),
        "The code looks right.",
        "Let the reader look it up.",
        ledger("reader"),
        ledger("reader", is_done=True),
        "The port was wrong: it is 8080.",
    ]
    return MagenticOneGroupChat(
        [coder, reader], model_client=ReplayChatCompletionClient(thoughts), max_stalls=1
    )


def main() -> None:
    """Run the team, then read the ledgers off the trace."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("autogen"):
        asyncio.run(build_team().run(task="Why does the test fail?"))
    orchtrace.shutdown()
    line = Path("orchtrace-data/traces.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    trace = orchtrace.Trace.from_json(line)
    for event in trace.events:
        if event.verb == "decide":
            yes = [name for name, answer in event["features"].items() if answer]
            print(f"{event['chosen']}: {', '.join(yes) or 'nothing is true'}")
    if trace.stop is not None:
        print(f"stopped: {trace.stop['stop_reason']}")


if __name__ == "__main__":
    main()
