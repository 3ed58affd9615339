"""Replays that cannot be had are counted, with why; a run that has none is told what it lacks."""

import threading
from inspect import signature
from typing import Any

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.runtime import Runtime
from langgraph.types import CachePolicy, Command, interrupt
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_langgraph import Recorded
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.replay import Part, Player, Slot, is_replaying
from orchtrace_otel.testing import Captured
from tests.adapters.langgraph.replay.teams import (
    AGENTS,
    CONFIG,
    Calls,
    State,
    Update,
    fan_out,
    has_both,
    in_a_row,
    joins,
    ran,
    research,
    says,
)


def test_what_has_to_be_asked_of_a_person_is_blocked(traced: Captured) -> None:
    """A replay that comes to an interrupt has no value."""

    def writer(state: State) -> Update:
        if "red" not in state.get("findings", []):
            interrupt("what now?")
        return joins(state)

    trace, target = ran(traced, in_a_row({"ann": says("red"), "writer": writer}))
    found = orchtrace.counterfactual(
        trace, target, [Part("agent", "ann")], score=lambda _: 1.0, replays=2
    )
    assert found.lost == {"blocked": 1}


def test_players_that_no_node_is_are_blocked(traced: Captured, calls: Calls) -> None:
    """The graph itself, what nobody wrote, a name that is unknown: each says so."""
    trace, target = ran(traced, research(calls))
    unknown: list[Player] = [
        Part("agent", "team"),
        Part("role", "critic"),
        Part("dependency", "ann<-bob"),
        Slot("ann", "writer", 2),
    ]
    found = orchtrace.counterfactual(trace, target, unknown, score=has_both, replays=2)
    assert [effect.lost for effect in found.effects] == [{"blocked": 2}] * 4


def test_a_graph_inside_with_a_memory_of_its_own_is_blocked(traced: Captured) -> None:
    """What it remembers from one call to the next is in other checkpoints."""
    inner: Any = StateGraph(State)
    inner.add_node("clerk", says("blue"))
    inner.add_edge(START, "clerk")
    desk = inner.compile(checkpointer=True)
    trace, target = ran(traced, in_a_row({"ann": says("red"), "desk": desk, "writer": joins}))
    found = orchtrace.counterfactual(trace, target, AGENTS[:1], score=has_both, replays=2)
    assert found.lost == {"blocked": 2}


def test_a_replay_that_raises_or_never_ends_costs_itself_alone(traced: Captured) -> None:
    """Counted, and the rest has its numbers."""
    held = threading.Event()
    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("bob", says("blue"))

    def writer(state: State) -> Update:
        if is_replaying() and "red" not in state["findings"]:
            msg = "no red"
            raise ValueError(msg)
        if is_replaying() and "blue" not in state["findings"]:
            held.wait(30)
        return joins(state)

    graph.add_node("writer", writer)
    graph.add_edge(START, "ann")
    graph.add_edge(START, "bob")
    graph.add_edge(["ann", "bob"], "writer")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    try:
        found = orchtrace.counterfactual(
            trace, target, AGENTS[:2], score=has_both, replays=2, timeout_s=1.0
        )
    finally:
        held.set()
    assert [effect.lost for effect in found.effects] == [{"failed": 1}, {"timed_out": 1}]
    assert found.left_behind == 1


@pytest.mark.parametrize(
    ("made", "must"),
    [
        ({"checkpointer": None}, "a checkpointer"),
        ({"thread": "other"}, "must have checkpoints"),
        ({"thread": None}, "which thread"),
        ({"durability": "exit"}, "durability"),
    ],
)
def test_what_is_missing_is_said(
    traced: Captured, calls: Calls, made: dict[str, Any], must: str
) -> None:
    """No saver, another thread, none at all, or checkpoints of the end alone."""
    graph = research(calls, checkpointer=made.get("checkpointer", InMemorySaver()))
    options = {"durability": made["durability"]} if "durability" in made else {}
    graph.invoke({"findings": []}, CONFIG, **options)
    thread = made.get("thread", "one")
    target = graph if thread is None else graph.with_config(configurable={"thread_id": thread})
    with pytest.raises(ConfigError, match=must):
        orchtrace.counterfactual(traced.traces[-1], target, AGENTS, score=has_both)


def test_checkpoints_of_another_run_are_refused(traced: Captured, calls: Calls) -> None:
    """They tell of agents that the trace does not."""
    trace, _ = ran(traced, fan_out(calls))
    _, target = ran(traced, research(calls))
    with pytest.raises(ConfigError, match="those of the trace"):
        orchtrace.counterfactual(trace, target, AGENTS, score=has_both)


def test_context_and_thread_are_given_by_recorded(traced: Captured) -> None:
    """What no checkpoint holds is handed over."""

    class Context(TypedDict):
        word: str

    def writer(state: State, runtime: Runtime[Context]) -> Update:
        return {"answer": " ".join([*state["findings"], runtime.context["word"]])}

    graph = in_a_row({"ann": says("red"), "writer": writer}, context_schema=Context)
    graph.invoke({"findings": []}, CONFIG, context={"word": "blue"})
    target = Recorded(graph=graph, thread_id="one", context={"word": "blue"})
    found = orchtrace.counterfactual(
        traced.traces[-1], target, AGENTS[:1], score=has_both, replays=2
    )
    assert found.effects[0].value == 1.0


def test_a_run_that_went_on_where_another_left_is_refused(traced: Captured) -> None:
    """Its checkpoints tell of both, so that messages would count from the first one's begin."""

    def asks(state: State) -> Update:
        return {"findings": [interrupt(len(state["findings"]))]}

    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("asks", asks)
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "asks")
    graph.add_conditional_edges(
        "asks", lambda state: "ann" if len(state["findings"]) < 4 else END, ["ann", END]
    )
    graph = graph.compile(checkpointer=InMemorySaver())
    graph.invoke({"findings": []}, CONFIG)
    graph.invoke(Command(resume="blue"), CONFIG)
    graph.invoke(Command(resume="blue"), CONFIG)
    target = graph.with_config(configurable={"thread_id": "one"})
    for trace in traced.traces[1:]:
        with pytest.raises(ConfigError, match="those of the trace"):
            orchtrace.counterfactual(trace, target, [Part("agent", "ann")], score=has_both)


@pytest.mark.skipif(
    "error_handler" not in signature(StateGraph.add_node).parameters,
    reason="before LangGraph 1.2 there are no error handlers",
)
def test_a_run_in_which_an_error_was_handled_is_refused(traced: Captured) -> None:
    """No checkpoint says what the handler wrote: a replay would be of a run without it."""

    def fails(_: State) -> Update:
        raise ConnectionError

    graph: Any = StateGraph(State)
    graph.add_node("ann", says("red"))
    graph.add_node("bob", fails, error_handler=says("blue"))
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "bob")
    trace, target = ran(traced, graph.compile(checkpointer=InMemorySaver()))
    with pytest.raises(ConfigError, match="a handler took over"):
        orchtrace.counterfactual(trace, target, [Part("agent", "ann")], score=has_both)


def test_a_run_that_took_results_from_a_cache_is_refused(traced: Captured) -> None:
    """Who was not called has no activation in the trace, whose messages count otherwise then."""
    graph: Any = StateGraph(State)
    cached = CachePolicy(key_func=lambda _: "key")
    graph.add_node("ann", says("red"), cache_policy=cached)
    graph.add_node("bob", says("blue"))
    graph.add_edge(START, "ann")
    graph.add_edge("ann", "bob")
    graph = graph.compile(checkpointer=InMemorySaver(), cache=InMemoryCache())
    graph.invoke({"findings": []}, {"configurable": {"thread_id": "before"}})
    trace, target = ran(traced, graph)
    with pytest.raises(ConfigError, match="the checkpoints"):
        orchtrace.counterfactual(trace, target, [Part("agent", "bob")], score=has_both)
