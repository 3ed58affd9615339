"""A second instrumentation beside ours: a fake one, out of callbacks, as the real ones are.

`make test-coexistence` has the real ones.
"""

import asyncio
import operator
from typing import Annotated

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, StateGraph
from opentelemetry import context as otel_context
from opentelemetry import trace as otel
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace

OURS = ("invoke_", "execute_tool", "chat", "decide", "stop", "aggregate")


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class Model(FakeMessagesListChatModel):
    model_name: str = "scripted"


def model():
    call = {"name": "add", "args": {"x": 1}, "id": "c1"}
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    return Model(responses=[AIMessage("", tool_calls=[call], usage_metadata=usage)])


@tool
def add(x: int) -> str:
    """Add one."""
    return str(x + 1)


class Theirs(BaseCallbackHandler):
    """Makes a span of each chain, model and tool; makes it current in the way of its kind.

    Traceloop's kind attaches in the callback where the work goes on in that context.
    """

    run_inline = True

    def __init__(self, tracer, *, attaches):
        self.tracer = tracer
        self.attaches = attaches
        self.open = {}

    def start(self, name, run_id, parent_run_id):
        around = self.open.get(parent_run_id)
        parent = Context() if around is None else otel.set_span_in_context(around[0], Context())
        span = self.tracer.start_span(name, context=parent)
        here = otel.set_span_in_context(span)
        self.open[run_id] = (span, otel_context.attach(here) if self.attaches else None)

    def end(self, run_id):
        span, token = self.open.pop(run_id)
        if token is not None:
            otel_context.detach(token)
        span.end()

    def on_chain_start(self, serialized, inputs, *, run_id, parent_run_id=None, **more):
        self.start(f"chain {more.get('name')}", run_id, parent_run_id)

    def on_chat_model_start(self, serialized, messages, *, run_id, parent_run_id=None, **more):
        self.start("their chat", run_id, parent_run_id)

    def on_tool_start(self, serialized, text, *, run_id, parent_run_id=None, **more):
        self.start("their tool", run_id, parent_run_id)

    def on_chain_end(self, outputs, *, run_id, **more):
        self.end(run_id)

    def on_llm_end(self, response, *, run_id, **more):
        self.end(run_id)

    def on_tool_end(self, output, *, run_id, **more):
        self.end(run_id)


@orchtrace.agent("helper")
def helper():
    """A decorated function that a node calls."""
    return model().invoke("help").content


def team(replaced=None):
    """A node that asks a model, calls a tool, a graph and a decorated function.

    The official instrumentation's kind puts a context of its own in the place of the one
    that a node runs in: `replaced` is that one's span.
    """
    inner = StateGraph(Log)
    inner.add_node("x", lambda state: {"log": [model().invoke("?").content]})
    inner.add_edge(START, "x")
    graph_in_node = inner.compile(name="inner")

    def work():
        asked = model().invoke("hello")
        answer = add.invoke(asked.tool_calls[0]).content
        graph_in_node.invoke({})
        return {"log": [answer, helper()]}

    def node(state):
        if replaced is None:
            return work()
        token = otel_context.attach(otel.set_span_in_context(replaced, Context()))
        try:
            return work()
        finally:
            otel_context.detach(token)

    graph = StateGraph(Log)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(name="team")


def paths(spans):
    """Each span's name and the names of those around it."""
    by_id = {span.context.span_id: span for span in spans}
    found = []
    for span in spans:
        path, above = [span.name], span
        # A decorator's span lies, as a user's does, in whatever is current around it.
        while path[-1] != "invoke_agent helper" and above.parent is not None:
            if above.parent.span_id not in by_id:
                break
            above = by_id[above.parent.span_id]
            path.append(above.name)
        found.append(" < ".join(path))
    return sorted(found)


def their_tracer():
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return provider.get_tracer("fake.instrumentation.langchain"), memory


def run(graph, handler, *, is_async):
    config = {} if handler is None else {"callbacks": [handler]}
    return asyncio.run(graph.ainvoke({}, config)) if is_async else graph.invoke({}, config)


@pytest.fixture
def alone(traced, read):
    """What ours makes of the team without any other."""
    team().invoke({})
    outline, names = read.outline(traced.trace), paths(traced.spans)
    traced.traces.clear()
    traced.spans.clear()
    return outline, names


@pytest.mark.parametrize(
    ("is_async", "attaches"),
    # In an async run a handler cannot attach: its context is not the node's.
    [(False, False), (False, True), (True, False)],
    ids=["sync", "sync, attaching", "async"],
)
def test_an_instrumentation_out_of_callbacks_changes_nothing_of_ours(
    alone, traced, read, is_async, attaches
):
    """Each token counts once, each span of ours lies in ours, and theirs are as alone."""
    tracer, memory = their_tracer()
    run(team(), Theirs(tracer, attaches=attaches), is_async=is_async)
    assert (read.outline(traced.trace), paths(traced.spans)) == alone
    assert traced.trace.costs["tokens"] == 7 * 3
    theirs = paths(memory.get_finished_spans())
    assert "their chat < chain node < chain team" in theirs
    assert not any(name.startswith(OURS) for path in theirs for name in path.split(" < "))


def test_an_instrumentation_that_puts_its_context_in_place_of_ours_loses_nothing(
    alone, traced, read
):
    """Turns, tool calls, graphs and decorated functions are known by where they run."""
    tracer, _ = their_tracer()
    with tracer.start_as_current_span("theirs", context=Context()) as span:
        pass
    team(span).invoke({})
    outline, _ = alone
    assert read.outline(traced.trace) == outline
    assert traced.trace.costs["tokens"] == 7 * 3
    by_id = {one.context.span_id: one.name for one in traced.spans}
    around = {one.name: by_id.get(one.parent.span_id) for one in traced.spans if one.parent}
    assert around["execute_tool add"] == "invoke_agent node"
    assert around["invoke_agent inner"] == "invoke_agent node"


def test_a_team_around_a_graph_is_not_taken_for_the_node(traced, read):
    """Where their context knows of an outer activation of ours, the node's still counts."""
    kept = []

    @orchtrace.team("outer")
    def outer():
        tracer, _ = their_tracer()
        with tracer.start_as_current_span("theirs") as span:
            kept.append(otel.set_span_in_context(span))

        def node(state):
            token = otel_context.attach(kept[0])
            try:
                return {"log": [model().invoke("hello").content]}
            finally:
                otel_context.detach(token)

        graph = StateGraph(Log)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        return graph.compile(name="team").invoke({})

    outer()
    (turn,) = traced.trace.turns
    assert turn.agent == "node"
