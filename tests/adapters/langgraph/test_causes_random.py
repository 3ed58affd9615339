"""Random graphs whose nodes record, in their own state, who really triggered them."""

import asyncio
import os
import random
from typing import Annotated, Any

import pytest
from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from opentelemetry import trace as otel
from typing_extensions import TypedDict

GRAPHS = int(os.environ.get("ORCHTRACE_RANDOM_GRAPHS", "100"))
MOST_ROUTED = 25


class FailedError(Exception):
    """What a node raises on purpose."""


def _last(_: Any, new: Any) -> Any:
    return new


def _added(old: list[Any] | None, new: list[Any]) -> list[Any]:
    """A subgraph gives back all that it was given, and more."""
    return [*(old or ()), *(item for item in new if item not in (old or ()))]


def _furthest(old: dict[str, int] | None, new: dict[str, int]) -> dict[str, int]:
    return {key: max((old or {}).get(key, 0), new.get(key, 0)) for key in {**(old or {}), **new}}


def _hex(context: Any) -> str:
    return format(context.span_id, "016x")


class Shape:
    """A random graph: edges, routers, commands, Sends, barriers, deferred nodes, loops.

    Nodes may be graphs, chains of one to three nodes, whose last one may go on by a command to
    the parent; nodes may fail. A node that leads to another writes its own span's id into
    the other's inbox; the other reads from its inbox who is new since it last ran. A Send
    carries its senders. A command to the parent leads from the graph and from the
    node in it that returned it.
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
        self.depth = {n: dice.randint(1, 3) for n in self.names if dice.random() < 0.25}
        self.failing = dice.random() * 0.1 if dice.random() < 0.25 else 0.0
        self.failure: FailedError | None = None
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

    def _choose(self, name: str, spans: list[str], update: dict[str, Any]) -> list[Any]:
        chosen: list[Any] = []
        many = 0 if len(self.record) > MOST_ROUTED else self.dice.randint(0, 3)
        for target in self.dice.choices(self.names, k=many):
            if self.dice.random() < 0.5:
                chosen.append(Send(target, {"senders": spans}))
            elif target not in chosen and target not in self.edges[name]:
                chosen.append(target)
                update.setdefault(f"to_{target}", []).extend(spans)
        return chosen or [END]

    def _arrive(self, name: str, span: str, state: dict[str, Any], update: dict[str, Any]) -> None:
        """Record who triggered a task."""
        if state.get("senders"):
            self.record[span] = frozenset(state["senders"])
        else:
            seen = dict(state.get(f"seen_{name}") or {})
            self.record[span] = frozenset(self._new(name, state, seen))
            update[f"seen_{name}"] = seen

    def _fail(self) -> None:
        if self.failure is None and self.dice.random() < self.failing:
            self.failure = FailedError()
            raise self.failure

    def _lead(self, name: str, span: str, inner: list[str], update: dict[str, Any]) -> Any:
        """Write to whom a task leads; `inner` are those that returned its command with it."""
        for target in self.edges[name]:
            update.setdefault(f"to_{target}", []).append(span)
        for (starts, _), barrier in self.barriers.items():
            if name in starts:
                update.setdefault(barrier, []).append((name, span))
        kind = self.kinds[name]
        if kind == "edge":
            return update
        spans = [span, *inner] if kind == "command" else [span]
        chosen = update[f"chose_{name}"] = self._choose(name, spans, update)
        if kind == "router":
            return update
        return Command(goto=chosen, update=update, graph=Command.PARENT if inner else None)

    def work(self, name: str, state: dict[str, Any]) -> Any:
        """Do the work of a plain node."""
        span = _hex(otel.get_current_span().get_span_context())
        update: dict[str, Any] = {}
        self._arrive(name, span, state, update)
        self._fail()
        return self._lead(name, span, [], update)

    def work_inside(self, name: str, place: int, state: dict[str, Any]) -> Any:
        """Do the work of one node of the graph that a node is."""
        current: Any = otel.get_current_span()
        span, around = _hex(current.get_span_context()), _hex(current.parent)
        update: dict[str, Any] = {}
        if place == 0:
            self._arrive(name, around, state, update)
        self.record[span] = frozenset({state["before"] if place else around})
        self._fail()
        if place < self.depth[name] - 1:
            return {**update, "before": span}
        seen = {key: state[key] for key in (f"seen_{name}",) if state.get(key)}
        return self._lead(name, around, [span], {**seen, **update})

    def compile(self, *, is_async: bool) -> Any:
        """Build the graph."""
        keys: dict[str, Any] = dict.fromkeys(self.barriers.values(), Annotated[list, _added])
        for name in self.names:
            keys[f"to_{name}"] = Annotated[list, _added]
            keys[f"seen_{name}"] = Annotated[dict, _furthest]
            keys[f"chose_{name}"] = Annotated[Any, _last]
        state = TypedDict("State", keys, total=False)
        inside = {"senders": Annotated[Any, _last], "before": Annotated[Any, _last]}
        within = TypedDict("Within", {**keys, **inside}, total=False)
        graph = StateGraph(state)
        for name in self.names:
            node = self._node(is_async, self.work, name)
            if name in self.depth:
                node = self._chain(name, within, state, is_async=is_async)
            graph.add_node(name, node, defer=name in self.deferred)
            for target in self.edges[name]:
                graph.add_edge(name, target)
            if self.kinds[name] == "router":
                graph.add_conditional_edges(name, self._router(name))
        for starts, target in self.barriers:
            graph.add_edge(list(starts), target)
        graph.add_edge(START, self.names[0])
        return graph.compile()

    def _chain(self, name: str, within: Any, state: Any, *, is_async: bool) -> Any:
        graph = StateGraph(within, output_schema=state)
        before = START
        for place in range(self.depth[name]):
            inner = f"{name}_{place}"
            graph.add_node(inner, self._node(is_async, self.work_inside, name, place))
            graph.add_edge(before, inner)
            before = inner
        return graph.compile()

    def _node(self, is_async: bool, work: Any, *who: Any) -> Any:
        async def node(state: dict[str, Any]) -> Any:
            result = work(*who, state)
            for _ in range(self.dice.randint(0, 3)):
                await asyncio.sleep(0)
            return result

        return node if is_async else lambda state: work(*who, state)

    def _router(self, name: str) -> Any:
        return lambda state: state[f"chose_{name}"]


def _never_ran(trace: Any, shape: Shape) -> set[str]:
    """Tasks that were cancelled, since another failed, before their own code ran."""
    ends = [event for event in trace.events if event.verb == "return"]
    cancelled = {event["activation"] for event in ends if event["status"] == "cancelled"}
    return cancelled - shape.record.keys()


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_causes_equal_what_the_nodes_recorded_themselves(traced, read, is_async):
    """In every random graph the causes of each task are exactly those its node recorded."""
    recorded = failed = handed = 0
    for seed in range(GRAPHS):
        shape = Shape(seed)
        graph = shape.compile(is_async=is_async)
        traced.traces.clear()
        traced.spans.clear()
        raised = None
        try:
            if is_async:
                asyncio.run(graph.ainvoke({}, {"recursion_limit": 14}))
            else:
                graph.invoke({}, {"recursion_limit": 14})
        except GraphRecursionError:
            assert read.stop(traced.trace)[0] == "max_steps"
        except FailedError as error:
            raised = error
            assert read.stop(traced.trace)[0] == "error"
            failed += 1
        assert raised is shape.failure, f"graph {seed}"
        found = read.triggers_by_span(traced.trace)
        for span in _never_ran(traced.trace, shape) if raised else ():
            del found[span]
        assert found == shape.record, f"graph {seed}"
        recorded += len(shape.record)
        handed += sum(span.name.startswith("delegate ") for span in traced.spans)
    assert recorded > GRAPHS * 5
    assert failed > GRAPHS / 20
    assert handed > GRAPHS / 20
    print(  # noqa: T201 - the count is asked for
        f"{GRAPHS} graphs, {recorded} tasks, {handed} hand-offs to a parent, {failed} failures"
    )
