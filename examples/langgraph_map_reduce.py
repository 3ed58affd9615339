"""Trace map-reduce on LangGraph: one mapper for each page, and one that merges them.

Each packet that the router sends is a life of the mapper of its own, and the merging
follows from all of them. Run it with `python examples/langgraph_map_reduce.py`; it needs
no network and no key.
"""

import operator
from collections import Counter
from typing import Annotated

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace

BOOK = [f"page {n}: " + "the lake is deep " * n for n in range(1, 41)]


class Count(TypedDict, total=False):
    """What the graph's nodes share."""

    pages: list[str]
    counts: Annotated[list[Counter[str]], operator.add]
    total: Counter[str]


class Page(TypedDict):
    """What one mapper reads."""

    text: str


def split(state: Count) -> Count:
    """Take the book apart."""
    return {"pages": state.get("pages", BOOK)}


def each(state: Count) -> list[Send]:
    """Send every page to a mapper."""
    return [Send("count", Page(text=text)) for text in state.get("pages", [])]


def count(page: Page) -> Count:
    """Count the words of one page."""
    return {"counts": [Counter(page["text"].split())]}


def merge(state: Count) -> Count:
    """Add the counts up."""
    return {"total": sum(state.get("counts", []), Counter())}


def build_graph() -> CompiledStateGraph:
    """Return the compiled graph; it knows nothing of tracing."""
    graph = StateGraph(Count)
    graph.add_node("split", split)
    graph.add_node("count", count)
    graph.add_node("merge", merge)
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", each, ["count"])
    graph.add_edge("count", "merge")
    graph.add_edge("merge", END)
    return graph.compile(name="word count")


def main() -> None:
    """Run the graph, and write its trace to `orchtrace-data/`."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    with orchtrace.instrument("langgraph"):
        result = build_graph().invoke({})
    orchtrace.shutdown()
    print("the lake is deep:", result["total"]["lake"], "times")
    print("The trace is in orchtrace-data/; draw it with: orchtrace show orchtrace-data/")


if __name__ == "__main__":
    main()
