"""Run teams that another instrumentation alone traces; print the runs that its spans tell of.

Usage: `python alone.py PEER`, PEER one of `openinference traceloop genai`.
"""

import json
import sys
import warnings
from pathlib import Path

from langgraph.graph import START, StateGraph
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

sys.path.insert(0, str(Path(__file__).parent))
import scenario

from orchtrace_otel import otlp, schema
from orchtrace_otel.builder import SpanRecord


def record(span):
    """A span as it would be received."""
    made = SpanRecord(
        f"{span.context.span_id:016x}",
        None if span.parent is None else f"{span.parent.span_id:016x}",
        span.start_time,
        span.end_time,
        dict(span.attributes or {}),
        span.status.status_code is trace.StatusCode.ERROR,
    )
    raised = [
        str(event.attributes["exception.type"])
        for event in span.events
        if event.name == "exception"
    ]
    otlp.keep_foreign(made, span.name, raised)
    return f"{span.context.trace_id:032x}", made


def branches():
    """Two branches beside each other, an agent in one of them, and what comes after both."""
    alice = scenario.agent()
    graph = StateGraph(scenario.Log)
    graph.add_node("plan", lambda state: {"log": ["p"]})
    graph.add_node("left", lambda state: {"log": [alice.invoke({"messages": []})["messages"]]})
    graph.add_node("right", lambda state: {"log": ["r"]})
    graph.add_node("join", lambda state: {"log": ["j"]})
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "left")
    graph.add_edge("plan", "right")
    graph.add_edge(["left", "right"], "join")
    return graph.compile(name="branches")


def main():
    warnings.simplefilter("ignore")
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(provider)
    scenario.put_in_theirs(sys.argv[1], provider)
    branches().invoke({})
    scenario.pausing().invoke({}, {"configurable": {"thread_id": "1"}})
    spans = memory.get_finished_spans()
    runs = {}
    for run in otlp.traces(map(record, spans)):
        edges = [(edge.src, edge.dst) for edge in run.edges]
        opened = {e.id: e["to"] for e in run.events if "to" in e.keys and e.id.endswith(".open")}
        closed = {e.id: e.agent for e in run.events if e.verb == "return"}
        runs[run.events[0]["to"]] = {
            "agents": sorted({e["to"] for e in run.events if e.verb in {"spawn", "delegate"}}),
            "tools": [e["tool"] for e in run.events if e.verb == "tool_call"],
            "tokens": run.costs["tokens"],
            "turns": len(run.turns),
            "stop": run.stop["stop_reason"],
            "flags": run.flags,
            "faults": list(schema.check(run.to_dict())),
            "after": sorted(
                {(closed[s], opened[d]) for s, d in edges if s in closed and d in opened}
            ),
        }
    sys.stdout.write(json.dumps({"runs": runs, "spans": len(spans)}))


if __name__ == "__main__":
    main()
