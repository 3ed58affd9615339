"""A flow that forks and joins: the writer's turn follows from both researchers.

An editor sends two researchers out at once and a writer merges what they bring, on
scripted models. Run it with `python examples/autogen_flow.py`; it prints who caused
whose turn, read off the trace.
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow
from autogen_ext.models.replay import ReplayChatCompletionClient

import orchtrace_otel as orchtrace


class Causes:
    """An exporter of finished traces that prints each turn's causes."""

    def export(self, trace: orchtrace.Trace) -> None:
        """Print the edges into openings and merges, with the agents at both ends."""
        events = {event.id: event for event in trace.events}
        for edge in trace.edges:
            cause, effect = events[edge.src], events[edge.dst]
            if edge.type in {"spawn", "aggregate"}:
                to = effect.get("to", effect.agent)
                print(f"{cause.agent} {cause.verb} --{edge.type}--> {to} {effect.verb}")
        print("stopped:", trace.stop["stop_reason"] if trace.stop else "unknown")

    def amend(self, run_id: str, reward: orchtrace.Reward) -> None:
        """Ignore late rewards: none are given here."""

    def flush(self, timeout_s: float) -> None:
        """Nothing waits."""

    def shutdown(self) -> None:
        """Nothing is open."""


def build_flow() -> GraphFlow:
    """Return the diamond: editor, two researchers, writer."""
    names = ("editor", "historian", "geologist", "writer")
    editor, historian, geologist, writer = (
        AssistantAgent(name, model_client=ReplayChatCompletionClient([f"{name} is done"]))
        for name in names
    )
    graph = DiGraphBuilder()
    for agent in (editor, historian, geologist, writer):
        graph.add_node(agent)
    graph.add_edge(editor, historian).add_edge(editor, geologist)
    graph.add_edge(historian, writer).add_edge(geologist, writer)
    return GraphFlow([editor, historian, geologist, writer], graph=graph.build())


def main() -> None:
    """Run the flow and print its causes."""
    orchtrace.configure(exporters=[Causes()])
    with orchtrace.instrument("autogen"):
        asyncio.run(build_flow().run(task="How old is the lake?"))
    orchtrace.shutdown()


if __name__ == "__main__":
    main()
