"""Every way out of a graph: spans end once, status and stop say what happened."""

import asyncio
import contextlib
import gc
import operator
import threading
from typing import Annotated

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_langgraph import _tasks
from orchtrace_otel.testing import capture


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def loop_of(node, **options):
    """A graph of one node that leads to itself for ever."""
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", "node")
    return graph.compile(**options)


def works(state):
    return {"log": ["node"]}


def test_an_error_of_a_node_reaches_the_host_as_the_same_object(traced, read):
    """The host gets its exception; the trace says which task failed, by class alone."""
    error = ValueError("a secret")

    def fails(state):
        raise error

    with pytest.raises(ValueError, match="a secret") as caught:
        loop_of(fails).invoke({})
    assert caught.value is error
    assert read.stop(traced.trace) == ("error", "error", "ValueError")
    assert [e["status"] for e in traced.trace.events if e.agent == "node"] == ["error"]
    assert "secret" not in traced.trace.to_json()
    assert all("secret" not in span.to_json() for span in traced.spans)


def test_a_recursion_limit_is_max_steps(traced, read):
    """Out of steps: the run stops with max_steps, after the last task."""
    with pytest.raises(GraphRecursionError):
        loop_of(works).invoke({}, {"recursion_limit": 3})
    assert read.stop(traced.trace) == ("max_steps", "error", "out_of_steps")
    assert [e["status"] for e in traced.trace.events if e.agent == "node"] == ["ok"] * 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_breakpoint_is_a_pause(traced, read, when):
    """`interrupt_before` and `interrupt_after` pause; the detail says which."""
    graph = loop_of(works, checkpointer=InMemorySaver(), **{f"interrupt_{when}": ["node"]})
    graph.invoke({}, {"configurable": {"thread_id": "1"}})
    assert read.stop(traced.trace) == ("paused", "paused", f"interrupt_{when}")


@pytest.mark.parametrize("how", ["close", "collected"])
def test_a_consumer_that_leaves_is_no_error(traced, read, how):
    """A stream that is closed early, or dropped, ends its run."""
    stream = loop_of(works).stream({})
    next(stream)
    if how == "close":
        stream.close()
    del stream
    gc.collect()
    assert read.stop(traced.trace)[0] == "consumer_closed"
    assert "error" not in {event["status"] for event in traced.trace.events}
    assert "node" in {
        e.agent
        for e in traced.trace.events
        for edge in traced.trace.edges
        if edge.dst == traced.trace.events[-1].id and e.id == edge.src
    }


def test_an_async_stream_may_be_driven_and_closed_by_any_task(traced, read):
    """Each step in a task of its own: nothing is attached across a yield."""

    async def main():
        stream = loop_of(works).astream({})
        for _ in range(2):
            await asyncio.create_task(anext(stream))
        await asyncio.create_task(stream.aclose())

    asyncio.run(main())
    assert read.stop(traced.trace)[0] == "consumer_closed"


def test_a_cancelled_run_is_cancelled(traced, read):
    """A caller that cancels ends task and run, neither as an error."""
    entered = asyncio.Event()

    async def waits(state):
        entered.set()
        await asyncio.Event().wait()

    async def main():
        run = asyncio.create_task(loop_of(waits).ainvoke({}))
        await entered.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())
    assert read.stop(traced.trace)[:2] == ("cancelled", "cancelled")
    assert [e["status"] for e in traced.trace.events if e.agent == "node"] == ["cancelled"]


def test_a_failing_sibling_cancels_and_only_it_is_an_error(traced, read):
    """Of two parallel tasks one fails: the other was cancelled."""
    entered = asyncio.Event()

    async def waits(state):
        entered.set()
        await asyncio.Event().wait()

    async def fails(state):
        await entered.wait()
        raise KeyError("key")

    graph = StateGraph(State)
    graph.add_node("waits", waits)
    graph.add_node("fails", fails)
    graph.add_edge(START, "waits")
    graph.add_edge(START, "fails")
    with pytest.raises(KeyError):
        asyncio.run(graph.compile().ainvoke({}))
    status = {e.agent: e["status"] for e in traced.trace.events if e.verb == "return"}
    assert status == {"waits": "cancelled", "fails": "error"}


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_run_that_is_cancelled_while_it_waits_for_its_tasks_ends_them(traced, read, goes_on):
    """Agents of nested teams fail at once: LangGraph waits no more for what the inner one runs.

    What goes on in the background all the same follows from what it was left with.
    """
    entered, left, followed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def search(query: str) -> str:
        """Search."""
        entered.set()
        await left.wait()
        return "found"

    async def calls(state):
        await search.ainvoke({"query": "?"})

    async def fails(state):
        await entered.wait()
        raise ValueError

    async def catches(state):
        with contextlib.suppress(ValueError):
            await team.ainvoke({})
        if goes_on:
            left.set()
            await followed.wait()

    async def follows(state):
        followed.set()

    graph = StateGraph(State)
    graph.add_node("calls", calls)
    graph.add_node("next", follows)
    graph.add_edge(START, "calls")
    graph.add_edge("calls", "next")
    for name in ("worker", "inner"):
        around = StateGraph(State)
        around.add_node(name, graph.compile())
        around.add_node("fails", fails)
        around.add_edge(START, name)
        around.add_edge(START, "fails")
        graph = around
    team = graph.compile(name="team")
    graph = StateGraph(State)
    graph.add_node("catches", catches)
    graph.add_edge(START, "catches")
    asyncio.run(graph.compile().ainvoke({}))
    trace = traced.trace
    assert trace.flags == ()
    assert [(e["instance"], e["status"]) for e in trace.events if e.verb == "tool_result"] == [
        ("calls#1", "cancelled")
    ]
    status = {e["instance"]: e["status"] for e in trace.events if e.verb == "return"}
    assert status["calls#1"] == status["worker#1"] == status["inner#1"] == "cancelled"
    assert read.triggers(trace).get("next#1") == ([{"calls#1"}] if goes_on else None)


@pytest.mark.parametrize("way_out", ["sibling", "caller"])
@pytest.mark.parametrize("kind", ["decorated", "langchain"])
def test_what_goes_on_in_a_thread_that_nobody_waits_for_ends_with_its_task(traced, kind, way_out):
    """Threads cannot be ended: agents and tools at work in them are in the trace, as cancelled."""
    begun, over = threading.Event(), threading.Event()

    def search(query: str) -> str:
        """Search."""
        begun.set()
        over.wait(10)
        return "found"

    looks_up, search_tool = orchtrace.tool(search), tool(search)
    kinds = {
        "decorated": lambda: looks_up("?"),
        "langchain": lambda: search_tool.invoke({"query": "?"}),
    }

    @orchtrace.agent
    def scout():
        kinds[kind]()

    def calls(state):
        scout()

    async def fails(state):
        await asyncio.to_thread(begun.wait, 10)
        raise ValueError

    async def main(graph):
        asked = asyncio.create_task(graph.ainvoke({}))
        if way_out == "caller":
            await asyncio.to_thread(begun.wait, 10)
            asked.cancel()
        await asyncio.wait([asked])
        over.set()
        return asked.cancelled() or asked.exception()

    graph = StateGraph(State)
    graph.add_node("calls", calls)
    graph.add_edge(START, "calls")
    if way_out == "sibling":
        graph.add_node("fails", fails)
        graph.add_edge(START, "fails")
    asyncio.run(main(graph.compile()))
    trace = traced.trace
    assert trace.flags == ()
    ends = [
        (e.agent, e["status"])
        for e in trace.events
        if e.verb in {"tool_result", "return"} and e.agent != "fails"
    ]
    assert ends == [("scout", "cancelled"), ("scout", "cancelled"), ("calls", "cancelled")]


def test_an_input_that_is_refused_ends_the_run_as_an_error(traced, read):
    """A graph that does not even begin leaves no span open."""
    with pytest.raises(Exception, match="input"):
        loop_of(works).invoke(None)
    assert read.stop(traced.trace)[0] == "error"


def test_a_graph_called_in_a_task_that_outlived_its_run_is_a_run_of_its_own(traced) -> None:
    """The run that the task came from is over, so that what begins in it is not that run's."""
    tasks: list[asyncio.Task[object]] = []

    async def outlive() -> None:
        may_go_on = asyncio.Event()

        async def go_on() -> None:
            await may_go_on.wait()
            await _graph("second", lambda _: {}).ainvoke({})

        async def leave(_: object) -> dict[str, object]:
            tasks.append(asyncio.create_task(go_on()))
            return {}

        await _graph("first", leave).ainvoke({})
        may_go_on.set()
        await tasks[0]

    asyncio.run(outlive())
    assert [[event.verb for event in trace.events] for trace in traced.traces] == [
        ["begin", "spawn", "return", "stop"],
        ["begin", "spawn", "return", "stop"],
    ]
    assert [trace.stop.agent for trace in traced.traces] == ["first", "second"]


def _graph(name, node):
    graph = StateGraph(dict)
    graph.add_node("node", node)
    graph.set_entry_point("node")
    return graph.compile(name=name)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("steps", range(1, 6))
def test_a_run_ends_though_the_hooks_are_taken_out(read, steps, is_async):
    """Whenever that is: the host gets the rest, and the trace says that it was not seen."""
    inner = StateGraph(State)
    inner.add_node("inner", lambda state: {"log": ["inner"]})
    inner.add_edge(START, "inner")
    graph = StateGraph(State)
    for name, node in (("a", lambda state: {"log": ["a"]}), ("sub", inner.compile())):
        graph.add_node(name, node)
    graph.add_edge(START, "a")
    graph.add_edge("a", "sub")
    graph = graph.compile()
    options = {"stream_mode": "tasks", "subgraphs": True}
    wanted = len([*graph.stream({"log": []}, **options)])

    async def stream():
        handle, count = orchtrace.instrument("langgraph"), 0
        async for _ in graph.astream({"log": []}, **options):
            count += 1
            if count == steps:
                handle.uninstrument()
        return count

    with capture() as captured:
        if is_async:
            assert asyncio.run(stream()) == wanted
        else:
            with orchtrace.instrument("langgraph"):
                chunks = graph.stream({"log": []}, **options)
                for _ in range(steps):
                    next(chunks)
            assert steps + len([*chunks]) == wanted
        assert graph.invoke({"log": []}) == {"log": ["a", "a", "inner"]}
    assert (captured.open, captured.ended_twice) == ({}, [])
    trace = captured.trace
    assert read.stop(trace) == ("information_complete", "ok", None)
    assert trace.stop["flags"] == ["given_up"]
    assert _tasks.waiting == {}
