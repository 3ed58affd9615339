"""Versions of LangGraph and LangChain that lack what the adapter hooks into."""

import asyncio
import operator
from typing import Annotated

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from opentelemetry.instrumentation.utils import suppress_instrumentation
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_langgraph import _hooks
from orchtrace_otel import _guard
from orchtrace_otel.testing import capture

CORE = [name for _, name, wrapper, _ in _hooks.HOOKS if wrapper in _hooks._CORE]


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class Model(FakeMessagesListChatModel):
    model_name: str = "scripted"


@tool
def add(x: int) -> str:
    """Add one."""
    return str(x + 1)


def works(state):
    call = {"name": "add", "args": {"x": 1}, "id": "c1"}
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    asked = Model(responses=[AIMessage("", tool_calls=[call], usage_metadata=usage)]).invoke("?")
    return {"log": [add.invoke(asked.tool_calls[0]).content]}


def chain(*nodes, **options):
    graph = StateGraph(Log)
    before = START
    for name, node in nodes:
        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    return graph.compile(**options)


def team(**options):
    """Two nodes at once, one of them a graph, and their join."""
    graph = StateGraph(Log)
    graph.add_node("left", works)
    graph.add_node("right", chain(("x", works)))
    graph.add_node("join", lambda state: {"log": ["join"]})
    for name in ("left", "right"):
        graph.add_edge(START, name)
    graph.add_edge(["left", "right"], "join")
    return graph.compile(name="team", **options)


def hide(monkeypatch, hidden):
    """Let the adapter look for a name that is not there."""
    monkeypatch.setattr(_guard, "_told", set())
    hooks = [
        (owner, "gone" if (owner, name) == hidden else name, wrapper, may_lack)
        for owner, name, wrapper, may_lack in _hooks.HOOKS
    ]
    monkeypatch.setattr(_hooks, "HOOKS", hooks)


def run(graph, given, *, is_async, config=None):
    return asyncio.run(graph.ainvoke(given, config)) if is_async else graph.invoke(given, config)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    "hidden", [hook[:2] for hook in _hooks.HOOKS], ids=lambda h: f"{h[0].split(':')[-1]}.{h[1]}"
)
def test_any_missing_hook_is_at_most_one_warning_and_never_an_error(
    monkeypatch, caplog, referee, is_async, hidden
):
    """The host's results are the same, every span ends, and the trace is valid."""
    graph = team()
    expected = run(graph, {}, is_async=is_async)
    hide(monkeypatch, hidden)
    for _ in range(2):
        with capture() as captured, orchtrace.instrument("langgraph"):
            assert run(graph, {}, is_async=is_async) == expected
        assert captured.open == {}
        assert len(captured.traces) == 1
        referee(captured.trace)
    told = [one for one in caplog.records if one.name.startswith("orchtrace")]
    assert len(told) <= 1


def test_without_the_loop_too_nothing_is_traced_where_the_host_suppresses_it(monkeypatch):
    """Neither graphs nor turns and tool calls in them."""
    hide(monkeypatch, next(hook[:2] for hook in _hooks.HOOKS if hook[1] in CORE))

    def quiet(state):
        with suppress_instrumentation():
            return team().invoke({})

    with capture() as captured, orchtrace.instrument("langgraph"):
        chain(("quiet", quiet)).invoke({})
    agents = [event["to"] for event in captured.trace.events if event.verb == "spawn"]
    assert (agents, captured.trace.turns) == (["quiet"], ())


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", CORE)
def test_without_the_loop_graphs_are_traced_from_callbacks(
    monkeypatch, caplog, read, is_async, name
):
    """Tasks follow from the step before, which is said; turns and tool calls are theirs."""
    hide(monkeypatch, next(hook[:2] for hook in _hooks.HOOKS if hook[1] == name))
    with capture() as captured, orchtrace.instrument("langgraph"):
        run(team(), {}, is_async=is_async)
    trace = captured.trace
    assert read.triggers(trace) == {
        "left#1": [{"team#1"}],
        "right#1": [{"team#1"}],
        "x#1": [{"LangGraph#1"}],
        "LangGraph#1": [{"right#1"}],
        "join#1": [{"left#1", "right#1"}],
    }
    openings = [e for e in trace.events if e.verb == "spawn"]
    assert {e.get("causality") for e in openings} == {"inferred"}
    assert sorted(turn.agent for turn in trace.turns) == ["left", "x"]
    assert (trace.costs["tokens"], trace.costs["tool_calls"]) == (14, 2)
    assert read.stop(trace)[0] == "information_complete"
    assert len([one for one in caplog.records if one.name.startswith("orchtrace")]) == 1


@pytest.mark.usefixtures("hasty")
# Older releases of LangChain hide these in a way that threads undo for each other.
@pytest.mark.filterwarnings("ignore:Importing .* from langchain root module")
def test_tasks_that_begin_at_once_open_their_graph_once(monkeypatch):
    """Those of one step begin in threads of their own, which may be interrupted anywhere."""
    hide(monkeypatch, ("langgraph.pregel._runner", "run_with_retry"))
    graph = team()
    with capture() as captured, orchtrace.instrument("langgraph"):
        for _ in range(30):
            run(graph, {}, is_async=False)
    assert captured.open == {}
    agents = [sorted(e["to"] for e in trace.events if "to" in e.keys) for trace in captured.traces]
    assert len(agents) == 30
    assert agents == agents[:1] * 30


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_callbacks_tell_how_a_run_ended(monkeypatch, read, is_async):
    """A pause is a pause, a failure the same exception, and nothing stays open."""
    from orchtrace_langgraph import _callbacks

    hide(monkeypatch, next(hook[:2] for hook in _hooks.HOOKS if hook[1] == "tick"))
    error = ValueError("no")

    def fails(state):
        raise error

    asks = chain(("ask", lambda state: {"log": [interrupt("?")]}), checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    with capture() as captured, orchtrace.instrument("langgraph"):
        with pytest.raises(ValueError, match="no") as raised:
            run(chain(("fails", fails)), {}, is_async=is_async)
        run(asks, {}, is_async=is_async, config=thread)
        run(asks, Command(resume="yes"), is_async=is_async, config=thread)
        stream = chain(("a", works), ("b", works)).stream({})
        next(stream)
        stream.close()
        assert (_callbacks.tasks, _callbacks._graphs, dict(_callbacks._chains)) == ({}, {}, {})
    assert raised.value is error
    assert captured.open == {}
    assert [read.stop(trace)[:2] for trace in captured.traces] == [
        ("error", "error"),
        ("paused", "paused"),
        ("information_complete", "ok"),
        ("consumer_closed", "cancelled"),
    ]
