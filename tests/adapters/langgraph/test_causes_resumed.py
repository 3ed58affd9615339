"""Random graphs that fail and try again, ask and are resumed, and record who triggered whom."""

import asyncio
import operator
import random
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt
from opentelemetry import trace as otel
from typing_extensions import TypedDict

GRAPHS = 60


class FlakyError(Exception):
    """What a node raises before it is tried again."""


class Shape:
    """A random graph of edges, barriers and a router, whose nodes may fail once, or ask.

    A node that leads to another writes its own span's id into the other's inbox; the other reads
    who is new since it last was done. What it reads of earlier runs counts for nothing: a resumed
    run follows from whoever resumed it. Each try follows from what led to the first.
    """

    def __init__(self, seed: int) -> None:
        dice = self.dice = random.Random(seed)  # noqa: S311 - repeatable dice, no secrets
        self.names = [f"n{i}" for i in range(dice.randint(3, 6))]
        later = {name: self.names[i + 1 :] for i, name in enumerate(self.names)}
        self.edges = {
            name: dice.sample(later[name], min(len(later[name]), dice.randint(1, 2)))
            for name in self.names
        }
        self.barrier = tuple(sorted(dice.sample(self.names[:-1], 2)))
        self.back = dice.choice(self.names[:-1])
        self.rounds = dice.randint(0, 2)
        self.asked: set[str] = set()
        self.tried: dict[str, str] = {}
        self.record: dict[str, frozenset[str]] = {}
        self.failed = 0

    def begin_run(self) -> None:
        self.record = {}
        self.tried = {}

    def work(self, name: str, state: dict[str, Any], config: Any) -> Any:
        span = format(otel.get_current_span().get_span_context().span_id, "016x")
        task = config["configurable"]["__pregel_task_id"]
        seen = dict(state.get(f"seen_{name}") or {})
        inbox = state.get(f"to_{name}", [])
        new = set(inbox[seen.get("to", 0) :])
        seen["to"] = len(inbox)
        if name == self.names[-1]:
            new |= self._through_barrier(state, seen)
        before, known = self.tried.get(task), set(self.record)
        self.record[span] = self.record[before] if before else frozenset(new & known)
        if before is None and self.dice.random() < 0.2:
            self.tried[task] = span
            self.failed += 1
            raise FlakyError
        if task in self.asked or self.dice.random() < 0.15:
            self.asked.add(task)
            interrupt("?")
        update: dict[str, Any] = {f"seen_{name}": seen}
        for target in self.edges[name]:
            update[f"to_{target}"] = [span]
        if name in self.barrier:
            update["barrier"] = [(name, span)]
        if name == self.names[-1] and self.rounds > 0:
            self.rounds -= 1
            update[f"to_{self.back}"] = [span]
            update["again"] = True
        elif name == self.names[-1]:
            update["again"] = False
        return update

    def _through_barrier(self, state: dict[str, Any], seen: dict[str, int]) -> set[str]:
        first: dict[str, str] = {}
        came = state.get("barrier", [])
        for start, span in came[seen.get("barrier", 0) :]:
            first.setdefault(start, span)
        if set(first) != set(self.barrier):
            return set()
        seen["barrier"] = len(came)
        return set(first.values())

    def compile(self, *, is_async: bool) -> Any:
        keys: dict[str, Any] = {"barrier": Annotated[list, operator.add], "again": bool}
        for name in self.names:
            keys[f"to_{name}"] = Annotated[list, operator.add]
            keys[f"seen_{name}"] = dict
        graph = StateGraph(TypedDict("State", keys, total=False))
        once_more = RetryPolicy(initial_interval=0, jitter=False, retry_on=FlakyError)
        for name in self.names:
            graph.add_node(name, self._node(name, is_async=is_async), retry_policy=once_more)
            for target in self.edges[name]:
                graph.add_edge(name, target)
        graph.add_edge(list(self.barrier), self.names[-1])
        graph.add_conditional_edges(
            self.names[-1], lambda state: [self.back] if state.get("again") else []
        )
        graph.add_edge(START, self.names[0])
        return graph.compile(checkpointer=InMemorySaver())

    def _node(self, name: str, *, is_async: bool) -> Any:
        async def anode(state: dict[str, Any], config) -> Any:
            await asyncio.sleep(0)
            return self.work(name, state, config)

        def node(state: dict[str, Any], config) -> Any:
            return self.work(name, state, config)

        return anode if is_async else node


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_causes_hold_through_tries_and_pauses(traced, read, is_async):
    """In every run of every random graph, resumed ones included, causes are those recorded.

    Checkpoints are saved before the next step begins. Otherwise a barrier is saved with what was
    written to it meanwhile, if the saver is late, and what a resumed run finds is left to chance.
    """
    recorded = paused = failed = 0
    for seed in range(GRAPHS):
        shape = Shape(seed)
        graph = shape.compile(is_async=is_async)
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": 20}
        traced.traces.clear()
        given: Any = {}
        while given is not None:
            shape.begin_run()
            try:
                result = (
                    asyncio.run(graph.ainvoke(given, config, durability="sync"))
                    if is_async
                    else graph.invoke(given, config, durability="sync")
                )
            except GraphRecursionError:
                result = {}
            trace = traced.traces[-1]
            assert read.triggers_by_span(trace) == shape.record, f"graph {seed}"
            recorded += len(shape.record)
            questions = result.get("__interrupt__")
            given = Command(resume={one.id: "yes" for one in questions}) if questions else None
            paused += given is not None
        linked = [t.events[0].keys["links"][0]["event"] for t in traced.traces[1:]]
        assert linked == [t.stop.id for t in traced.traces[:-1]]
        failed += shape.failed
    assert min(recorded / 10, paused, failed) > GRAPHS / 3
