"""Trace a LangGraph swarm: one agent hands the conversation over to another.

Needs `pip install 'langchain>=1' langgraph-swarm` beside this package. Models are
scripted. Run it with `python examples/langgraph_handoff.py`; it needs no network and no key.
"""

import sys
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage

import orchtrace_otel as orchtrace

try:
    from langchain.agents import create_agent
    from langgraph_swarm import create_handoff_tool, create_swarm
except ImportError as error:
    sys.exit(f"This example needs `pip install 'langchain>=1' langgraph-swarm`: {error}")


class ScriptedModel(FakeMessagesListChatModel):
    """Says what it is told to say; a real model would decide for itself."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> "ScriptedModel":  # noqa: ARG002 - the script knows
        """Take the tools that the agent may ask for."""
        return self


def build_swarm() -> Any:
    """Return the compiled swarm; it knows nothing of tracing."""
    call = {"name": "transfer_to_boats", "args": {}, "id": "transfer-1"}
    usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
    trains = create_agent(
        ScriptedModel(responses=[AIMessage("", tool_calls=[call], usage_metadata=usage)]),
        [create_handoff_tool(agent_name="boats", description="Ask who knows boats")],
        name="trains",
    )
    boats = create_agent(
        ScriptedModel(responses=[AIMessage("The boat leaves at 9:40.", usage_metadata=usage)]),
        [create_handoff_tool(agent_name="trains", description="Ask who knows trains")],
        name="boats",
    )
    return create_swarm([trains, boats], default_active_agent="trains").compile(name="travel")


def main() -> None:
    """Ask the swarm, and write its trace to `orchtrace-data/`."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("langgraph"):
        result = build_swarm().invoke({"messages": [("user", "How do I get to Bellagio?")]})
    orchtrace.shutdown()
    print(result["messages"][-1].content)
    print("The trace is in orchtrace-data/; draw it with: orchtrace show orchtrace-data/")


if __name__ == "__main__":
    main()
