"""Whole traces of teams that LangGraph's and LangChain's own builders make."""

import asyncio
import operator
from collections import Counter
from typing import Annotated

import pytest
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send
from opentelemetry.trace import StatusCode
from typing_extensions import TypedDict

from orchtrace_otel import attributes as a

ABSENT = "this release of LangGraph, or this installation, comes without it"
OLD = "ignore:create_react_agent has been moved:Warning"


def prebuilt(name):
    """A module that not every installation has."""
    return pytest.importorskip(name, exc_type=ImportError, reason=ABSENT)


class Model(FakeMessagesListChatModel):
    """A scripted model that takes tools."""

    model_name: str = "scripted"

    def bind_tools(self, tools, **options):
        return self


def says(text="done", **calls):
    """A model's answer: a text, and calls of tools given as `id=(name, arguments)`."""
    made = [{"name": name, "args": args, "id": key} for key, (name, args) in calls.items()]
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    return AIMessage(text, tool_calls=made, usage_metadata=usage)


@tool
def double(x: int) -> str:
    """Double a number."""
    return str(x * 2)


def react(name, responses, tools=(), version="v2"):
    """LangGraph's own agent."""
    make = prebuilt("langgraph.prebuilt").create_react_agent
    return make(Model(responses=responses), list(tools), name=name, version=version)


def ask(graph, way="invoke"):
    """Ask a team to go."""
    asked = {"messages": [("user", "go")]}

    async def listen():
        return [event async for event in graph.astream_events(asked, version="v2")]

    ways = {
        "invoke": lambda: graph.invoke(asked),
        "ainvoke": lambda: asyncio.run(graph.ainvoke(asked)),
        "astream_events": lambda: asyncio.run(listen()),
    }
    return ways[way]()


def no_error_anywhere(traced):
    """Whether no span is an error and none has an exception."""
    return all(s.status.status_code is not StatusCode.ERROR and not s.events for s in traced.spans)


def delegations(trace):
    """Each hand-off as who, to whom, by which tool call, and the verb of each of its causes."""
    events = {event.id: event for event in trace.events}
    found = []
    for event in trace.events:
        if event.verb == "delegate" and not event.id.endswith(".open"):
            causes = [
                (edge.type, events[edge.src]["instance"])
                for edge in trace.edges
                if edge.dst == event.id
            ]
            found.append((event.agent, event["to"], event.get("tool_call_id"), sorted(causes)))
    return found


@pytest.mark.filterwarnings(OLD)
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "astream_events"])
def test_a_supervisor_delegates_and_its_workers_hand_back(traced, read, way):
    """Each hand-off is its agent's, with the call that made it; what opens follows as `begin`."""
    create = prebuilt("langgraph_supervisor").create_supervisor
    alice = react("alice", [says(c1=("double", {"x": 2})), says("4")], [double])
    bob = react("bob", [says("5")])
    plan = [
        says(t1=("transfer_to_alice", {})),
        says(t2=("transfer_to_bob", {})),
        says(),
    ]
    team = create([alice, bob], model=Model(responses=plan), parallel_tool_calls=False)
    ask(team.compile(name="team"), way)
    trace = traced.trace
    assert delegations(trace) == [
        ("supervisor", "alice", "t1", [("causal", "tools#1"), ("tool_dependency", "tools#1")]),
        ("alice", "supervisor", None, [("causal", "alice#1")]),
        ("supervisor", "bob", "t2", [("causal", "tools#3"), ("tool_dependency", "tools#3")]),
        ("bob", "supervisor", None, [("return", "agent#4")]),
    ]
    causes = read.triggers(trace)
    assert causes["supervisor#1"] == [{"team#1"}, {"alice#1"}, {"bob#1"}]
    assert causes["alice#1"] == [{"supervisor#1", "tools#1"}]
    assert causes["bob#1"] == [{"supervisor#1", "tools#3"}]
    opened = [
        (e.agent, e.verb, e["to"])
        for e in trace.events
        if e.id.endswith(".open") and e.get("to") in ("supervisor", "alice", "bob")
    ]
    assert opened == [
        ("team", "spawn", "supervisor"),
        ("supervisor", "begin", "alice"),
        ("alice", "begin", "supervisor"),
        ("supervisor", "begin", "bob"),
        ("bob", "begin", "supervisor"),
    ]
    assert trace.costs["tokens"] == 7 * 6
    assert no_error_anywhere(traced)


@pytest.mark.filterwarnings(OLD)
def test_hand_offs_to_two_workers_at_once_are_two_delegations(traced, read):
    """What one turn hands to two workers by packets is merged where both hand back."""
    create = prebuilt("langgraph_supervisor").create_supervisor

    rounds = []

    def once(state):
        rounds.append(1)
        packets = [Send("alice", state), Send("bob", state), Send("bob", state)]
        return Command(graph=Command.PARENT, goto=packets) if len(rounds) == 1 else {}

    boss = StateGraph(MessagesState)
    boss.add_node("boss", once)
    boss.add_edge(START, "boss")
    workers = [react("alice", [says("a")]), react("bob", [says("b")])]
    team = create(workers, model=Model(responses=[says()]))
    team.nodes.pop("supervisor")
    team.add_node("supervisor", boss.compile(), destinations=("alice", "bob"))
    ask(team.compile(name="team"))
    causes = read.triggers(traced.trace)
    assert causes["alice#1"] == causes["bob#1"] == causes["bob#2"] == [{"supervisor#1", "boss#1"}]
    assert causes["supervisor#1"] == [{"team#1"}, {"alice#1", "bob#1", "bob#2"}]
    assert Counter((who, to) for who, to, _, _ in delegations(traced.trace)) == {
        ("supervisor", "alice"): 1,
        ("supervisor", "bob"): 2,
        ("alice", "supervisor"): 1,
        ("bob", "supervisor"): 2,
    }


@pytest.mark.filterwarnings(OLD)
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "astream_events"])
def test_a_swarm_hands_off(traced, read, way):
    """The agent whose tool hands over delegates; nothing in the trace is an error."""
    swarm = prebuilt("langgraph_swarm")
    to_bob = swarm.create_handoff_tool(agent_name="bob")
    alice = react("alice", [says(t1=("transfer_to_bob", {}))], [to_bob])
    bob = react("bob", [says("hello")], [swarm.create_handoff_tool(agent_name="alice")])
    team = swarm.create_swarm([alice, bob], default_active_agent="alice")
    ask(team.compile(name="swarm"), way)
    assert read.outline(traced.trace) == [
        "0 swarm#1 begin",
        "1 swarm#1 decide alice <- causal 0",
        "2 alice#1 spawn <- causal 1",
        "3 agent#1 spawn <- causal 2",
        "4 agent#1 return",
        "5 alice#1 decide tools <- causal 4",
        "6 tools#1 spawn <- spawn 5",
        "7 tools#1 tool_call transfer_to_bob <- causal 6",
        "8 tools#1 tool_result transfer_to_bob",
        "9 tools#1 return <- tool_dependency 8",
        "10 alice#1 delegate <- causal 9, tool_dependency 8",
        "11 alice#1 return <- causal 10",
        "12 bob#1 begin <- causal 9, causal 10",
        "13 agent#2 spawn <- causal 12",
        "14 agent#2 return",
        "15 bob#1 decide __end__ <- causal 14",
        "16 bob#1 return <- causal 15",
        "17 swarm#1 stop information_complete <- return 16",
    ]
    delegate = traced.trace.events[10]
    assert (delegate["to"], delegate["decision"], delegate["tool_call_id"]) == ("bob", "O2", "t1")
    (span,) = [span for span in traced.spans if span.name == "delegate bob"]
    assert span.attributes[a.TURNS] == (traced.trace.turns[0].id,)
    assert traced.trace.costs["tokens"] == 14
    assert no_error_anywhere(traced)


@pytest.mark.filterwarnings(OLD)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_react_agent_merges_what_its_tools_answered(traced, read, version):
    """v1 calls all tools in one task, v2 sends one task out for each."""
    calls = {"c1": ("double", {"x": 1}), "c2": ("double", {"x": 2})}
    ask(react("alice", [says(**calls), says()], [double], version))
    tools = {"tools#1"} if version == "v1" else {"tools#1", "tools#2"}
    assert read.triggers(traced.trace) == {
        "agent#1": [{"alice#1"}, tools],
        **{name: [{"agent#1"}] for name in sorted(tools)},
    }
    (first, second) = traced.trace.turns
    called = [span for span in traced.spans if span.name == "execute_tool double"]
    assert {s.attributes[a.TOOL_CALL_ID]: s.attributes[a.TURNS] for s in called} == {
        "c1": (first.id,),
        "c2": (first.id,),
    }
    assert second.id != first.id
    assert traced.trace.costs["tokens"] == 14


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "astream_events"])
def test_an_agent_with_middleware_runs_it_as_nodes_of_its_own(traced, read, way):
    """LangChain's `create_agent`: hooks that are nodes are tasks, wrappers are not."""
    agents = prebuilt("langchain.agents")
    middleware = prebuilt("langchain.agents.middleware")

    class Watch(middleware.AgentMiddleware):
        def before_model(self, state, runtime):
            return None

        def wrap_model_call(self, request, handler):
            return handler(request)

        async def awrap_model_call(self, request, handler):
            return await handler(request)

        def wrap_tool_call(self, request, handler):
            return handler(request)

        async def awrap_tool_call(self, request, handler):
            return await handler(request)

    model = Model(responses=[says(c1=("double", {"x": 2})), says("4")])
    agent = agents.create_agent(model, [double], name="alice", middleware=[Watch()])
    ask(agent, way)
    assert read.outline(traced.trace) == [
        "0 alice#1 begin",
        "1 Watch.before_model#1 spawn <- causal 0",
        "2 Watch.before_model#1 return",
        "3 model#1 spawn <- causal 2",
        "4 model#1 return",
        "5 alice#1 decide tools <- causal 4",
        "6 tools#1 spawn <- spawn 5",
        "7 tools#1 tool_call double <- causal 6",
        "8 tools#1 tool_result double",
        "9 tools#1 return <- tool_dependency 8",
        "10 alice#1 decide Watch.before_model <- causal 9",
        "11 Watch.before_model#1 delegate <- causal 10",
        "12 Watch.before_model#1 return",
        "13 model#1 delegate <- causal 12",
        "14 model#1 return",
        "15 alice#1 decide __end__ <- causal 14",
        "16 alice#1 stop information_complete <- causal 15",
    ]
    assert traced.trace.costs["tokens"] == 14


def test_an_agent_called_by_a_tool_is_spawned_by_the_call_and_returns_to_it(traced, read):
    """Agent as tool: the inner agent's activation lies between call and result."""
    prebuilt("langchain.agents.middleware")
    agents = prebuilt("langchain.agents")
    inner = agents.create_agent(Model(responses=[says("6")]), [], name="adder")

    @tool
    def add(x: int) -> str:
        """Ask the agent that adds."""
        return ask(inner)["messages"][-1].content

    model = Model(responses=[says(c1=("add", {"x": 2})), says("6")])
    ask(agents.create_agent(model, [add], name="boss"))
    assert read.outline(traced.trace)[5:12] == [
        "5 tools#1 tool_call add <- causal 4",
        "6 adder#1 spawn <- spawn 5",
        "7 model#2 spawn <- causal 6",
        "8 model#2 return",
        "9 adder#1 return <- return 8",
        "10 tools#1 tool_result add <- return 9",
        "11 tools#1 return <- tool_dependency 10",
    ]


def test_a_deep_agents_helper_is_spawned_by_its_task_tool(traced, read):
    """deepagents: the tool `task` calls a helper; its tool calls are credited to it."""
    deep = prebuilt("deepagents")
    model = Model(
        responses=[
            says(
                c1=("task", {"description": "add", "subagent_type": "adder"}),
            ),
            says("all done"),
        ]
    )
    helper = {
        "name": "adder",
        "description": "adds",
        "system_prompt": "add",
        "tools": [double],
        "model": Model(responses=[says(d1=("double", {"x": 2})), says("4")]),
    }
    ask(deep.create_deep_agent(model=model, subagents=[helper], name="chief"))
    trace = traced.trace
    events = {event.id: event for event in trace.events}
    spawned = next(e for e in events.values() if e.get("to") == "adder")
    assert [(e.type, events[e.src].verb) for e in trace.edges if e.dst == spawned.id] == [
        ("spawn", "tool_call")
    ]
    assert read.stop(trace)[0] == "information_complete"
    assert trace.costs["tokens"] == 28
    assert no_error_anywhere(traced)


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def test_graphs_three_deep_are_agents_in_agents(traced, read):
    """Each graph's tasks lie in its own activation, and results come back level by level."""

    def around(name, node):
        graph = StateGraph(Log)
        graph.add_node(name, node)
        graph.add_edge(START, name)
        return graph.compile()

    team = around("one", around("two", around("three", lambda state: {"log": ["deep"]})))
    assert team.invoke({})["log"] == ["deep"]
    assert read.outline(traced.trace) == [
        "0 LangGraph#1 begin",
        "1 one#1 spawn <- causal 0",
        "2 two#1 spawn <- causal 1",
        "3 three#1 spawn <- causal 2",
        "4 three#1 return",
        "5 two#1 return <- return 4",
        "6 one#1 return <- return 5",
        "7 LangGraph#1 stop information_complete <- return 6",
    ]


def test_a_join_of_two_hundred_packets_has_two_hundred_causes(traced, read):
    """OpenTelemetry keeps 128 links of a span; the trace keeps every cause."""
    graph = StateGraph(Log)
    graph.add_node("map", lambda state: {})
    graph.add_node("worker", lambda state: {"log": [str(state["n"])]})
    graph.add_node("reduce", lambda state: {})
    graph.add_edge(START, "map")
    graph.add_conditional_edges(
        "map", lambda state: [Send("worker", {"n": n}) for n in range(200)], ["worker"]
    )
    graph.add_edge("worker", "reduce")
    graph.compile(name="team").invoke({})
    trace = traced.trace
    assert read.triggers(trace)["reduce#1"] == [{f"worker#{n + 1}" for n in range(200)}]
    merging = next(event.id for event in trace.events if event.verb == "aggregate")
    document = trace.to_dict()
    edges = [edge for edge in document["edges"] if edge["dst"] == merging]
    assert Counter(edge["type"] for edge in edges) == {"aggregate": 200}
    assert len({edge["src"] for edge in edges}) == 200


def test_a_command_to_the_parent_that_also_has_an_edge_there_is_a_hand_off(traced, read):
    """The edge drawn to a node does not hide that its predecessor delegated to it; END ends."""
    inner = StateGraph(Log)
    inner.add_node("x", lambda state: Command(goto="target", graph=Command.PARENT))
    inner.add_edge(START, "x")
    ending = StateGraph(Log)
    ending.add_node("y", lambda state: Command(goto="__end__", graph=Command.PARENT))
    ending.add_edge(START, "y")
    graph = StateGraph(Log)
    graph.add_node("sub", inner.compile())
    graph.add_node("target", ending.compile())
    graph.add_edge(START, "sub")
    graph.add_edge("sub", "target")
    graph.compile().invoke({})
    assert delegations(traced.trace) == [("sub", "target", None, [("causal", "x#1")])]
    assert read.triggers(traced.trace)["target#1"] == [{"sub#1", "x#1"}]
    assert read.outline(traced.trace)[-2:] == [
        "10 LangGraph#1 decide __end__ <- causal 8, causal 9",
        "11 LangGraph#1 stop information_complete <- causal 10",
    ]
    assert no_error_anywhere(traced)


def test_a_tool_may_hand_over_by_one_of_several_commands(traced):
    """In a list of messages and commands; one of the messages may say that the call failed."""

    @tool
    def hand_over(n: int) -> list:
        """Hand over."""
        said = ToolMessage("over", tool_call_id="c1", status="error")
        parent = Command(goto="target", graph=Command.PARENT)
        return [said, Command(update={}), parent]

    def x(state):
        return next(one for one in hand_over.invoke({"n": 1}) if getattr(one, "goto", ()))

    inner = StateGraph(Log)
    inner.add_node("x", x)
    inner.add_edge(START, "x")
    graph = StateGraph(Log)
    graph.add_node("sub", inner.compile(), destinations=("target",))
    graph.add_node("target", lambda state: {})
    graph.add_edge(START, "sub")
    graph.compile().invoke({})
    assert delegations(traced.trace) == [
        ("sub", "target", None, [("causal", "x#1"), ("tool_dependency", "x#1")])
    ]
    (result,) = (event for event in traced.trace.events if event.verb == "tool_result")
    assert result["status"] == "error"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_hand_off_that_somebody_catches_is_none(traced, read, is_async):
    """A node that calls a graph and goes on by itself has handed nothing over."""
    from langgraph.errors import ParentCommand

    inner = StateGraph(Log)
    inner.add_node("x", lambda state: Command(goto="target", graph=Command.PARENT))
    inner.add_edge(START, "x")
    compiled = inner.compile(name="inner")

    def node(state):
        with pytest.raises(ParentCommand):
            compiled.invoke({})

    async def anode(state):
        with pytest.raises(ParentCommand):
            await compiled.ainvoke({})

    graph = StateGraph(Log)
    graph.add_node("caller", anode if is_async else node)
    graph.add_node("target", lambda state: {})
    graph.add_edge(START, "caller")
    graph.add_edge("caller", "next")
    graph.add_node("next", lambda state: {})
    team = graph.compile()
    asyncio.run(team.ainvoke({})) if is_async else team.invoke({})
    assert delegations(traced.trace) == []
    assert read.triggers(traced.trace)["next#1"] == [{"caller#1"}]
