"""What a traced LangGraph node and a traced AutoGen turn cost, beside hand-written spans.

Three variants of one workload take turns in one process: plain, with raw spans written
by hand (one a run, node or turn, LLM call and tool call, each with 8 attributes and, but for
the run's, a link to what is around it), and plain again under
`instrument()`. `run` is a whole run to the run with raw spans; `added` is what tracing
adds to what the raw spans add. What goes over the wire is counted per event of the trace;
AutoGen's own spans, which are no events, are counted apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import operator
import statistics
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import ModelFamily, ModelInfo
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from benchmarks.measure import ATTRIBUTES, alternate, cpu, provider, ratio, report
from orchtrace_otel.testing import capture

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

WORKERS, RUNS, ROUNDS = 8, 10, 9


class State(TypedDict):
    topic: str
    results: Annotated[list[str], operator.add]


@contextlib.contextmanager
def by_hand(tracer: trace.Tracer | None, name: str) -> Iterator[None]:
    """One raw span, or nothing for the plain variant."""
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span(name, attributes=ATTRIBUTES, links=around()):
        yield


def around() -> list[trace.Link]:
    """A link to the current span, where there is one."""
    cause = trace.get_current_span().get_span_context()
    return [trace.Link(cause, {"bench.edge": "spawn"})] if cause.is_valid else []


def graph(tracer: trace.Tracer | None) -> Callable[[], object]:
    """A supervisor, eight workers that call a model and a tool, and a join."""
    model = FakeListChatModel(responses=["a short answer"])
    tool = StructuredTool.from_function(func=lambda query: query, name="look", description="look")

    def supervisor(state: State) -> dict[str, Any]:
        with by_hand(tracer, "supervisor"):
            return {}

    def worker(state: State) -> dict[str, Any]:
        with by_hand(tracer, "worker"):
            with by_hand(tracer, "chat"):
                answer = model.invoke(state["topic"])
            with by_hand(tracer, "look"):
                tool.invoke({"query": state["topic"]})
            return {"results": [str(answer.content)]}

    def merge(state: State) -> dict[str, Any]:
        with by_hand(tracer, "merge"):
            return {}

    def fan_out(state: State) -> list[Send]:
        return [Send("worker", {"topic": state["topic"]}) for _ in range(WORKERS)]

    builder = StateGraph(State)
    builder.add_node("supervisor", supervisor)
    builder.add_node("worker", worker)
    builder.add_node("merge", merge)
    builder.add_edge(START, "supervisor")
    builder.add_conditional_edges("supervisor", fan_out, ["worker"])
    builder.add_edge("worker", "merge")
    builder.add_edge("merge", END)
    compiled = builder.compile()

    def run() -> object:
        with by_hand(tracer, "run"):
            return compiled.invoke({"topic": "how deep is the lake?", "results": []})

    return run


class ByHand(ReplayChatCompletionClient):
    """A model client that opens a raw span around each call."""

    tracer: trace.Tracer

    async def create(self, *args: Any, **kwargs: Any) -> Any:
        with by_hand(self.tracer, "chat"):
            return await super().create(*args, **kwargs)


class TurnByHand(AssistantAgent):
    """An agent that opens a raw span around each turn; never current across a yield."""

    tracer: trace.Tracer

    async def on_messages_stream(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        span = self.tracer.start_span("turn", attributes=ATTRIBUTES, links=around())
        try:
            async for item in super().on_messages_stream(messages, cancellation_token):
                yield item
        finally:
            span.end()


INFO = ModelInfo(
    vision=False,
    function_calling=True,
    json_output=False,
    family=ModelFamily.UNKNOWN,
    structured_output=False,
)


def team(tracer: trace.Tracer | None) -> Callable[[], Coroutine[Any, Any, object]]:
    """A round robin of three agents, eleven turns."""

    def member(name: str) -> AssistantAgent:
        replies: list[Any] = [f"{name} says {number}" for number in range(12)]
        if tracer is None:
            client = ReplayChatCompletionClient(replies, model_info=INFO)
            return AssistantAgent(name, client, description=name)
        traced = ByHand(replies, model_info=INFO)
        traced.tracer = tracer
        agent = TurnByHand(name, traced, description=name)
        agent.tracer = tracer
        return agent

    async def run() -> object:
        members: list[Any] = [member(name) for name in ("alpha", "beta", "gamma")]
        chat = RoundRobinGroupChat(members, termination_condition=MaxMessageTermination(12))
        with by_hand(tracer, "run"):
            return await chat.run(task="Say something.")

    return run


def repeated(run: Callable[[], object]) -> Callable[[], object]:
    def block() -> None:
        for _ in range(RUNS):
            run()

    return block


def repeated_async(run: Callable[[], Coroutine[Any, Any, object]]) -> Callable[[], object]:
    async def runs() -> None:
        for _ in range(RUNS):
            await run()

    return lambda: asyncio.run(runs())


def figures(plain: Callable[[], object], raw: Callable[[], object]) -> tuple[float, float]:
    def traced() -> float:
        handle = orchtrace.instrument()
        try:
            return cpu(plain)
        finally:
            handle.uninstrument()

    samples = alternate(
        {"plain": lambda: cpu(plain), "raw": lambda: cpu(raw), "ours": traced}, ROUNDS
    )
    rounds = zip(samples["plain"], samples["raw"], samples["ours"], strict=True)
    added = statistics.median((ours - plain) / (raw - plain) for plain, raw, ours in rounds)
    return ratio(samples, "ours", "raw"), added


def wire(run: Callable[[], object]) -> tuple[float, float]:
    """Return the OTLP bytes per event of our spans, and of the framework's own beside them."""
    with orchtrace.instrument(), capture() as captured:
        run()
    ours = [span for span in captured.spans if _scope(span) == "orchtrace_otel"]
    size, whole = (encode_spans(spans).ByteSize() for spans in (ours, captured.spans))
    events = len(captured.trace.events)
    return size / events, (whole - size) / events


def _scope(span: ReadableSpan) -> str:
    scope = span.instrumentation_scope
    return "" if scope is None else scope.name


def main() -> None:
    for noisy in ("autogen_core", "autogen_agentchat"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    tracer = provider().get_tracer("raw")
    orchtrace.configure(tracer_provider=provider(), exporters=[])
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    graphs = repeated(graph(None)), repeated(graph(tracer))
    teams = repeated_async(team(None)), repeated_async(team(tracer))
    for title, (plain, raw), limit in (
        ("LangGraph: 10 nodes, 8 LLM calls, 8 tools", graphs, "<= 1.35"),
        ("AutoGen: 11 turns, 11 LLM calls", teams, "<= 1.4"),
    ):
        run, added = figures(plain, raw)
        rows = [
            ("run, to the run with raw spans", run, limit),
            ("added, to what raw spans add", added, ""),
        ]
        report(title, rows)
    # Last: what captures spans makes its provider the process's.
    one_team = team(None)
    for title, once in (
        ("LangGraph on the wire", graph(None)),
        ("AutoGen on the wire", lambda: asyncio.run(one_team())),
    ):
        ours, beside = wire(once)
        rows = [
            ("OTLP bytes per event, content off", ours, "<= 500"),
            ("the framework's own spans beside them", beside, ""),
        ]
        report(title, rows)


if __name__ == "__main__":
    main()
