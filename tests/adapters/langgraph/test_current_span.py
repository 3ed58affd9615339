"""A span that a node's own code opens lies below the node's span, however a graph is run."""

import asyncio
import itertools
import operator
import re
from types import SimpleNamespace
from typing import Annotated

import pytest
from langgraph import runtime
from langgraph.graph import START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from opentelemetry import trace as otel
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture

MODES = ["values", "updates", "debug", "tasks", "checkpoints", "messages", "custom"]
PAIRS = [list(pair) for pair in itertools.combinations(MODES, 2)]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def build(*, is_async=False):
    """Two nodes beside each other, then a graph within a graph; each opens a span."""

    def work(name):
        with otel.get_tracer("host").start_as_current_span(f"work of {name}"):
            return {"log": [name]}

    def node(name):
        async def anode(state):
            await asyncio.sleep(0)
            return work(name)

        return anode if is_async else lambda state: work(name)

    inner = StateGraph(State)
    inner.add_node("nested", node("nested"))
    inner.add_edge(START, "nested")
    middle = StateGraph(State)
    middle.add_node("inner", inner.compile())
    middle.add_edge(START, "inner")
    graph = StateGraph(State)
    for name in ("left", "right"):
        graph.add_node(name, node(name))
        graph.add_edge(START, name)
    graph.add_node("middle", middle.compile())
    graph.add_edge(["left", "right"], "middle")
    return graph.compile()


def check(captured, runs=1):
    """Each span of a node's own is a child of the node's, and each run is one trace."""
    spans = {span.context.span_id: span for span in captured.spans}
    own = [span for span in captured.spans if span.name.startswith("work of ")]
    assert len(own) == 3 * runs
    for span in own:
        assert spans[span.parent.span_id].name == span.name.replace("work of", "invoke_agent")
    assert len(captured.traces) == runs
    assert len({span.context.trace_id for span in captured.spans}) == runs


class Server:
    """Stands in for a client of a LangGraph server, and remembers what it was asked."""

    def __init__(self):
        self.runs = self
        self.asked = []

    def stream(self, **asked):
        self.asked.append(asked)
        yield SimpleNamespace(event="values", data={"log": ["far"]})


def consume(stream):
    return list(stream)


async def aconsume(stream):
    return [chunk async for chunk in stream]


@pytest.mark.parametrize("how", ["invoke", "batch"])
def test_run_at_once(traced, how):
    """`invoke` and `batch`."""
    graph = build()
    if how == "invoke":
        graph.invoke({})
        check(traced)
    else:
        graph.batch([{}, {}, {}])
        check(traced, 3)


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
@pytest.mark.parametrize("how", ["ainvoke", "abatch", "batch_as_completed"])
def test_run_at_once_in_a_loop(traced, how, is_async):
    """`ainvoke`, `abatch` and `abatch_as_completed`, of plain functions and of coroutines."""
    graph = build(is_async=is_async)
    if how == "ainvoke":
        asyncio.run(graph.ainvoke({}))
        check(traced)
    elif how == "abatch":
        asyncio.run(graph.abatch([{}, {}, {}]))
        check(traced, 3)
    else:
        asyncio.run(aconsume(graph.abatch_as_completed([{}, {}])))
        check(traced, 2)


@pytest.mark.parametrize("subgraphs", [False, True], ids=["top", "subgraphs"])
@pytest.mark.parametrize("mode", [*MODES, *PAIRS, MODES], ids=str)
def test_streamed(traced, mode, subgraphs):
    """`stream` in each mode, each pair of modes, and all."""
    consume(build().stream({}, stream_mode=mode, subgraphs=subgraphs))
    check(traced)


@pytest.mark.parametrize("subgraphs", [False, True], ids=["top", "subgraphs"])
@pytest.mark.parametrize("mode", [*MODES, *PAIRS, MODES], ids=str)
def test_streamed_in_a_loop(traced, mode, subgraphs):
    """`astream` likewise."""
    graph = build(is_async=True)
    asyncio.run(aconsume(graph.astream({}, stream_mode=mode, subgraphs=subgraphs)))
    check(traced)


@pytest.mark.filterwarnings("ignore:.*astream_events:")
@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async def"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_streamed_as_events(traced, version, is_async):
    """`astream_events`."""
    asyncio.run(aconsume(build(is_async=is_async).astream_events({}, version=version)))
    check(traced)


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.skipif(not hasattr(runtime, "RunControl"), reason="v3 came with LangGraph 1.2")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_streamed_as_events_of_the_third_kind(traced, is_async):
    """`stream_events` and `astream_events` of version v3, whose consumer drives the run."""
    graph = build(is_async=is_async)
    if is_async:

        async def main():
            run = await graph.astream_events({}, version="v3")
            return [event async for event in run]

        assert asyncio.run(main())
    else:
        assert list(graph.stream_events({}, version="v3"))
    check(traced)


def test_a_remote_graph_is_left_alone():
    """A graph on a server is asked the same with and without us, alone and as a node."""

    def ask():
        server = Server()
        remote = RemoteGraph("far", sync_client=server)
        graph = StateGraph(State)
        graph.add_node("far", remote)
        graph.add_edge(START, "far")
        results = [remote.invoke({}), graph.compile().invoke({}, {"configurable": {"mine": "1"}})]
        for asked in server.asked:
            config = asked["config"]["configurable"]
            config.pop("checkpoint_ns", None), config.pop("task_id", None)
        return results, repr(server.asked)

    without = ask()
    with capture() as captured, orchtrace.instrument("langgraph"):
        traced = ask()
    assert re.sub("[0-9a-f-]{32,}", "", traced[1]) == re.sub("[0-9a-f-]{32,}", "", without[1])
    assert traced[0] == without[0]
    assert len(captured.traces) == 1
