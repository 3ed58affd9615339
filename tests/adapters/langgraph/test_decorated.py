"""`@orchtrace.agent` on nodes of every kind, and on graphs and their copies."""

import asyncio
import functools
import operator
from typing import Annotated

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import StreamWriter
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def _log(*words):
    return {"log": list(words)}


def node_of(config):
    return config["metadata"]["langgraph_node"]


def with_state(state: State):
    return _log("state")


def with_config(state: State, config: RunnableConfig):
    return _log(node_of(config))


def with_runtime(state: State, runtime: Runtime):
    return _log(type(runtime).__name__)


def with_store(state: State, *, store: BaseStore, writer: StreamWriter):
    writer("written")
    return _log(type(store).__name__)


async def is_async(state: State, config: RunnableConfig):
    return _log(node_of(config))


def with_more(more, state: State, config: RunnableConfig):
    return _log(more, node_of(config))


class Worker:
    def __call__(self, state: State, config: RunnableConfig):
        return _log(node_of(config))

    def work(self, state: State, runtime: Runtime):
        return _log(type(runtime).__name__)

    async def awork(self, state: State, *, store: BaseStore):
        return _log(type(store).__name__)


class AsyncWorker:
    async def __call__(self, state: State, config: RunnableConfig):
        return _log(node_of(config))


class Decorated:
    @orchtrace.agent("planner", role="lead")
    def work(self, state: State, config: RunnableConfig):
        return _log(node_of(config))


@orchtrace.agent("planner", role="lead")
class DecoratedClass:
    def __call__(self, state: State, config: RunnableConfig):
        return _log(node_of(config))


decorate = orchtrace.agent("planner", role="lead")

NODES = {
    "state": (decorate(with_state), ["state"]),
    "config": (decorate(with_config), ["node"]),
    "runtime": (decorate(with_runtime), ["Runtime"]),
    "store and writer": (decorate(with_store), ["InMemoryStore"]),
    "async": (decorate(is_async), ["node"]),
    "partial": (decorate(functools.partial(with_more, "more")), ["more", "node"]),
    "partial of decorated": (functools.partial(decorate(with_more), "more"), ["more", "node"]),
    "callable object": (decorate(Worker()), ["node"]),
    "async callable object": (decorate(AsyncWorker()), ["node"]),
    "bound method": (decorate(Worker().work), ["Runtime"]),
    "async bound method": (decorate(Worker().awork), ["InMemoryStore"]),
    "decorated method": (Decorated().work, ["node"]),
    "decorated class": (DecoratedClass(), ["node"]),
    "runnable": (decorate(RunnableLambda(with_config)), ["node"]),
    "async runnable": (decorate(RunnableLambda(is_async)), ["node"]),
}


def around(node, **options):
    """A graph of one node."""
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(store=InMemoryStore(), **options)


@pytest.mark.parametrize(("node", "logged"), NODES.values(), ids=NODES)
def test_a_decorated_node_of_any_signature_is_one_activation_and_gets_all_it_asks_for(
    traced, node, logged
):
    """Once a task, under the decorator's name and role; LangGraph injects what it names."""
    graph = around(node)
    assert asyncio.run(graph.ainvoke({})) == {"log": logged}
    opened = [e for e in traced.trace.events if e.id.endswith(".open")]
    assert [(e["to"], e["instance"], e.get("role")) for e in opened[1:]] == [
        ("planner", "planner#1", "lead")
    ]


@pytest.mark.parametrize("name", [n for n in NODES if not n.startswith("async")])
def test_a_decorated_node_runs_synchronously_too(traced, name):
    """The same of `invoke`, where the node has it."""
    node, logged = NODES[name]
    assert around(node).invoke({}) == {"log": logged}
    assert [s.name for s in traced.spans if s.name.startswith("invoke_agent")] == [
        "invoke_agent planner"
    ]


@pytest.mark.parametrize("name", NODES)
def test_a_decorated_node_does_without_tracing_what_it_did(name):
    """Where nothing is instrumented the graph gives the same."""
    node, logged = NODES[name]
    assert asyncio.run(around(node).ainvoke({})) == {"log": logged}


def test_copies_of_a_named_graph_keep_its_name_and_role(traced):
    """`with_config` makes a copy; a graph built from the same plan is another one."""
    builder = StateGraph(State)
    builder.add_node("node", with_state)
    builder.add_edge(START, "node")
    graph = builder.compile()
    other = builder.compile()
    orchtrace.agent(graph, name="scouts", role="team")
    for one in (graph, graph.with_config(tags=["x"]), graph.with_config(tags=["x"]), other):
        one.invoke({})
    assert [trace.events[0]["to"] for trace in traced.traces] == ["scouts"] * 3 + ["LangGraph"]


def test_a_copy_with_a_name_of_its_own_keeps_that(traced):
    """Whoever copies a graph under another name means another agent."""
    graph = around(with_state, name="first")
    orchtrace.agent(graph, name="scouts")
    graph.copy({"name": "second"}).invoke({})
    assert traced.trace.events[0]["to"] == "second"


EARLY = around(with_state, name="early")


def test_a_graph_compiled_before_instrumenting_is_traced(traced, read):
    """Nothing hangs on when a graph was made."""
    EARLY.invoke({})
    assert read.triggers(traced.trace) == {"node#1": [{"early#1"}]}


def test_a_node_that_took_the_place_of_another_is_known_for_itself(traced):
    """What is known of a graph's nodes is of those that run, be the graph patched in between."""
    graph = around(with_state)
    graph.invoke({})
    (name,) = (one for one in graph.nodes if not one.startswith("__"))
    planner = around(orchtrace.agent("planner", role="lead")(with_state))
    graph.nodes[name] = planner.nodes[name]
    graph.invoke({})
    first, second = (trace.events[1] for trace in traced.traces)
    assert (first["to"], first.get("role")) == (name, None)
    assert (second["to"], second.get("role")) == ("planner", "lead")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_decorated_function_of_the_functional_api_is_its_task(traced, read, is_async):
    """One activation a call under the decorator's name; a task is not the node of its name."""
    if is_async:

        @task
        @orchtrace.agent("worker", role="executor")
        async def awork(n):
            return n + 1

        @task(name="aflow")
        async def aplain(n):
            return n

        @entrypoint()
        @orchtrace.agent("boss")
        async def aflow(n):
            return await aplain(await awork(await awork(n)))

        assert asyncio.run(aflow.ainvoke(1)) == 3
    else:

        @task
        @orchtrace.agent("worker", role="executor")
        def work(n):
            return n + 1

        @task(name="flow")
        def plain(n):
            return n

        @entrypoint()
        @orchtrace.agent("boss")
        def flow(n):
            return plain(work(work(n).result()).result()).result()

        assert flow.invoke(1) == 3
    begun = [event for event in traced.trace.events[1:] if event.id.endswith(".open")]
    flow_ = "aflow" if is_async else "flow"
    assert [(e.verb, e["to"], e["instance"], e.get("role")) for e in begun] == [
        ("spawn", "boss", "boss#1", None),
        ("spawn", "worker", "worker#1", "executor"),
        ("delegate", "worker", "worker#1", "executor"),
        ("spawn", flow_, f"{flow_}#1", None),
    ]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_of_a_decorated_function_is_one_call(traced, is_async):
    """As replays need it: marked safe; the model's call and the function's are the same."""

    def look(word: str) -> str:
        """Look a word up."""
        return word.upper()

    async def look_later(word: str) -> str:
        """Look a word up."""
        return word.upper()

    function = orchtrace.tool("look", replay_safe=True)(look_later if is_async else look)
    asked = AIMessage("", tool_calls=[{"id": "7", "name": "look", "args": {"word": "tides"}}])
    graph = (
        StateGraph(MessagesState)
        .add_node("tools", ToolNode([tool("look")(function)]))
        .add_edge(START, "tools")
        .compile()
    )
    given = {"messages": [asked]}
    result = asyncio.run(graph.ainvoke(given)) if is_async else graph.invoke(given)
    assert result["messages"][-1].content == "TIDES"
    assert [e["tool"] for e in traced.trace.events if e.verb == "tool_call"] == ["look"]
