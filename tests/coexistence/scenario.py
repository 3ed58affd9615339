"""One process of the coexistence tests: runs teams under some instrumentations, prints what came.

Usage: `python scenario.py PEER ORDER`, PEER one of `openinference traceloop genai`, ORDER a
list of `ours` and `theirs` in which they are put in, or `none`. Prints one line of JSON.
"""

import asyncio
import json
import logging
import operator
import re
import sys
import warnings
from collections import Counter
from typing import Annotated

from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typing_extensions import TypedDict

import orchtrace_otel as orchtrace

OURS = "orchtrace_otel"


class Model(FakeMessagesListChatModel):
    """A scripted model that takes tools."""

    model_name: str = "scripted"

    def bind_tools(self, tools, **options):
        return self


class Log(TypedDict, total=False):
    log: Annotated[list, operator.add]


def says(text="done", **calls):
    made = [{"name": name, "args": args, "id": key} for key, (name, args) in calls.items()]
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    return AIMessage(text, id="message", tool_calls=made, usage_metadata=usage)


@tool
def add(x: int) -> str:
    """Add one."""
    with trace.get_tracer("user").start_as_current_span("in the tool"):
        return str(x + 1)


@orchtrace.agent("helper")
def helper():
    """A decorated function that a node calls."""
    return Model(responses=[says("helped")]).invoke("help").content


def agent():
    from langchain.agents import create_agent

    model = Model(responses=[says(c1=("add", {"x": 2})), says("3")])
    return create_agent(model, [add], name="alice")


def team():
    inner = StateGraph(Log)
    inner.add_node("x", lambda state: Command(goto="target", graph=Command.PARENT))
    inner.add_edge(START, "x")
    graph = StateGraph(Log)
    graph.add_node("sub", inner.compile())
    graph.add_node("target", lambda state: {"log": [helper()]})
    graph.add_edge(START, "sub")
    return graph.compile(name="team")


def pausing():
    graph = StateGraph(Log)
    graph.add_node("ask", lambda state: {"log": [interrupt("?")]})
    graph.add_edge(START, "ask")
    return graph.compile(name="pausing", checkpointer=InMemorySaver())


def run_all():
    """Run every team and return what the host saw."""
    alice, asked = agent(), {"messages": [("user", "go")]}
    said = [
        [message.content for message in result["messages"]]
        for result in (alice.invoke(asked), asyncio.run(alice.ainvoke(asked)))
    ]
    said.append(team().invoke({})["log"])
    thread = {"configurable": {"thread_id": "1"}}
    graph = pausing()
    graph.invoke({}, thread)
    said.append(graph.invoke(Command(resume="yes"), thread)["log"])
    return said


def put_in_theirs(peer, provider):
    if peer == "openinference":
        from openinference.instrumentation.langchain import LangChainInstrumentor
    elif peer == "traceloop":
        from opentelemetry.instrumentation.langchain import (
            LangchainInstrumentor as LangChainInstrumentor,
        )
    else:
        from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor
    LangChainInstrumentor().instrument(tracer_provider=provider)


class Keep:
    """An exporter that keeps."""

    def __init__(self):
        self.traces = []

    def export(self, finished):
        self.traces.append(finished)

    def amend(self, run_id, reward):
        pass

    def flush(self, timeout_s):
        pass

    def shutdown(self):
        pass


class Logged(logging.Handler):
    """What was logged above INFO."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.records = []

    def emit(self, record):
        self.records.append(f"{record.name}: {record.getMessage()}")


_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|lc_run-+\S+|0x[0-9a-f]+|\d+\.\d{4,}|\d{4}-\d\d-\d\dT[\d:.+Z]+"
)


def write_down(span, spans):
    """A span as name, tracer, names of the spans around it, status and attributes."""
    around, above = [], span
    while above.parent is not None and above.parent.span_id in spans:
        above = spans[above.parent.span_id]
        around.append(f"{above.instrumentation_scope.name}/{above.name}")
    facts = {key: _VARYING.sub("*", str(value)) for key, value in (span.attributes or {}).items()}
    return {
        "name": span.name,
        "tracer": span.instrumentation_scope.name,
        "around": around,
        "status": span.status.status_code.name,
        "facts": facts,
    }


def main():
    warnings.simplefilter("ignore")
    peer, order = sys.argv[1:]
    memory, kept = InMemorySpanExporter(), Keep()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
    logged = Logged()
    logging.getLogger().addHandler(logged)
    for who in order.split(","):
        if who == "theirs":
            put_in_theirs(peer, provider)
        elif who == "ours":
            orchtrace.configure(tracer_provider=provider, exporters=[kept])
            orchtrace.instrument("langgraph")
    said = run_all()
    if "ours" in order:
        orchtrace.shutdown()
    ended = sorted(memory.get_finished_spans(), key=lambda span: span.start_time)
    spans = {span.context.span_id: span for span in ended}
    came = {
        "said": said,
        "spans": [write_down(span, spans) for span in ended],
        "tokens": [finished.costs["tokens"] for finished in kept.traces],
        "tools": [finished.costs["tool_calls"] for finished in kept.traces],
        "turns": [len(finished.turns) for finished in kept.traces],
        "stops": [finished.stop["stop_reason"] for finished in kept.traces],
        "flags": [finished.stop.get("flags") for finished in kept.traces],
        "shape": [
            sorted(Counter((e.agent, e.verb) for e in finished.events).items())
            for finished in kept.traces
        ],
        "logged": logged.records,
    }
    sys.stdout.write(json.dumps(came))


if __name__ == "__main__":
    main()
