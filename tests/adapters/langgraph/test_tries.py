"""Tries of a node, results from a cache, error handlers, and tasks that others end."""

import asyncio
import contextlib
import operator
import threading
from typing import Annotated

import pytest
from langchain_core.language_models import FakeListChatModel
from langgraph import errors
from langgraph.cache.memory import InMemoryCache
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy, RetryPolicy
from opentelemetry import trace as otel
from typing_extensions import TypedDict

NodeTimeoutError = getattr(errors, "NodeTimeoutError", TimeoutError)
HAS_HANDLERS = "error_handler" in StateGraph.add_node.__code__.co_varnames
ONCE_MORE = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=3, retry_on=ValueError)


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def logs(name):
    return lambda state: {"log": [name]}


def run(graph, state, *, is_async):
    return asyncio.run(graph.ainvoke(state)) if is_async else graph.invoke(state)


def flaky(failures, *, is_async, error=ValueError):
    """A node that fails so often; it calls a model in each try, and notes the current span."""
    model = FakeListChatModel(responses=["said"])
    seen = []

    def work():
        seen.append(otel.get_current_span().get_span_context().span_id)
        if len(seen) <= failures:
            raise error(str(len(seen)))
        return {"log": ["done"]}

    async def anode(state):
        await model.ainvoke("hello")
        return work()

    def node(state):
        model.invoke("hello")
        return work()

    return (anode if is_async else node), seen


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_each_try_is_an_activation_with_its_number(traced, read, is_async):
    """Tries that failed are errors and came back to who tries again; the run is fine."""
    node, seen = flaky(2, is_async=is_async)
    graph = StateGraph(State)
    graph.add_node("flaky", node, retry_policy=ONCE_MORE)
    graph.add_node("after", logs("after"))
    graph.add_edge(START, "flaky")
    graph.add_edge("flaky", "after")
    assert run(graph.compile(), {}, is_async=is_async)["log"] == ["done", "after"]
    trace = traced.trace
    assert read.outline(trace) == [
        "0 LangGraph#1 begin",
        "1 flaky#1 spawn <- causal 0",
        "2 flaky#1 return (error)",
        "3 flaky#1 delegate <- causal 0, return 2",
        "4 flaky#1 return (error)",
        "5 flaky#1 delegate <- causal 0, return 4",
        "6 flaky#1 return",
        "7 after#1 spawn <- causal 6",
        "8 after#1 return",
        "9 LangGraph#1 stop information_complete <- return 8",
    ]
    tries = [e for e in trace.events if e.get("to") == "flaky"]
    assert [e["attempt"] for e in tries] == [1, 2, 3]
    assert [f"{span:016x}" for span in seen] == [e["activation"] for e in tries]
    turns = trace.stop["turn_records"]
    assert [turn["activation"] for turn in turns] == [e["activation"] for e in tries]
    assert {e["error_type"] for e in trace.events if e["status"] == "error"} == {"ValueError"}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_when_all_tries_fail_the_last_one_fails_the_run(traced, read, is_async):
    """As many activations as tries; the exception is the host's own."""
    node, _ = flaky(9, is_async=is_async)
    graph = StateGraph(State)
    graph.add_node("flaky", node, retry_policy=ONCE_MORE)
    graph.add_edge(START, "flaky")
    with pytest.raises(ValueError, match="3"):
        run(graph.compile(), {}, is_async=is_async)
    tries = [e for e in traced.trace.events if e.get("to") == "flaky"]
    assert [e.get("attempt") for e in tries] == [1, 2, 3]
    assert read.stop(traced.trace) == ("error", "error", "ValueError")


def test_what_no_policy_names_is_tried_once(traced, read):
    """An error that is not to be retried, and a first try that is fine, have no number."""
    node, _ = flaky(1, is_async=False, error=KeyError)
    graph = StateGraph(State)
    graph.add_node("fine", logs("fine"), retry_policy=ONCE_MORE)
    graph.add_node("flaky", node, retry_policy=ONCE_MORE)
    graph.add_edge(START, "fine")
    graph.add_edge("fine", "flaky")
    with pytest.raises(KeyError):
        graph.compile().invoke({})
    assert not any("attempt" in e.keys for e in traced.trace.events)
    assert read.stop(traced.trace)[0] == "error"


def test_a_graph_inside_that_is_tried_again_is_inside_its_own_try(traced, read):
    """What the second try of a subgraph does lies in the second try."""
    node, _ = flaky(1, is_async=False)
    inner = StateGraph(State)
    inner.add_node("flaky", node)
    inner.add_edge(START, "flaky")
    graph = StateGraph(State)
    graph.add_node("sub", inner.compile(), retry_policy=ONCE_MORE)
    graph.add_edge(START, "sub")
    graph.compile().invoke({})
    opened = [e for e in traced.trace.events if e.verb in ("spawn", "delegate")]
    tries = [e["activation"] for e in opened if e["to"] == "sub"]
    inside = [e["parent"] for e in opened if e["to"] == "flaky"]
    assert len(tries) == 2, read.outline(traced.trace)
    assert inside == tries


def test_a_run_that_is_cancelled_between_two_tries_leaves_nothing_open(traced, read):
    """The try that failed is closed, and the next never begins."""
    failed = asyncio.Event()

    async def node(state):
        failed.set()
        raise ValueError

    graph = StateGraph(State)
    policy = RetryPolicy(initial_interval=60, jitter=False, retry_on=ValueError)
    graph.add_node("flaky", node, retry_policy=policy)
    graph.add_edge(START, "flaky")

    async def main():
        work = asyncio.create_task(graph.compile().ainvoke({}))
        await failed.wait()
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    assert read.stop(traced.trace)[:2] == ("cancelled", "cancelled")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_result_from_a_cache_is_a_decision_and_causes_pass_through(traced, read, is_async):
    """The task that did not run has no activation; what follows, follows from the decision."""
    graph = StateGraph(State)
    graph.add_node("first", logs("first"))
    graph.add_node("slow", logs("slow"), cache_policy=CachePolicy(key_func=lambda state: "key"))
    graph.add_node("last", logs("last"))
    graph.add_edge(START, "first")
    graph.add_edge("first", "slow")
    graph.add_edge("slow", "last")
    compiled = graph.compile(cache=InMemoryCache())
    for _ in range(2):
        assert run(compiled, {}, is_async=is_async)["log"] == ["first", "slow", "last"]
    ran, cached = traced.traces
    assert read.triggers(ran)["last#1"] == [{"slow#1"}]
    assert read.outline(cached) == [
        "0 LangGraph#1 begin",
        "1 first#1 spawn <- causal 0",
        "2 first#1 return",
        "3 LangGraph#1 decide slow <- causal 2",
        "4 last#1 spawn <- causal 3",
        "5 last#1 return",
        "6 LangGraph#1 stop information_complete <- return 5",
    ]
    assert cached.events[3]["name"] == "cache"
    assert read.triggers(cached)["last#1"] == [{"first#1"}]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_called_task_from_a_cache_is_its_callers_decision(traced, read, is_async):
    """In the functional API too; the result comes back to the caller."""
    policy = CachePolicy(key_func=lambda n: str(n).encode())
    if is_async:

        @task(cache_policy=policy)
        async def double(n):
            return 2 * n

        @entrypoint(cache=InMemoryCache())
        async def flow(n):
            return await double(n)
    else:

        @task(cache_policy=policy)
        def double(n):
            return 2 * n

        @entrypoint(cache=InMemoryCache())
        def flow(n):
            return double(n).result()

    assert [run(flow, 4, is_async=is_async) for _ in range(2)] == [8, 8]
    ran, cached = traced.traces
    assert [e["to"] for e in ran.events if e.verb == "spawn"] == ["flow", "double"]
    assert read.outline(cached) == [
        "0 LangGraph#1 begin",
        "1 flow#1 spawn <- causal 0",
        "2 flow#1 decide double <- spawn 1",
        "3 flow#1 return <- return 2",
        "4 LangGraph#1 stop information_complete <- return 3",
    ]


@pytest.mark.skipif(not HAS_HANDLERS, reason="error handlers came with LangGraph 1.2")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_error_handler_follows_from_what_failed(traced, read, is_async):
    """The node failed, its handler took over, and the run is fine."""
    graph = StateGraph(State)

    def fails(state):
        raise ValueError

    async def afails(state):
        raise ValueError

    def handler(state):
        return {"log": ["handled"]}

    graph.add_node("fails", afails if is_async else fails, error_handler=handler)
    graph.add_node("beside", logs("beside"))
    graph.add_node("after", logs("after"))
    graph.add_edge(START, "fails")
    graph.add_edge(START, "beside")
    graph.add_edge("fails", "after")
    result = run(graph.compile(), {}, is_async=is_async)
    assert sorted(result["log"]) in (["beside", "handled"], ["after", "beside", "handled"])
    triggers = read.triggers(traced.trace)
    (name,) = [agent for agent in triggers if "error_handler" in agent]
    assert triggers[name] == [{"fails#1"}]
    assert read.stop(traced.trace) == ("information_complete", "ok", None)
    closes = {e.id: e.agent for e in traced.trace.events if e.verb == "return"}
    ends = {closes[e.src] for e in traced.trace.edges if e.dst == traced.trace.stop.id}
    assert "fails" not in ends


def test_a_task_that_ends_since_another_failed_is_despawned(traced, read):
    """LangGraph ends the tasks beside one that failed; who cancels the run ends them as well."""
    entered = asyncio.Event()

    async def waits(state):
        entered.set()
        await asyncio.Event().wait()

    async def fails(state):
        await entered.wait()
        raise KeyError

    graph = StateGraph(State)
    for node in (waits, fails):
        graph.add_node(node.__name__, node)
        graph.add_edge(START, node.__name__)
    with pytest.raises(KeyError):
        asyncio.run(graph.compile().ainvoke({}))
    assert read.outline(traced.trace)[3:] == [
        "3 fails#1 return (error)",
        "4 LangGraph#1 despawn <- causal 3",
        "5 waits#1 return (cancelled)",
        "6 LangGraph#1 stop error (error) <- return 3, return 5",
    ]
    assert traced.trace.events[4]["to"] == "waits"


def test_threads_beside_one_that_failed_end_by_themselves(traced, read):
    """LangGraph cannot end a thread: nothing is despawned, and the run waits for it."""
    entered, failed = threading.Event(), threading.Event()

    def waits(state):
        entered.set()
        failed.wait(5)
        return {"log": ["waited"]}

    def fails(state):
        entered.wait(5)
        try:
            raise KeyError
        finally:
            failed.set()

    graph = StateGraph(State)
    for node in (waits, fails):
        graph.add_node(node.__name__, node)
        graph.add_edge(START, node.__name__)
    with pytest.raises(KeyError):
        graph.compile().invoke({})
    assert "despawn" not in {e.verb for e in traced.trace.events}
    assert read.stop(traced.trace)[0] == "error"


def test_an_error_that_takes_no_notes_is_tried_again(traced, read):
    """LangGraph's note says whose an error is; without it the error is the task's."""

    class SilentError(ValueError):
        def add_note(self, note):
            pass

    failures = iter([SilentError()])

    def work(state):
        for error in failures:
            raise error
        return {"log": ["done"]}

    graph = StateGraph(State)
    graph.add_node("work", work, retry_policy=ONCE_MORE)
    graph.add_edge(START, "work")
    assert graph.compile().invoke({}) == {"log": ["done"]}
    assert [e.verb for e in traced.trace.events if e.get("to") == "work"] == ["spawn", "delegate"]


def test_a_pause_is_not_tried_again(traced, read):
    """An interrupt passes every policy by."""

    def asks(state):
        raise errors.GraphInterrupt

    graph = StateGraph(State)
    graph.add_node("asks", asks, retry_policy=RetryPolicy(retry_on=lambda error: True))
    graph.add_edge(START, "asks")
    graph.compile().invoke({})
    assert read.stop(traced.trace)[0] == "paused"
    assert len([e for e in traced.trace.events if e.get("to") == "asks"]) == 1


@pytest.mark.skipif(not HAS_HANDLERS, reason="time limits of nodes came with LangGraph 1.2")
def test_a_try_that_fails_when_nobody_waits_for_it_any_more_logs_nothing(traced, read):
    """It ended as cancelled when LangGraph left it, whatever it goes on to do."""
    left = asyncio.Event()

    async def stubborn(state):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        left.set()
        raise ValueError

    inner = StateGraph(State)
    inner.add_node("stubborn", stubborn, retry_policy=RetryPolicy(retry_on=ValueError))
    inner.add_edge(START, "stubborn")
    called = inner.compile(name="called")

    async def calls(state):
        await called.ainvoke({})

    async def waits(state):
        with contextlib.suppress(NodeTimeoutError):
            await around.ainvoke({})
        await left.wait()

    graph = StateGraph(State)
    graph.add_node("calls", calls, timeout=1)
    graph.add_edge(START, "calls")
    around = graph.compile(name="around")
    graph = StateGraph(State)
    graph.add_node("waits", waits)
    graph.add_edge(START, "waits")
    asyncio.run(graph.compile().ainvoke({}))
    closes = {e.agent: e["status"] for e in traced.trace.events if e.verb == "return"}
    assert (closes["stubborn"], closes["calls"]) == ("cancelled", "error")


@pytest.mark.skipif(not HAS_HANDLERS, reason="time limits of nodes came with LangGraph 1.2")
@pytest.mark.parametrize("way_out", ["time", "sibling", "caller"])
def test_what_a_node_with_a_time_limit_leaves_running_is_over_with_it(traced, read, way_out):
    """LangGraph does not wait for the graphs in it, which end as cancelled in its trace."""

    begun = asyncio.Event()

    async def waits(state):
        begun.set()
        await asyncio.Event().wait()

    async def fails(state):
        await begun.wait()
        raise ValueError

    inner = StateGraph(State)
    inner.add_node("waits", waits)
    inner.add_edge(START, "waits")
    middle = StateGraph(State)
    middle.add_node("middle", inner.compile())
    middle.add_edge(START, "middle")
    called = middle.compile(name="called")

    async def calls(state):
        return await called.ainvoke({})

    graph = StateGraph(State)
    graph.add_node("calls", calls, timeout=1 if way_out == "time" else 60)
    graph.add_edge(START, "calls")
    if way_out == "sibling":
        graph.add_node("fails", fails)
        graph.add_edge(START, "fails")
    limit = 1 if way_out == "caller" else 60
    with pytest.raises((TimeoutError, NodeTimeoutError, ValueError)):
        asyncio.run(asyncio.wait_for(graph.compile().ainvoke({}), limit))
    trace = traced.trace
    closes = [(e.agent, e["status"]) for e in trace.events if e.verb == "return"]
    assert [one for one in closes if one[0] != "fails"] == [
        ("waits", "cancelled"),
        ("middle", "cancelled"),
        ("called", "cancelled"),
        ("calls", "error" if way_out == "time" else "cancelled"),
    ]
    assert trace.flags == ()
    assert read.triggers(trace)["waits#1"] == [{"middle#1"}]
