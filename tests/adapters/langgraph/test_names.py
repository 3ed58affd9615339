"""Names of nodes that are texts of a class of their own: members of enums, as applications have."""

import enum
import operator
from typing import Annotated

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy, Command, Send
from typing_extensions import TypedDict

from tests.trees import recording, tree


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class Name(str, enum.Enum):  # noqa: UP042 - StrEnum formats as what it holds, and this does not
    PLAN = "plan"
    WRITE = "write"
    CHECK = "check"
    DONE = "done"
    INNER = "inner"


class Odd(str):
    """A text that says something else when it is formatted."""

    __slots__ = ()

    def __str__(self):
        return f"<{self!r}>"

    def __format__(self, spec):
        return f"<{self!r}>"


def crew(name):
    """A graph that goes on by a router, a packet, a command, and a command to its parent."""
    inner = StateGraph(State)
    inner.add_node(
        name("check"), lambda state: Command(goto=name("done"), graph=Command.PARENT, update={})
    )
    inner.add_edge(START, name("check"))
    graph = StateGraph(State)
    graph.add_node(name("plan"), lambda state: {"log": ["plan"]})
    graph.add_node(name("write"), lambda state: Command(goto=name("inner"), update={"log": ["w"]}))
    graph.add_node(name("inner"), inner.compile())
    graph.add_node(name("done"), lambda state: {"log": ["done"]})
    graph.add_edge(START, name("plan"))
    graph.add_conditional_edges(
        name("plan"), lambda state: [Send(name("write"), {})], [name("write"), END]
    )
    graph.add_conditional_edges(name("done"), lambda state: END, [name("plan"), END])
    return graph.compile(name=name("plan"))


@pytest.mark.parametrize("name", [Name, Odd], ids=["enum", "odd"])
def test_a_node_is_called_what_its_name_holds(traced, name):
    """The trace is that of the same graph with plain names, hand-off and decisions included."""
    crew(name).invoke({"log": []})
    with recording() as plain:
        crew(str).invoke({"log": []})
    assert tree(traced.trace) == tree(plain.trace)
    assert [event.get("to") for event in traced.trace.events if event.verb == "delegate"] == [
        "done"
    ]
    for span in traced.spans:
        texts = [span.name, *(v for v in (span.attributes or {}).values() if isinstance(v, str))]
        assert {type(text) for text in texts} == {str}


def test_a_cached_node_and_a_command_of_a_tool_are_called_so_too(traced):
    """Where a cache answers, and where only a channel tells the goal, the name is plain as well."""

    class Tells:
        """Writes a command that the node does not return."""

        def __call__(self, state):
            return [{"log": ["tells"]}, Command(goto=Name.DONE)]

    graph = StateGraph(State)
    graph.add_node(Name.PLAN, Tells())
    graph.add_node(Name.DONE, lambda state: {"log": ["done"]}, cache_policy=CachePolicy())
    graph.add_edge(START, Name.PLAN)
    app = graph.compile(cache=InMemoryCache())
    app.invoke({"log": []})
    app.invoke({"log": []})
    chosen = [
        event["chosen"] for t in traced.traces for event in t.events if event.verb == "decide"
    ]
    assert chosen == [["done"], ["done"], ["done"]]
