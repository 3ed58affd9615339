"""Name what LangGraph runs: a decorated node, a named graph, a task reward, a stop.

Decorators and the adapter fit together: the graph that a `@orchtrace.team` function
invokes is an agent of its run. Run it with `python examples/langgraph_decorators.py`; it
needs no network and no key.
"""

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace

ENOUGH = 2


class Draft(TypedDict, total=False):
    """What the graph's nodes share."""

    text: str
    rounds: int


@orchtrace.agent("writer", role="executor")
def write(state: Draft) -> Draft:
    """Write, or write again."""
    rounds = state.get("rounds", 0) + 1
    return {"text": "water " * rounds, "rounds": rounds}


@orchtrace.agent("critic", role="critic")
def criticise(state: Draft) -> Draft:
    """Read the draft; end the run once it is good."""
    if state["rounds"] == ENOUGH:
        orchtrace.stop("quality_met")
    return {}


def build_graph() -> CompiledStateGraph:
    """Return a graph that goes round until the critic is content, named `drafting`."""
    graph = StateGraph(Draft)
    graph.add_node("write", write)
    graph.add_node("criticise", criticise)
    graph.add_edge(START, "write")
    graph.add_edge("write", "criticise")
    graph.add_conditional_edges("criticise", lambda s: END if s["rounds"] == ENOUGH else "write")
    return orchtrace.agent("drafting", role="orchestrator")(graph.compile())


def has_enough(text: str) -> float:
    """Reward the run: 1 if the draft has as many words as are enough."""
    return float(len(text.split()) == ENOUGH)


@orchtrace.team("newsroom", reward=has_enough)
def newsroom() -> str:
    """Run the graph as part of a larger team."""
    return build_graph().invoke({})["text"]


def main() -> None:
    """Run the team, and write its trace to `orchtrace-data/`."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("langgraph"):
        print(newsroom())
    orchtrace.shutdown()
    print("The trace is in orchtrace-data/; draw it with: orchtrace show orchtrace-data/")


if __name__ == "__main__":
    main()
