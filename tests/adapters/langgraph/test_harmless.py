"""The host never notices: its results, streams, configuration and context are as without us."""

import asyncio
import dataclasses
import gc
import operator
import threading
from typing import Annotated, Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langgraph.channels import EphemeralValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.pregel._read import PregelNode
from langgraph.types import Command as Goto
from langgraph.types import Send, interrupt
from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import SpanProcessor
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace
from orchtrace_otel import adapter
from orchtrace_otel.testing import capture

MODES = ["values", "updates", "debug", "tasks", "checkpoints", "messages", "custom"]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    held: Any


def build(**options):
    """A graph with a subgraph, Sends, a join, a router, a command and a model."""
    sub = StateGraph(State)
    sub.add_node("inner", lambda state: {"log": ["inner"]})
    sub.add_edge(START, "inner")
    model = FakeListChatModel(responses=["said"])
    graph = StateGraph(State)
    graph.add_node("start", lambda state: {"log": ["start"]})
    graph.add_node("worker", lambda state: {"log": [f"worker {state['n']}"]})
    graph.add_node("join", lambda state: Goto(goto="sub", update={"log": ["join"]}))
    graph.add_node("sub", sub.compile())
    graph.add_node("speak", lambda state: {"log": [model.invoke("hello").content]})
    graph.add_edge(START, "start")
    graph.add_conditional_edges("start", lambda s: [Send("worker", {"n": n}) for n in range(3)])
    graph.add_edge("worker", "join")
    graph.add_edge("sub", "speak")
    graph.add_conditional_edges("speak", lambda state: END, ["start", END])
    return graph.compile(**options)


def plain(value):
    """A chunk without what differs from run to run: ids, times, and objects' identities."""
    if isinstance(value, dict):
        changing = {"timestamp", "id", "run_id", "checkpoint_id", "ts", "checkpoint_map", "parents"}
        return {
            key: plain(v)
            for key, v in value.items()
            if key not in changing and not str(key).startswith("__pregel_checkpoint")
        }
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    text = value if isinstance(value, (str, int, float, type(None))) else type(value).__name__
    return text.split(":")[0] if isinstance(text, str) else text


def streamed(mode, *, is_async, **options):
    graph = build(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    if not is_async:
        return [plain(c) for c in graph.stream({}, config, stream_mode=mode, **options)]

    async def collect():
        return [plain(c) async for c in graph.astream({}, config, stream_mode=mode, **options)]

    return asyncio.run(collect())


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("subgraphs", [False, True], ids=["top", "subgraphs"])
@pytest.mark.parametrize("mode", [*MODES, MODES])
def test_streams_are_equal_with_and_without_us(mode, subgraphs, is_async):
    """Every mode streams the same chunks, keys of configurations included."""
    without = streamed(mode, is_async=is_async, subgraphs=subgraphs)
    with capture() as captured, orchtrace.instrument("langgraph"):
        traced = streamed(mode, is_async=is_async, subgraphs=subgraphs)
    assert len(captured.traces) == 1
    # Parallel tasks may finish in any order.
    assert sorted(map(repr, traced)) == sorted(map(repr, without))


def test_a_node_sees_the_configuration_it_would_see_without_us(traced):
    """No key and no handler of ours is in a node's configuration."""
    seen = []

    def look(state, config):
        seen.append((set(config), set(config["configurable"]), config["callbacks"].handlers))
        return {"log": []}

    graph = StateGraph(State)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    graph.compile().invoke({})
    handle = orchtrace.instrument("langgraph")
    handle.uninstrument()
    keys, configurable, handlers = seen[0]
    assert not {k for k in keys | configurable if "orchtrace" in k}
    assert handlers == []


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_user_code_sees_the_span_of_its_node_and_of_its_subgraphs_nodes(traced, is_async):
    """In every node, parallel and nested, the current span is the node's own."""
    seen = {}
    meet = threading.Barrier(2) if not is_async else None

    def note(name, state):
        seen[name] = otel.get_current_span().get_span_context().span_id
        return {"log": []}

    def node(name):
        async def anode(state):
            await asyncio.sleep(0)
            return note(name, state)

        def parallel(state):
            if name in ("left", "right"):
                meet.wait(5)
            return note(name, state)

        return anode if is_async else parallel

    sub = StateGraph(State)
    sub.add_node("nested", node("nested"))
    sub.add_edge(START, "nested")
    graph = StateGraph(State)
    for name in ("left", "right"):
        graph.add_node(name, node(name))
        graph.add_edge(START, name)
    graph.add_node("sub", sub.compile())
    graph.add_edge(["left", "right"], "sub")
    compiled = graph.compile()
    asyncio.run(compiled.ainvoke({})) if is_async else compiled.invoke({})
    spans = {span.context.span_id: span.name for span in traced.spans}
    assert {name: spans[span] for name, span in seen.items()} == {
        name: f"invoke_agent {name}" for name in ("left", "right", "nested")
    }


def test_state_that_cannot_be_copied_or_compared_is_left_alone(traced):
    """Locks, clients and hostile objects in the state and in Sends are never touched."""

    class Hostile:
        def __eq__(self, other):
            raise AssertionError("compared")

        __hash__ = None

        def __repr__(self):
            raise AssertionError("shown")

        def __reduce_ex__(self, protocol):
            raise AssertionError("pickled or copied")

    held = (threading.Lock(), Hostile())

    def fan_out(state):
        return Goto(goto=[Send("b", {"held": held}), Send("b", {"held": held})])

    graph = StateGraph(State)
    graph.add_node("a", fan_out)
    graph.add_node("b", lambda state: {"log": [str(state["held"] is held)]})
    graph.add_edge(START, "a")
    graph.add_edge("b", END)
    result = graph.compile().invoke({"held": held})
    assert result["log"] == ["True", "True"]
    assert result["held"] is held


def test_a_result_whose_class_cannot_be_hashed_is_left_alone(traced):
    """What a node returns is asked for nothing that its class may refuse; LangGraph asks less."""

    class Meta(type):
        __hash__ = None

    class Odd(metaclass=Meta):
        """Its class is a key of nothing."""

    class Gives(Runnable):
        def invoke(self, *args, **kwargs):
            return Odd()

    graph = Pregel(
        nodes={"node": PregelNode(channels="a", triggers=["a"], bound=Gives())},
        channels={"a": EphemeralValue(str), "b": EphemeralValue(str)},
        input_channels="a",
        output_channels="b",
    )
    assert graph.invoke("go") is None
    assert [event.verb for event in traced.trace.events] == ["begin", "spawn", "return", "stop"]


@dataclasses.dataclass
class Command:
    """One of the host's, named like LangGraph's."""

    text: str


def test_a_class_of_the_hosts_that_is_named_command_is_a_value_like_others(traced):
    """As an input, as what a task or a tool answers, alone and in a list."""

    @tool
    def shell(x: int) -> Any:
        """Make a command."""
        return Command("ls")

    @task
    def answers(x):
        return [Command("ls"), shell.invoke({"x": x})]

    @entrypoint(checkpointer=InMemorySaver())
    def work(given):
        return [given.text, *(one.text for one in answers(1).result())]

    config = {"configurable": {"thread_id": "1"}}
    assert work.invoke(Command("cd"), config) == ["cd", "ls", "ls"]
    assert [event.verb for event in traced.trace.events] == [
        "begin",
        "spawn",
        "spawn",
        "tool_call",
        "tool_result",
        "return",
        "return",
        "stop",
    ]


def test_what_a_tool_answers_is_asked_for_nothing(traced):
    """A lazy object that answers whatever it is asked, or refuses, is handed on as it is."""

    class Lazy:
        def __getattr__(self, name):
            raise RuntimeError(name)

    lazy, found = Lazy(), []

    @tool
    def fetch(x: int) -> Any:
        """Give something lazy."""
        return lazy

    graph = StateGraph(State)
    graph.add_node("node", lambda state: found.append(fetch.invoke({"x": 1})) or {"log": []})
    graph.add_edge(START, "node")
    graph.compile().invoke({})
    assert found == [lazy]
    assert [e["status"] for e in traced.trace.events if e.verb == "tool_result"] == ["ok"]


def test_graphs_that_cannot_be_told_apart_by_equality_are_known_for_themselves(traced):
    """One that is equal to every other, and so has no hash, is traced under its own name."""

    class Equal(CompiledStateGraph):
        __hash__ = None

        def __eq__(self, other):
            return True

    for name in ("one", "two"):
        graph = StateGraph(State)
        graph.add_node("node", lambda state: {"log": ["node"]})
        graph.add_edge(START, "node")
        compiled = graph.compile(name=name)
        compiled.__class__ = Equal
        assert compiled.invoke({}) == {"log": ["node"]}
    assert [trace.events[0]["to"] for trace in traced.traces] == ["one", "two"]


def test_a_graph_whose_nodes_and_channels_are_others_by_now_keeps_its_causes(traced, read):
    """What was known of a graph's channels from its first run is known anew."""

    def of(*names):
        graph = StateGraph(State)
        for name in names:
            graph.add_node(name, lambda state: {"log": []})
        for name in names[:-1]:
            graph.add_edge(START, name)
        graph.add_edge([*names[:-1]], names[-1])
        return graph.compile()

    compiled = of("a", "b", "join")
    compiled.invoke({})
    for other in (of("a", "c", "join"), of("a", "b", "c", "join")):
        compiled.nodes, compiled.channels = other.nodes, other.channels
        compiled.trigger_to_nodes = other.trigger_to_nodes
        compiled.invoke({})
    assert [read.triggers(trace)["join#1"] for trace in traced.traces] == [
        [{"a#1", "b#1"}],
        [{"a#1", "c#1"}],
        [{"a#1", "b#1", "c#1"}],
    ]


def test_a_generators_exit_in_a_node_or_in_a_tool_leaves_the_callers_context_alone(traced):
    """It need not mean that a coroutine is thrown away."""

    def leaves(*args):
        raise GeneratorExit

    @tool
    def leave(x: int) -> int:
        """Leave."""
        leaves()

    def node(state):
        with pytest.raises(GeneratorExit):
            leave.invoke({"x": 1})
        seen.append(otel.get_current_span().name)
        leaves()

    seen: list[str] = []
    before = otel_context.get_current()
    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    with pytest.raises(GeneratorExit):
        graph.compile().invoke({})
    assert seen == ["invoke_agent node"]
    assert otel_context.get_current() == before


def test_the_callers_context_is_the_same_after_each_chunk(traced):
    """Nothing is attached in the consumer of a stream, between chunks or after."""
    before = otel_context.get_current()
    for _ in build().stream({}):
        assert otel_context.get_current() == before
    assert otel_context.get_current() == before


def test_many_runs_at_once_do_not_mix(traced, read):
    """Twenty concurrent runs give twenty traces of the same shape."""

    async def main():
        graph = build()
        await asyncio.gather(*(graph.ainvoke({}) for _ in range(20)))

    asyncio.run(main())
    assert len(traced.traces) == 20
    shapes = [read.triggers(trace) for trace in traced.traces]
    assert shapes == [shapes[0]] * 20
    assert len({span.context.trace_id for span in traced.spans}) == 20


def test_a_run_below_a_users_span_joins_its_trace(traced):
    """The root's parent is the span that was current where the graph was called."""
    with otel.get_tracer("host").start_as_current_span("request") as outer:
        build().invoke({})
    assert {span.context.trace_id for span in traced.spans} == {outer.get_span_context().trace_id}
    root = next(span for span in traced.spans if span.name.startswith("invoke_workflow"))
    assert root.parent.span_id == outer.get_span_context().span_id


def test_uninstrument_restores_the_very_originals():
    """Every wrapped attribute is the same object as before, and twice is once."""
    from orchtrace_langgraph._framework import find
    from orchtrace_langgraph._hooks import HOOKS
    from orchtrace_otel import spans

    def now():
        return {(owner, name): vars(find(owner)).get(name) for owner, name, _, _ in HOOKS}

    before, outcomes = now(), dict(spans.outcomes)
    first = orchtrace.instrument("langgraph")
    second = orchtrace.instrument("langgraph")
    wrapped = now()
    assert all(wrapped[key] is not before[key] for key in before if before[key] is not None)
    first.uninstrument()
    assert now() == wrapped
    second.uninstrument()
    after = now()
    assert all(after[key] is before[key] for key in before)
    assert spans.outcomes == outcomes


def test_a_graph_compiled_before_instrumenting_is_traced(referee):
    """Hooks sit in LangGraph, not in the graphs: the order does not matter."""
    graph = build()
    with capture() as captured, orchtrace.instrument("langgraph"):
        graph.invoke({})
    referee(captured.trace)
    graph.invoke({})
    assert len(captured.traces) == 1


def test_a_missing_hook_is_one_warning_and_causes_are_inferred(monkeypatch, caplog, read):
    """Where a version does not tell who wrote what, the trace says that causes are inferred."""
    from orchtrace_langgraph import _hooks
    from orchtrace_otel import _guard

    monkeypatch.setattr(_guard, "_told", set())
    hooks = [
        (owner, "gone" if name == "after_tick" else name, wrapper, may_lack)
        for owner, name, wrapper, may_lack in _hooks.HOOKS
    ]
    monkeypatch.setattr(_hooks, "HOOKS", hooks)
    for _ in range(2):
        with capture() as captured, orchtrace.instrument("langgraph"):
            build().invoke({})
    told = [record for record in caplog.records if "gone" in record.getMessage()]
    assert [record.levelname for record in told] == ["WARNING"]
    assert read.triggers(captured.trace)["join#1"] == [{"worker#1", "worker#2", "worker#3"}]
    openings = [e for e in captured.trace.events if e.verb == "spawn"]
    assert {e.get("causality") for e in openings} == {"inferred"}


def test_nothing_is_kept_once_runs_have_ended(traced):
    """The registries of tasks and LLM calls are empty after runs, failed ones included."""
    from orchtrace_langgraph import _open_turns, _tasks

    build().invoke({})
    stream = build().stream({})
    next(stream)
    stream.close()
    graph = StateGraph(State)
    graph.add_node("fails", lambda state: 1 / 0)
    graph.add_node("asks", lambda state: interrupt("?"))
    graph.add_edge(START, "fails")
    graph.add_edge(START, "asks")
    with pytest.raises(ZeroDivisionError):
        graph.compile(checkpointer=InMemorySaver()).invoke({}, {"configurable": {"thread_id": "1"}})
    assert (_tasks.waiting, _tasks.running, _open_turns.turns) == ({}, {}, {})


@pytest.mark.swallows_errors
def test_nothing_is_kept_of_a_task_whose_span_fails_to_start():
    """A processor of the application's that raises costs the task its span, and no memory."""
    from orchtrace_langgraph import _tasks

    class Raises(SpanProcessor):
        def on_start(self, span, parent_context=None):
            if "worker" in span.name:
                raise ValueError(span.name)

    wanted = build().invoke({})
    with capture() as captured, orchtrace.instrument("langgraph"):
        captured.provider.add_span_processor(Raises())
        assert build().invoke({}) == wanted
    assert _tasks.running == {}


@pytest.mark.parametrize("stops", [{}, {"interrupt_after": ["first"]}])
def test_no_task_waits_for_the_garbage_collector(traced, stops):
    """What is known of a run and its tasks is free when it is over, wherever it stopped."""
    from orchtrace_langgraph._runs import GraphRun
    from orchtrace_langgraph._tasks import Task

    graph = StateGraph(State)
    graph.add_node("first", lambda state: {})
    graph.add_node("second", lambda state: {})
    graph.add_edge(START, "first")
    graph.add_edge("first", "second")
    compiled = graph.compile(checkpointer=InMemorySaver())

    def known():
        # By `is`: classes of other tests are there too, and some are not to be compared.
        return [one for one in gc.get_objects() if type(one) is GraphRun or type(one) is Task]

    gc.collect()
    gc.disable()
    try:
        before = known()  # a thread of the host's that lives on holds the context it began in
        compiled.invoke({}, {"configurable": {"thread_id": "1"}}, **stops)
        assert [one for one in known() if not any(one is other for other in before)] == []
    finally:
        gc.enable()


def test_the_adapter_says_which_versions_it_was_tried_with():
    """The range of the adapter is that of the extra."""
    from importlib.metadata import requires

    extra = [r for r in requires("orchtrace-otel") or [] if r.startswith("langgraph")]
    declared = adapter.load("langgraph").requires["langgraph"]
    ranges = [set(r.split(";")[0].removeprefix("langgraph").split(",")) for r in extra]
    assert set(declared.split(",")) in ranges
