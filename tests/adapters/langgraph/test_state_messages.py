"""Who wrote what a task reads: `message` edges, exact, and told once."""

import asyncio
import operator
import random
from typing import Annotated, Any

import langgraph.types
import pytest
from langgraph.channels import EphemeralValue, Topic
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from opentelemetry import trace as otel
from typing_extensions import TypedDict

from orchtrace_langgraph import _state

GRAPHS = 60


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    plan: str


class Plan(TypedDict, total=False):
    plan: str


def openings(trace, agent):
    return [e for e in trace.events if e.get("to") == agent and e.verb in ("spawn", "delegate")]


def test_a_reducer_has_all_writers_and_a_plain_key_the_latest(traced, read):
    """Of two that wrote a plain key one after the other the reader has the second alone."""
    graph = StateGraph(State)
    graph.add_node("first", lambda state: {"log": ["first"], "plan": "a"})
    graph.add_node("second", lambda state: {"log": ["second"], "plan": "b"})
    graph.add_node("planner", lambda state: {})
    graph.add_node("reader", lambda state: {})

    def follows(state: Plan) -> Plan:
        return {}

    graph.add_node("follower", follows)
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    graph.add_edge("second", "reader")
    graph.add_edge("second", "follower")
    graph.compile().invoke({"plan": "input"})
    found = read.informants(traced.trace)
    assert found == {
        "first#1": [[]],
        "second#1": [["first#1"]],
        "reader#1": [["first#1", "second#1"]],
        "follower#1": [["second#1"]],
    }
    assert openings(traced.trace, "reader")[0]["channel"] == ["state:log", "state:plan"]
    assert openings(traced.trace, "follower")[0]["channel"] == ["state:plan"]
    assert "channel" not in openings(traced.trace, "first")[0].keys


def test_a_write_is_told_once_and_never_to_its_writer(traced, read):
    """Two nodes that call each other hear of what is new since they last ran."""
    graph = StateGraph(State)
    graph.add_node("zero", lambda state: {"log": ["zero"]})
    graph.add_node("a", lambda state: {"log": ["a"]})
    graph.add_node("b", lambda state: {"log": ["b"]})
    graph.add_edge(START, "zero")
    graph.add_edge("zero", "a")
    graph.add_edge("a", "b")
    graph.add_conditional_edges(
        "b", lambda state: "a" if len(state["log"]) < 6 else END, ["a", END]
    )
    graph.compile().invoke({})
    assert read.informants(traced.trace) == {
        "zero#1": [[]],
        "a#1": [["zero#1"], ["b#1"], ["b#1"]],
        "b#1": [["a#1", "zero#1"], ["a#1"], ["a#1"]],
    }


def test_a_send_is_read_from_its_sender_and_not_from_the_state(traced, read):
    """A task of a Send reads its packet; who joins them reads what all of them wrote."""
    graph = StateGraph(State)
    graph.add_node("boss", lambda state: {"plan": "p"})
    graph.add_node("worker", lambda packet: {"log": [str(packet["n"])]})
    graph.add_node("join", lambda state: {})
    graph.add_edge(START, "boss")
    graph.add_conditional_edges("boss", lambda s: [Send("worker", {"n": n}) for n in range(3)])
    graph.add_edge("worker", "join")
    graph.compile().invoke({})
    workers = ["worker#1", "worker#2", "worker#3"]
    assert read.informants(traced.trace) == {
        "boss#1": [[]],
        **{worker: [["boss#1"]] for worker in workers},
        "join#1": [["boss#1", *workers]],
    }
    assert [e.keys.get("channel") for e in openings(traced.trace, "worker")] == [None] * 3


def test_what_is_forgotten_is_flagged(traced, read, monkeypatch):
    """A reader that comes after more writes than are remembered misses the oldest."""
    monkeypatch.setattr(_state, "_MOST_WRITES", 3)
    graph = StateGraph(State)
    names = [f"n{i}" for i in range(5)]
    graph.add_node("reader", lambda state: {})
    for before, name in zip([START, *names], [*names, "reader"], strict=True):
        if name != "reader":
            graph.add_node(name, lambda state: {"log": ["x"]})
        graph.add_edge(before, name)
    graph.compile().invoke({})
    assert read.informants(traced.trace)["reader#1"] == [["n2#1", "n3#1", "n4#1"]]
    assert "informants_forgotten" in traced.trace.stop["flags"]


class Board:
    """A random loop over nodes that sign what they write, and note whose signs are new."""

    def __init__(self, seed: int) -> None:
        dice = self.dice = random.Random(seed)  # noqa: S311 - repeatable dice, no secrets
        self.names = [f"n{i}" for i in range(dice.randint(2, 5))]
        self.shared = [f"shared{i}" for i in range(dice.randint(1, 2))]
        self.record: dict[str, set[str]] = {}
        self.seen: dict[str, dict[str, Any]] = {name: {} for name in self.names}
        self.left = 20

    def work(self, name: str, state: dict[str, Any]) -> dict[str, Any]:
        span = format(otel.get_current_span().get_span_context().span_id, "016x")
        seen, new = self.seen[name], set()
        for key in self.shared:
            signs = state.get(key, [])
            new |= {sign for writer, sign in signs[seen.get(key, 0) :] if writer != name}
            seen[key] = len(signs)
        for other in self.names:
            sign = state.get(f"by_{other}")
            if sign is not None and sign != seen.get(f"by_{other}") and other != name:
                new.add(sign)
            seen[f"by_{other}"] = sign
        self.record[span] = new
        self.left -= 1
        update: dict[str, Any] = {}
        for key in self.shared:
            if self.dice.random() < 0.5:
                update[key] = [(name, span)]
        if self.dice.random() < 0.5:
            update[f"by_{name}"] = span
        return update

    def compile(self, *, is_async: bool) -> Any:
        keys: dict[str, Any] = dict.fromkeys(self.shared, Annotated[list, operator.add])
        keys.update({f"by_{name}": str for name in self.names})
        graph = StateGraph(TypedDict("Signed", keys, total=False))
        for name in self.names:

            async def anode(state: dict[str, Any], name: str = name) -> Any:
                await asyncio.sleep(0)
                return self.work(name, state)

            def node(state: dict[str, Any], name: str = name) -> Any:
                return self.work(name, state)

            graph.add_node(name, anode if is_async else node)
            graph.add_conditional_edges(name, self._route)
        graph.add_edge(START, self.names[0])
        return graph.compile()

    def _route(self, state: dict[str, Any]) -> list[str]:
        if self.left <= 0:
            return [END]
        return self.dice.sample(self.names, self.dice.randint(1, 2))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_informants_equal_what_the_nodes_recorded_themselves(traced, is_async):
    """In every random graph each task's messages come from exactly those whose signs were new."""
    recorded = 0
    for seed in range(GRAPHS):
        board = Board(seed)
        graph = board.compile(is_async=is_async)
        traced.traces.clear()
        asyncio.run(graph.ainvoke({})) if is_async else graph.invoke({})
        owner = {event.id: event["activation"] for event in traced.trace.events}
        found: dict[str, set[str]] = {span: set() for span in board.record}
        for edge in traced.trace.edges:
            if edge.type == "message":
                found[owner[edge.dst]].add(owner[edge.src])
        assert found == board.record, f"graph {seed}"
        recorded += len(board.record)
    assert recorded > GRAPHS * 10


def _after(names, state):
    """A chain of nodes; each writes what it is given."""
    graph = StateGraph(state)
    before = START
    for step in names:
        for name, update in step.items():
            graph.add_node(name, lambda state, update=update: update)
            for one in [before] if isinstance(before, str) else before:
                graph.add_edge(one, name)
        before = list(step)
    return graph.compile()


def test_a_channel_that_is_empty_again_after_a_step_has_nobody_to_tell_of(traced, read):
    """Who wrote it informs the next step, and none after a step in which nobody wrote it."""
    keys = {
        "brief": Annotated[str, EphemeralValue],
        "topic": Annotated[list, Topic(str)],
        "all": Annotated[list, Topic(str, accumulate=True)],
    }
    for key, later in (("brief", []), ("topic", []), ("all", ["a#1"])):
        steps = [{"a": {key: ["1"] if key != "brief" else "1"}}, {"b": {}}, {"c": {}}]
        _after(steps, TypedDict("State", {key: keys[key]}, total=False)).invoke({})
        assert read.informants(traced.traces[-1]) == {"a#1": [[]], "b#1": [["a#1"]], "c#1": [later]}


@pytest.mark.skipif(not hasattr(langgraph.types, "Overwrite"), reason="LangGraph before 1.0")
@pytest.mark.parametrize("is_json", [False, True], ids=["object", "json"])
def test_what_is_overwritten_in_the_same_step_is_told_by_nobody(traced, read, is_json):
    """In whatever form an overwrite comes: those before, and those beside it, count for nothing."""
    new = {"__overwrite__": ["3"]} if is_json else langgraph.types.Overwrite(["3"])
    both = {"a": {"log": ["2"]}, "b": {"log": new}, "c": {"log": ["4"]}}
    steps = [{"first": {"log": ["1"]}}, both, {"next": {}}, {"reader": {}}]
    assert _after(steps, State).invoke({}) == {"log": ["3"]}
    found = read.informants(traced.trace)
    assert (found["next#1"], found["reader#1"]) == ([["b#1"]], [["b#1"]])
