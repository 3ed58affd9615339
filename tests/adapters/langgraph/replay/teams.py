"""Teams that are replayed: small graphs that need no model, and how they are run."""

import asyncio
import operator
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Annotated, Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Send
from typing_extensions import TypedDict

from orchtrace_otel import Trace
from orchtrace_otel.replay import Part, Slot
from orchtrace_otel.testing import Captured


class State(TypedDict):
    """What the teams of these tests share."""

    topics: list[str]
    findings: Annotated[list[str], operator.add]
    notes: Annotated[list[str], operator.add]
    draft: str
    answer: str


Update = dict[str, Any]  # what a node writes of it
Node = Callable[[Any], Any]


class Calls:
    """Nodes that count how often they are called."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._lock = threading.Lock()

    def node(self, name: str, function: Node) -> Any:
        def call(state: Any) -> Any:
            with self._lock:
                self.count[name] += 1
            return function(state)

        return call

    def anode(self, name: str, function: Node) -> Any:
        async def acall(state: Any) -> Any:
            with self._lock:
                self.count[name] += 1
            await asyncio.sleep(0)
            return function(state)

        return acall

    def taken(self) -> dict[str, int]:
        """What was called since it was asked last."""
        taken = dict(self.count)
        self.count.clear()
        return taken


def says(text: str) -> Node:
    return lambda _: {"findings": [text]}


def joins(state: State) -> Update:
    return {"answer": " ".join(state.get("findings", []))}


def has_both(state: Any) -> float:
    """The answer needs two of the three."""
    return float("red" in state["answer"] and "blue" in state["answer"])


WORDS = {"ann": "red", "bob": "blue", "cid": "green"}

AGENTS = [Part("agent", name) for name in WORDS]
LETTERS = [Slot(name, "writer", 1) for name in WORDS]


def research(calls: Calls, make: str = "node", **options: Any) -> Any:
    """A plan, three researchers beside each other, and a writer who joins what they found."""
    graph: Any = StateGraph(State)
    node: Callable[[str, Node], Any] = getattr(calls, make)
    graph.add_node("plan", node("plan", lambda _: {"topics": [*WORDS]}))
    for name, word in WORDS.items():
        graph.add_node(name, node(name, says(word)))
        graph.add_edge("plan", name)
    graph.add_node("writer", node("writer", joins))
    graph.add_edge([*WORDS], "writer")
    graph.add_edge(START, "plan")
    options.setdefault("checkpointer", InMemorySaver())
    return graph.compile(name="team", **options)


def each_topic(state: State) -> list[Send]:
    """A packet for each topic of the plan."""
    return [Send("scout", {"topic": topic}) for topic in state["topics"]]


def fan_out(calls: Calls) -> Any:
    """A planner sends one researcher out for each topic."""
    graph: Any = StateGraph(State)
    graph.add_node("plan", calls.node("plan", lambda _: {"topics": ["red", "blue", "green"]}))
    graph.add_node("scout", calls.node("scout", lambda errand: {"findings": [errand["topic"]]}))
    graph.add_node("writer", calls.node("writer", joins))
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", each_topic, ["scout"])
    graph.add_edge("scout", "writer")
    return graph.compile(checkpointer=InMemorySaver())


def in_a_row(
    nodes: Mapping[str, Any], schema: Any = State, *, context_schema: Any = None, **options: Any
) -> Any:
    """Agents who work one after another."""
    graph: Any = StateGraph(schema, context_schema=context_schema)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for before, after in pairwise([START, *nodes]):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=InMemorySaver(), **options)


CONFIG: Any = {"configurable": {"thread_id": "one"}}


def ran(
    traced: Captured, graph: Any, given: Any = None, *, is_async: bool = False
) -> tuple[Trace, Any]:
    """Run a graph once, and return its trace and where its run is."""
    given = {"findings": []} if given is None else given
    if is_async:
        asyncio.run(graph.ainvoke(given, CONFIG))
    else:
        graph.invoke(given, CONFIG)
    return traced.traces[-1], graph.with_config(configurable={"thread_id": "one"})
