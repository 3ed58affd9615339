"""Trace a LangGraph supervisor with parallel workers: one call before it runs.

A supervisor sends a worker out for each question; a join merges what they bring. Models
are scripted. Run it with `python examples/langgraph_supervisor.py`; it needs no network
and no key.
"""

import operator
from typing import Annotated

from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace

DEPTHS = {"Como": "410 m", "Garda": "346 m", "Iseo": "251 m"}


class Survey(TypedDict, total=False):
    """What the graph's nodes share."""

    lakes: list[str]
    findings: Annotated[list[str], operator.add]
    report: str


class Errand(TypedDict):
    """What one worker is sent out with."""

    lake: str


@tool
def depth(lake: str) -> str:
    """Look the depth of a lake up."""
    return DEPTHS[lake]


def asks_for_depth(lake: str) -> FakeMessagesListChatModel:
    """Return a model that asks for the tool; a real one would be a provider's."""
    call = {"name": "depth", "args": {"lake": lake}, "id": f"depth-{lake}"}
    usage = {"input_tokens": 30, "output_tokens": 9, "total_tokens": 39}
    answer = AIMessage("", tool_calls=[call], usage_metadata=usage)
    return FakeMessagesListChatModel(responses=[answer])


def supervisor(state: Survey) -> Survey:
    """Decide which lakes to survey."""
    return {"lakes": state.get("lakes", sorted(DEPTHS))}


def send_out(state: Survey) -> list[Send]:
    """Send a worker out for each lake."""
    return [Send("worker", Errand(lake=lake)) for lake in state["lakes"]]


def worker(errand: Errand) -> Survey:
    """Ask the model, and the tool that it asks for."""
    answer = asks_for_depth(errand["lake"]).invoke(f"How deep is Lake {errand['lake']}?")
    found = depth.invoke(answer.tool_calls[0])
    return {"findings": [f"Lake {errand['lake']}: {found.content}"]}


def merge(state: Survey) -> Survey:
    """Put the findings together."""
    return {"report": "\n".join(sorted(state["findings"]))}


def build_graph() -> CompiledStateGraph:
    """Return the compiled graph; it knows nothing of tracing."""
    graph = StateGraph(Survey)
    graph.add_node("supervisor", supervisor)
    graph.add_node("worker", worker)
    graph.add_node("merge", merge)
    graph.add_edge(START, "supervisor")
    graph.add_conditional_edges("supervisor", send_out, ["worker"])
    graph.add_edge("worker", "merge")
    graph.add_edge("merge", END)
    return graph.compile(name="survey")


def main() -> None:
    """Run the graph, and write its trace to `orchtrace-data/`."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("langgraph"):
        result = build_graph().invoke({})
    orchtrace.shutdown()
    print(result["report"])
    print("The trace is in orchtrace-data/; draw it with: orchtrace show orchtrace-data/")


if __name__ == "__main__":
    main()
