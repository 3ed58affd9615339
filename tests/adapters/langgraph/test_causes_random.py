"""Random graphs whose nodes record, in their own state, who really triggered them."""

import asyncio
import operator
import random
from typing import Annotated, Any

import pytest
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from opentelemetry import trace as otel
from typing_extensions import TypedDict

GRAPHS = 150
MOST_ROUTED = 25


def _last(_: Any, new: Any) -> Any:
    return new


class Shape:
    """A random graph: edges, routers, commands, Sends, barriers, deferred nodes, loops.

    A node that leads to another writes its own span's id into the other's inbox; the
    other reads from its inbox who is new since it last ran. A Send carries its sender.
    """

    def __init__(self, seed: int) -> None:
        dice = self.dice = random.Random(seed)  # noqa: S311 - repeatable dice, no secrets
        self.names = [f"n{i}" for i in range(dice.randint(3, 7))]
        self.kinds = {name: dice.choice(["edge", "router", "command"]) for name in self.names}
        self.edges = {name: self._edges(name) for name in self.names}
        self.deferred = {name for name in self.names[1:] if dice.random() < 0.15}
        self.barriers = {}
        for _ in range(dice.randint(0, 2)):
            starts = tuple(sorted(dice.sample(self.names, dice.randint(2, 3))))
            self.barriers[starts, dice.choice(self.names)] = f"barrier{len(self.barriers)}"
        self.record: dict[str, frozenset[str]] = {}

    def _edges(self, name: str) -> list[str]:
        if self.kinds[name] == "edge":
            return self.dice.sample(self.names, self.dice.randint(0, 2))
        return self.dice.sample(self.names, int(self.dice.random() < 0.2))

    def _new(self, name: str, state: dict[str, Any], seen: dict[str, int]) -> set[str]:
        inbox = state.get(f"to_{name}", [])
        found = set(inbox[seen.get("to", 0) :])
        seen["to"] = len(inbox)
        for (starts, target), barrier in self.barriers.items():
            first: dict[str, str] = {}
            came = state.get(barrier, [])
            for start, span in came[seen.get(barrier, 0) :]:
                first.setdefault(start, span)
            if target == name and set(first) == set(starts):
                found |= set(first.values())
                seen[barrier] = len(came)
        return found

    def _choose(self, name: str, span: str, update: dict[str, Any]) -> list[Any]:
        chosen: list[Any] = []
        many = 0 if len(self.record) > MOST_ROUTED else self.dice.randint(0, 3)
        for target in self.dice.choices(self.names, k=many):
            if self.dice.random() < 0.5:
                chosen.append(Send(target, {"sender": span}))
            elif target not in chosen and target not in self.edges[name]:
                chosen.append(target)
                update.setdefault(f"to_{target}", []).append(span)
        return chosen or [END]

    def work(self, name: str, state: dict[str, Any]) -> Any:
        span = format(otel.get_current_span().get_span_context().span_id, "016x")
        update: dict[str, Any] = {}
        if "sender" in state:
            self.record[span] = frozenset({state["sender"]})
        else:
            seen = dict(state.get(f"seen_{name}") or {})
            self.record[span] = frozenset(self._new(name, state, seen))
            update[f"seen_{name}"] = seen
        for target in self.edges[name]:
            update.setdefault(f"to_{target}", []).append(span)
        for (starts, _), barrier in self.barriers.items():
            if name in starts:
                update.setdefault(barrier, []).append((name, span))
        if self.kinds[name] == "edge":
            return update
        chosen = update[f"chose_{name}"] = self._choose(name, span, update)
        return Command(goto=chosen, update=update) if self.kinds[name] == "command" else update

    def compile(self, *, is_async: bool) -> Any:
        keys: dict[str, Any] = dict.fromkeys(self.barriers.values(), Annotated[list, operator.add])
        for name in self.names:
            keys[f"to_{name}"] = Annotated[list, operator.add]
            keys[f"seen_{name}"] = keys[f"chose_{name}"] = Annotated[Any, _last]
        graph = StateGraph(TypedDict("State", keys, total=False))
        for name in self.names:
            node = self._async_node(name) if is_async else self._node(name)
            graph.add_node(name, node, defer=name in self.deferred)
            for target in self.edges[name]:
                graph.add_edge(name, target)
            if self.kinds[name] == "router":
                graph.add_conditional_edges(name, self._router(name))
        for starts, target in self.barriers:
            graph.add_edge(list(starts), target)
        graph.add_edge(START, self.names[0])
        return graph.compile()

    def _node(self, name: str) -> Any:
        return lambda state: self.work(name, state)

    def _async_node(self, name: str) -> Any:
        async def node(state: dict[str, Any]) -> Any:
            for _ in range(self.dice.randint(0, 3)):
                await asyncio.sleep(0)
            return self.work(name, state)

        return node

    def _router(self, name: str) -> Any:
        return lambda state: state[f"chose_{name}"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_causes_equal_what_the_nodes_recorded_themselves(traced, read, is_async):
    """In every random graph the causes of each task are exactly those its node recorded."""
    recorded = 0
    for seed in range(GRAPHS):
        shape = Shape(seed)
        graph = shape.compile(is_async=is_async)
        traced.traces.clear()
        try:
            if is_async:
                asyncio.run(graph.ainvoke({}, {"recursion_limit": 14}))
            else:
                graph.invoke({}, {"recursion_limit": 14})
        except GraphRecursionError:
            assert read.stop(traced.trace)[0] == "max_steps"
        assert read.triggers_by_span(traced.trace) == shape.record, f"graph {seed}"
        recorded += len(shape.record)
    assert recorded > GRAPHS * 5
    print(f"{GRAPHS} graphs, {recorded} tasks")  # noqa: T201 - the count is asked for
