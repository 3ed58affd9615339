"""Whole traces of the shapes that graphs are made of."""

import asyncio
import operator
import threading
from typing import Annotated

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableParallel
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from opentelemetry.instrumentation.utils import suppress_instrumentation
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def logs(name):
    """A node that writes its name."""
    return lambda state: {"log": [name]}


def graph_of(*edges, nodes=(), **options):
    """A compiled graph of nodes that log their names, and of edges given as pairs."""
    graph = StateGraph(State)
    ends = [end for edge in edges for end in (edge[0] if isinstance(edge[0], list) else [edge[0]])]
    given = dict(nodes)
    for name in dict.fromkeys([*given, *ends, *(edge[1] for edge in edges)]):
        if name not in (START, END):
            graph.add_node(name, given.get(name) or logs(name))
    for start, end in edges:
        graph.add_edge(start, end)
    return graph.compile(**options)


def test_plain_edges_are_causes_and_a_join_is_an_aggregate(traced, read):
    """A diamond of unequal depth: the barrier's aggregate has an edge from each branch."""
    graph_of(
        (START, "a"), ("a", "b"), ("a", "c"), ("c", "d"), (["b", "d"], "e"), ("e", END)
    ).invoke({})
    assert read.triggers(traced.trace) == {
        "a#1": [{"LangGraph#1"}],
        "b#1": [{"a#1"}],
        "c#1": [{"a#1"}],
        "d#1": [{"c#1"}],
        "e#1": [{"b#1", "d#1"}],
    }
    ends = [line for line in read.outline(traced.trace) if "aggregate" in line or "e#1" in line]
    number = {e.id: n for n, e in enumerate(traced.trace.events)}
    closes = sorted(
        number[e.id] for e in traced.trace.events if e.verb == "return" and e.agent in "bd"
    )
    assert ends == [
        f"9 LangGraph#1 aggregate <- aggregate {closes[0]}, aggregate {closes[1]}",
        "10 e#1 spawn <- causal 9",
        "11 e#1 return",
    ]


def test_a_fan_out_of_sends_spawns_an_instance_each(traced, read):
    """Each Send is an instance of its own, spawned by the router's decision, merged at the join."""
    graph = StateGraph(State)
    graph.add_node("boss", logs("boss"))
    graph.add_node("worker", lambda state: {"log": [str(state["n"])]})
    graph.add_node("merge", logs("merge"))
    graph.add_edge(START, "boss")

    def fan_out(state):
        return [Send("worker", {"n": n}) for n in range(3)]

    graph.add_conditional_edges("boss", fan_out, ["worker"])
    graph.add_edge("worker", "merge")
    graph.compile(name="team").invoke({})
    trace = traced.trace
    assert read.triggers(trace) == {
        "boss#1": [{"team#1"}],
        "worker#1": [{"boss#1"}],
        "worker#2": [{"boss#1"}],
        "worker#3": [{"boss#1"}],
        "merge#1": [{"worker#1", "worker#2", "worker#3"}],
    }
    decide = next(e for e in trace.events if e.verb == "decide")
    assert (decide.agent, decide["chosen"], decide["candidates"]) == (
        "team",
        ["worker"],
        ["worker"],
    )
    spawns = [edge.src for edge in trace.edges if edge.type == "spawn"]
    assert spawns == [decide.id] * 3


def test_a_loop_delegates_to_the_same_instance(traced, read):
    """A node that is entered again is one instance; a router that ends is the stop's cause."""
    graph = StateGraph(State)
    graph.add_node("step", logs("step"))
    graph.add_edge(START, "step")
    graph.add_conditional_edges(
        "step", lambda state: "step" if len(state["log"]) < 3 else END, ["step", END]
    )
    graph.compile().invoke({"log": []})
    assert read.outline(traced.trace) == [
        "0 LangGraph#1 begin",
        "1 step#1 spawn <- causal 0",
        "2 step#1 return",
        "3 LangGraph#1 decide step <- causal 2",
        "4 step#1 delegate <- causal 3",
        "5 step#1 return",
        "6 LangGraph#1 decide step <- causal 5",
        "7 step#1 delegate <- causal 6",
        "8 step#1 return",
        "9 LangGraph#1 decide __end__ <- causal 8",
        "10 LangGraph#1 stop information_complete <- causal 9",
    ]


def test_a_command_is_a_decision_and_a_deferred_node_waits_for_all(traced, read):
    """`Command(goto=...)` decides; a deferred node follows from every writer, however early."""
    graph = StateGraph(State)
    graph.add_node("a", lambda state: Command(goto=["b", "c"], update={"log": ["a"]}))
    for name in "bcd":
        graph.add_node(name, logs(name))
    graph.add_node("z", logs("z"), defer=True)
    graph.add_conditional_edges(START, lambda state: ["a"], ["a", "z"])
    graph.add_edge("b", "z")
    graph.add_edge("c", "d")
    graph.add_edge("d", "z")
    graph.compile().invoke({})
    assert read.triggers(traced.trace) == {
        "a#1": [{"LangGraph#1"}],
        "b#1": [{"a#1"}],
        "c#1": [{"a#1"}],
        "d#1": [{"c#1"}],
        "z#1": [{"b#1", "d#1"}],
    }
    decisions = [e for e in traced.trace.events if e.verb == "decide"]
    assert [(e["chosen"], e.get("candidates")) for e in decisions] == [
        (["a"], ["a", "z"]),
        (["b", "c"], None),
    ]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["invoke", "astream_events"])
def test_a_command_that_ends_is_a_decision_to_end(traced, read, is_streamed):
    """`Command(goto=END)` leaves no write behind; the stop follows from the decision."""
    graph = graph_of((START, "a"), nodes={"a": lambda state: Command(goto=END)})

    async def listen():
        return [event async for event in graph.astream_events({}, version="v2")]

    asyncio.run(listen()) if is_streamed else graph.invoke({})
    assert read.outline(traced.trace)[3:] == [
        "3 LangGraph#1 decide __end__ <- causal 2",
        "4 LangGraph#1 stop information_complete <- causal 3",
    ]


def test_a_graph_that_is_a_node_is_that_node_and_a_named_one_an_agent_in_it(traced, read):
    """A subgraph's tasks lie in its activation, and its results come back to it."""
    nodes = {
        "plain": graph_of((START, "x"), ("x", "y")),
        "named": graph_of((START, "x"), name="inner"),
    }
    graph_of((START, "plain"), ("plain", "named"), nodes=nodes).invoke({})
    assert read.outline(traced.trace) == [
        "0 LangGraph#1 begin",
        "1 plain#1 spawn <- causal 0",
        "2 x#1 spawn <- causal 1",
        "3 x#1 return",
        "4 y#1 spawn <- causal 3",
        "5 y#1 return",
        "6 plain#1 return <- return 5",
        "7 named#1 spawn <- causal 6",
        "8 inner#1 spawn <- spawn 7",
        "9 x#2 spawn <- causal 8",
        "10 x#2 return",
        "11 inner#1 return <- return 10",
        "12 named#1 return <- return 11",
        "13 LangGraph#1 stop information_complete <- return 12",
    ]


def test_a_hand_off_to_the_parent_names_its_author_and_is_no_error(traced, read):
    """`Command(graph=PARENT)`: the target follows from the wrapper and from who wrote it."""
    sub = graph_of(
        (START, "x"),
        ("x", "y"),
        nodes={"y": lambda state: Command(goto="target", graph=Command.PARENT)},
    )
    graph = StateGraph(State)
    graph.add_node("sub", sub)
    graph.add_node("target", logs("target"))
    graph.add_edge(START, "sub")
    graph.compile().invoke({})
    assert read.triggers(traced.trace)["target#1"] == [{"sub#1", "y#1"}]
    assert {event["status"] for event in traced.trace.events} == {"ok"}


def test_a_router_of_a_graph_that_handed_over_is_caused_by_the_graph_alone(traced, read):
    """Whom the command does not name, a router or an edge of the wrapper's leads to."""
    sub = graph_of(
        (START, "x"), nodes={"x": lambda state: Command(goto="target", graph=Command.PARENT)}
    )
    graph = StateGraph(State)
    graph.add_node("sub", sub)
    for name in ("target", "routed", "drawn"):
        graph.add_node(name, logs(name))
    graph.add_edge(START, "sub")
    graph.add_edge("sub", "drawn")
    graph.add_conditional_edges("sub", lambda state: "routed")
    graph.compile().invoke({})
    found = read.triggers(traced.trace)
    assert found["target#1"] == [{"sub#1", "x#1"}]
    assert found["routed#1"] == found["drawn#1"] == [{"sub#1"}]


def test_a_router_of_a_graph_that_handed_over_to_the_end_decides_all_the_same(traced, read):
    """The command that a graph in it went on by ends nothing where a router leads on."""
    end = Command(goto=END, graph=Command.PARENT)
    graph = StateGraph(State)
    graph.add_node("sub", graph_of((START, "x"), nodes={"x": lambda state: end}))
    graph.add_node("routed", logs("routed"))
    graph.add_edge(START, "sub")
    graph.add_conditional_edges("sub", lambda state: "routed", ["routed", END])
    graph.compile().invoke({})
    decided = [e["chosen"] for e in traced.trace.events if e.verb == "decide"]
    assert sorted(decided) == [["__end__"], ["routed"]]
    assert read.triggers(traced.trace)["routed#1"] == [{"sub#1"}]


def test_a_graph_called_in_a_node_or_its_bare_thread_belongs_to_the_run(traced, read):
    """A graph that a node's own code invokes is spawned by that node, in any thread."""
    inner = graph_of((START, "x"), name="inner")

    def caller(state, config):
        inner.invoke({})
        thread = threading.Thread(target=inner.invoke, args=({}, config))
        thread.start()
        thread.join()
        return {"log": ["caller"]}

    graph_of((START, "caller"), nodes={"caller": caller}).invoke({})
    assert read.triggers(traced.trace) == {
        "caller#1": [{"LangGraph#1"}],
        "inner#1": [{"caller#1"}],
        "x#1": [{"inner#1"}],
        "inner#2": [{"caller#1"}],
        "x#2": [{"inner#2"}],
    }
    assert len({span.context.trace_id for span in traced.spans}) == 1


@pytest.mark.parametrize("way", ["batch", "parallel"])
def test_graphs_that_are_called_at_once_do_not_follow_from_each_other(traced, way):
    """However fast the first ones are: nobody waits for them before the others are called."""
    inner = graph_of((START, "x"), name="inner")
    parallel = RunnableParallel({str(number): inner for number in range(8)})

    def caller(state):
        _ = inner.batch([{}] * 8) if way == "batch" else parallel.invoke({})

    graph_of((START, "caller"), nodes={"caller": caller}).invoke({})
    agents = {event.id: event.agent for event in traced.trace.events}
    opened = [e.id for e in traced.trace.events if (e.verb, e.get("to")) == ("spawn", "inner")]
    into = [(edge.type, agents[edge.src]) for edge in traced.trace.edges if edge.dst in opened]
    assert into == [("spawn", "LangGraph")] * 8


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_functional_tasks_are_spawned_by_their_caller(traced, read, is_async):
    """Tasks called at once are instances of their own; one called later uses one again."""
    if is_async:

        @task
        async def asquare(n):
            return n * n

        @entrypoint()
        async def aflow(n):
            squares = await asyncio.gather(asquare(1), asquare(n))
            return await asquare(sum(squares))

        assert asyncio.run(aflow.ainvoke(3)) == 100
        names = ("aflow", "asquare")
    else:
        meet = threading.Barrier(2)

        @task
        def square(n):
            if n < 10:
                meet.wait(5)
            return n * n

        @entrypoint()
        def flow(n):
            squares = [square(1), square(n)]
            return square(sum(future.result() for future in squares)).result()

        assert flow.invoke(3) == 100
        names = ("flow", "square")
    flow_, square_ = names
    opened = [(e["to"], e.verb) for e in traced.trace.events if e.verb in ("spawn", "delegate")]
    assert opened == [
        (flow_, "spawn"),
        (square_, "spawn"),
        (square_, "spawn"),
        (square_, "delegate"),
    ]
    last = next(e for e in traced.trace.events if e.verb == "delegate")
    returns = [edge.type for edge in traced.trace.edges if edge.dst == last.id]
    assert sorted(returns) == ["causal", "return", "return"]


@task
def work(n):
    return n


@task(name="work")
async def awork(n):
    return n


@orchtrace.agent("helper")
def helps():
    return work(1).result()


@orchtrace.agent("helper")
async def ahelps():
    return await awork(1)


@tool
def asks(n: int) -> int:
    """Ask a task."""
    return work(n).result()


@tool("asks")
async def aasks(n: int) -> int:
    """Ask a task."""
    return await awork(n)


def calls(state):
    helps()
    asks.invoke({"n": 2})
    work(3).result()
    asks.invoke({"n": 4})


async def acalls(state):
    await ahelps()
    await aasks.ainvoke({"n": 2})
    await awork(3)
    await aasks.ainvoke({"n": 4})


@pytest.mark.parametrize("node", [calls, acalls], ids=["sync", "async"])
def test_a_functional_task_is_spawned_by_the_agent_or_the_tool_call_around(traced, read, node):
    """What came back enters what is done next where it was called, before or after a tool."""
    graph = graph_of((START, "node"), nodes={"node": node})
    asyncio.run(graph.ainvoke({})) if node is acalls else graph.invoke({})
    assert read.outline(traced.trace)[2:] == [
        "2 helper#1 spawn <- spawn 1",
        "3 work#1 spawn <- spawn 2",
        "4 work#1 return",
        "5 helper#1 return <- return 4",
        "6 node#1 tool_call asks <- causal 1, return 5",
        "7 work#2 spawn <- spawn 6",
        "8 work#2 return",
        "9 node#1 tool_result asks <- return 8",
        "10 work#2 delegate <- causal 1, tool_dependency 9",
        "11 work#2 return",
        "12 node#1 tool_call asks <- causal 1, return 11",
        "13 work#2 delegate <- causal 12",
        "14 work#2 return",
        "15 node#1 tool_result asks <- return 14",
        "16 node#1 return <- tool_dependency 15",
        "17 LangGraph#1 stop information_complete <- return 16",
    ]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_is_done_beside_a_called_task_follows_from_what_came_back_before(
    traced, read, is_async
):
    """The task has not come back yet; once it has, it is in the place of what it followed from."""
    begun, done = threading.Event(), threading.Event()

    @orchtrace.agent
    def plans():
        """Come back at once."""

    @orchtrace.agent
    def writes():
        """Come back at once."""

    @task
    def searches():
        begun.set()
        done.wait()

    @task
    async def asearches():
        begun.set()
        await asyncio.to_thread(done.wait)

    def node(state):
        plans()
        future = searches()
        begun.wait()
        writes()
        done.set()
        future.result()
        plans()

    async def anode(state):
        plans()
        future = asearches()
        await asyncio.to_thread(begun.wait)
        writes()
        done.set()
        await future
        plans()

    graph = graph_of((START, "node"), nodes={"node": anode if is_async else node})
    asyncio.run(graph.ainvoke({})) if is_async else graph.invoke({})
    name = "asearches" if is_async else "searches"
    assert read.outline(traced.trace)[2:-2] == [
        "2 plans#1 spawn <- spawn 1",
        "3 plans#1 return",
        f"4 {name}#1 spawn <- return 3, spawn 1",
        "5 writes#1 spawn <- return 3, spawn 1",
        "6 writes#1 return",
        f"7 {name}#1 return",
        "8 plans#1 delegate <- causal 1, return 6, return 7",
        "9 plans#1 return",
    ]


CALL = "node#1 tool_call outer"


def test_what_an_async_node_and_its_tool_begin_at_once_follows_from_what_was_before(traced, read):
    """LangGraph and LangChain run the code of both in asyncio tasks of their own."""
    meet = asyncio.Barrier(3)

    @task
    async def meets(n):
        await meet.wait()

    @task
    async def prepares(n):
        return n

    @tool
    async def outer(n: int) -> int:
        """Do two things at once, after another."""
        await prepares(n)
        await asyncio.gather(meets(1), meets(2))
        return n

    async def node(state):
        await awork(0)
        await asyncio.gather(outer.ainvoke({"n": 1}), meets(3))

    asyncio.run(graph_of((START, "node"), nodes={"node": node}).ainvoke({}))
    number, causes = {}, {}
    for line in read.outline(traced.trace):
        event, _, led = line.partition(" <- ")
        place, _, event = event.partition(" ")
        number[event], causes[event] = place, led
    assert {event: led for event, led in causes.items() if event.startswith("meets")} == {
        "meets#1 spawn": f"return {number['work#1 return']}, spawn 1",
        "meets#1 return": "",
        "meets#2 spawn": f"return {number['prepares#1 return']}, spawn {number[CALL]}",
        "meets#2 return": "",
        "meets#3 spawn": f"return {number['prepares#1 return']}, spawn {number[CALL]}",
        "meets#3 return": "",
    }
    assert causes[CALL] == f"causal 1, return {number['work#1 return']}"


def test_an_interrupt_pauses_and_the_resumed_run_goes_on(traced, read):
    """A pause is no error; the tasks that a resume need not run again are not run again."""
    graph = graph_of(
        (START, "ask"),
        (START, "b"),
        ("ask", "end"),
        nodes={"ask": lambda state: {"log": [interrupt("?")]}},
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({}, config)
    graph.invoke(Command(resume="yes"), config)
    first, second = traced.traces
    assert read.stop(first) == ("paused", "paused", "langgraph.errors.GraphInterrupt")
    status = {e.agent: e["status"] for e in first.events if e.verb == "return"}
    assert status == {"ask": "paused", "b": "ok"}
    assert read.stop(second) == ("information_complete", "ok", None)
    assert read.triggers(second) == {"ask#1": [{"LangGraph#1"}], "end#1": [{"ask#1"}]}


def test_a_decorated_node_names_its_task_and_opens_nothing_of_its_own(traced, read):
    """`@orchtrace.agent` on a node's function gives the task its name and role."""

    @orchtrace.agent("planner", role="lead")
    def plan(state: State) -> State:
        return {"log": ["plan"]}

    @orchtrace.agent("runner")
    async def run(state: State, config) -> State:
        return {"log": [config["metadata"]["langgraph_node"]]}

    graph = graph_of((START, "plan"), ("plan", "run"), nodes={"plan": plan, "run": run})
    assert asyncio.run(graph.ainvoke({}))["log"] == ["plan", "run"]
    assert read.triggers(traced.trace) == {
        "planner#1": [{"LangGraph#1"}],
        "runner#1": [{"planner#1"}],
    }
    assert {e.get("role") for e in traced.trace.events if e["instance"] == "planner#1"} >= {"lead"}


def test_agent_on_a_graph_names_it_and_gives_the_graph_back(traced):
    """`orchtrace.agent(graph)` returns the very graph, which is traced under that name."""
    graph = graph_of((START, "a"))
    assert orchtrace.agent("scouts", role="team")(graph) is graph
    graph.invoke({}, {"run_name": "another"})
    opening = traced.trace.events[0]
    assert opening["to"] == "scouts"


def test_a_run_name_of_the_user_names_the_run(traced):
    """A graph without a name of its own takes the run's."""
    graph_of((START, "a")).invoke({}, {"run_name": "nightly"})
    assert traced.trace.events[0]["to"] == "nightly"


def test_a_graph_in_a_team_is_part_of_its_run(traced, read):
    """Inside `@orchtrace.team` a graph is an agent that is spawned and returns."""
    graph = graph_of((START, "a"), name="graph")

    @orchtrace.team("outer")
    def outer():
        graph.invoke({})
        return graph.invoke({})["log"]

    assert outer() == ["a"]
    assert read.outline(traced.trace) == [
        "0 outer#1 begin",
        "1 graph#1 spawn <- spawn 0",
        "2 a#1 spawn <- causal 1",
        "3 a#1 return",
        "4 graph#1 return <- return 3",
        "5 graph#2 spawn <- return 4, spawn 0",
        "6 a#2 spawn <- causal 5",
        "7 a#2 return",
        "8 graph#2 return <- return 7",
        "9 outer#1 stop information_complete <- return 8",
    ]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_runs_where_the_host_suppresses_tracing_is_no_part_of_its_node(traced, read, is_async):
    """Neither what the routers and commands of a graph in it chose, nor its tasks and turns."""
    model = FakeListChatModel(responses=["said"])
    inner = StateGraph(State)
    inner.add_node("a", lambda state: {"log": [model.invoke("hello").content]})
    inner.add_node("b", lambda state: Command(goto="c"))
    inner.add_node("c", logs("c"))
    inner.add_edge(START, "a")
    inner.add_conditional_edges("a", lambda state: "b", ["b"])
    quiet, log = inner.compile(), task(logs("task"))

    def node(state):
        with suppress_instrumentation():
            return {"log": quiet.invoke({})["log"] + log({}).result()["log"]}

    async def anode(state):
        with suppress_instrumentation():
            streamed = [event async for event in quiet.astream_events({}, version="v2")]
            return {"log": streamed[-1]["data"]["output"]["log"] + (await log({}))["log"]}

    graph = graph_of((START, "node"), ("node", "z"), nodes={"node": anode if is_async else node})
    result = asyncio.run(graph.ainvoke({})) if is_async else graph.invoke({})
    assert result == {"log": ["said", "c", "task", "z"]}
    assert read.outline(traced.trace) == [
        "0 LangGraph#1 begin",
        "1 node#1 spawn <- causal 0",
        "2 node#1 return",
        "3 z#1 spawn <- causal 2",
        "4 z#1 return",
        "5 LangGraph#1 stop information_complete <- return 4",
    ]
    assert traced.trace.turns == ()
