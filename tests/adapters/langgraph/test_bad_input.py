"""Graphs that go wrong: the host sees what it saw without us, and the trace says what happened."""

import asyncio
import operator
import socket
import threading
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import capture

THREAD = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    held: Any


class OddError(Exception):
    """An exception that says nothing of itself."""

    def __str__(self):
        raise AssertionError("told")

    def __eq__(self, other):
        raise AssertionError("compared")

    __hash__ = None


class Leaving(BaseException):
    """One that no `except Exception` catches."""


class Client:
    """Something that must be neither copied, nor compared, nor shown, nor written."""

    def __init__(self):
        self.lock = threading.RLock()
        self.socket = socket.socket()

    def __getstate__(self):
        raise AssertionError("copied or written")

    def __eq__(self, other):
        raise AssertionError("compared")

    __hash__ = None

    def __repr__(self):
        raise AssertionError("shown")

    def __bool__(self):
        raise AssertionError("asked")

    def __len__(self):
        raise AssertionError("measured")


def graph_of(node, *edges, **options):
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    for edge in edges:
        graph.add_edge(*edge)
    return graph.compile(**options)


def raises(error):
    def node(state):
        raise error

    return node


def returns(value):
    return lambda state: value


def _for_ever():
    return graph_of(returns({"log": ["again"]}), ("node", "node"))


BAD = {
    "an error": (lambda: graph_of(raises(ValueError("a secret"))), ["error"]),
    "an error that says nothing": (lambda: graph_of(raises(OddError())), ["error"]),
    "an error of errors": (
        lambda: graph_of(raises(ExceptionGroup("several", [ValueError(), KeyError()]))),
        ["error"],
    ),
    "one that passes by": (lambda: graph_of(raises(Leaving())), ["external"]),
    "the interpreter's end": (lambda: graph_of(raises(SystemExit(3))), ["external", "cancelled"]),
    "a recursion": (_for_ever, ["max_steps"]),
    "a text for a state": (lambda: graph_of(returns("text")), ["error"]),
    "a key that is none": (lambda: graph_of(returns({"log": 5})), ["error"]),
    "a node that is none": (
        lambda: graph_of(returns(Command(goto="nowhere"))),
        ["information_complete", "error"],
    ),
    "a packet to nowhere": (
        lambda: graph_of(returns(Command(goto=[Send("nowhere", 1)]))),
        ["information_complete", "error"],
    ),
    "what cannot be written": (
        lambda: graph_of(returns({"held": threading.Lock()}), checkpointer=InMemorySaver()),
        ["error"],
    ),
}


def outcome(graph, *, is_async):
    """What the host sees: a result, or the class, arguments and notes of an exception."""
    try:
        if is_async:
            return "result", asyncio.run(graph.ainvoke({}, {**THREAD, "recursion_limit": 7}))
        return "result", graph.invoke({}, {**THREAD, "recursion_limit": 7})
    except BaseException as error:  # noqa: BLE001 - it is what the host sees
        notes = [note.partition(" and id")[0] for note in getattr(error, "__notes__", ())]
        return type(error), [type(arg) for arg in error.args], notes[-1:]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", BAD)
def test_the_host_sees_what_it_sees_without_us(name, is_async, read, referee, caplog):
    """Result or exception, and what LangGraph logs, are equal; the trace has its stop."""
    build, reasons = BAD[name]
    without = outcome(build(), is_async=is_async)
    logged = [record.getMessage() for record in caplog.records]
    caplog.clear()
    with capture() as captured, orchtrace.instrument("langgraph"):
        traced = outcome(build(), is_async=is_async)
    assert repr(traced) == repr(without)
    assert [record.getMessage() for record in caplog.records] == logged
    assert (captured.open, captured.started) == ({}, captured.ended)
    referee(captured.trace)
    assert read.stop(captured.trace)[0] in reasons
    assert "secret" not in captured.trace.to_json()


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_state_full_of_locks_and_clients_is_never_touched(traced, is_async):
    """In the input, in updates, in Sends and in what routers choose from."""
    client = Client()
    graph = StateGraph(State)
    graph.add_node("first", lambda state: {"held": state["held"], "log": ["first"]})
    graph.add_node("second", lambda packet: {"log": [str(packet["held"] is client)]})
    graph.add_node("third", lambda state: Command(update={"held": client}, goto=[]))
    graph.add_edge(START, "first")
    graph.add_conditional_edges("first", lambda state: [Send("second", state)], ["second"])
    graph.add_edge("second", "third")
    compiled = graph.compile()
    given = {"held": client}
    result = asyncio.run(compiled.ainvoke(given)) if is_async else compiled.invoke(given)
    assert result["held"] is client
    assert result["log"] == ["first", "True"]
    assert traced.trace.stop["flags"] == []
    client.socket.close()


def test_a_graph_that_hangs_until_it_is_cancelled(traced, read):
    """With a time limit of the host's: the host gets its TimeoutError, the run is cancelled."""

    async def hangs(state):
        await asyncio.Event().wait()

    async def main():
        await asyncio.wait_for(graph_of(hangs).ainvoke({}), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert read.stop(traced.trace)[:2] == ("cancelled", "cancelled")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_graph_that_hangs_until_its_own_limit(traced, read, is_async):
    """With LangGraph's limit on a step the run ends with its error, and nothing stays open."""
    free = threading.Event()

    def hangs(state):
        free.wait(0.3)

    async def ahangs(state):
        await asyncio.Event().wait()

    graph = graph_of(ahangs if is_async else hangs)
    graph.step_timeout = 0.05
    with pytest.raises(TimeoutError):
        asyncio.run(graph.ainvoke({})) if is_async else graph.invoke({})
    free.set()
    assert read.stop(traced.trace)[0] == "error"


def test_a_graph_compiled_before_has_its_failures_traced_too():
    """The order of compiling and instrumenting does not matter for what goes wrong either."""
    error = ValueError()
    graph = graph_of(raises(error))
    with pytest.raises(ValueError) as before:  # noqa: PT011 - it has no message
        graph.invoke({})
    with (
        capture() as captured,
        orchtrace.instrument("langgraph"),
        pytest.raises(ValueError) as during,  # noqa: PT011 - it has no message
    ):
        graph.invoke({})
    assert before.value is during.value is error
    assert captured.trace.stop["stop_reason"] == "error"
    assert captured.started == captured.ended
