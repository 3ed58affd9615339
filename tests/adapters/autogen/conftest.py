"""Scripted agents and teams, and how a trace is written down to be compared."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

pytest.importorskip("autogen_agentchat")

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, HandoffMessage, TextMessage
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import CreateResult, ModelFamily, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from opentelemetry import context as otel_context

import orchtrace_otel as orchtrace
from orchtrace_otel import Trace
from orchtrace_otel.testing import Captured, capture

REFEREE = Path(__file__).parents[4] / "shared" / "schema" / "trace_schema.json"
"""The published schema, where the project lies beside it."""

MODEL = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "structured_output": False,
    "family": ModelFamily.UNKNOWN,
}


class Script:
    """Makes agents whose models answer from a list."""

    def says(self, text: str, prompt: int = 7, completion: int = 3) -> CreateResult:
        usage = RequestUsage(prompt_tokens=prompt, completion_tokens=completion)
        return CreateResult(finish_reason="stop", content=text, usage=usage, cached=False)

    def calls(self, *calls: tuple[str, str, str]) -> CreateResult:
        """A result that calls tools: triples of id, name and arguments."""
        content = [FunctionCall(id=i, name=name, arguments=args) for i, name, args in calls]
        usage = RequestUsage(prompt_tokens=11, completion_tokens=5)
        return CreateResult(
            finish_reason="function_calls", content=content, usage=usage, cached=False
        )

    def client(self, *results: CreateResult | str) -> ReplayChatCompletionClient:
        return ReplayChatCompletionClient(
            [self.says(r) if isinstance(r, str) else r for r in results], model_info=MODEL
        )

    def agent(self, name: str, *results: CreateResult | str, **kwargs) -> AssistantAgent:
        return AssistantAgent(name, model_client=self.client(*results), **kwargs)


class Plain(BaseChatAgent):
    """An agent without a model: `act` is given how often it spoke and returns a text."""

    def __init__(self, name: str, act: Callable[[int], object] | None = None) -> None:
        super().__init__(name, f"agent {name}")
        self.act = act
        self.spoke = 0
        self.read: list[list[str]] = []

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage, HandoffMessage)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        self.read.append([message.source for message in messages])
        self.spoke += 1
        said = self.act(self.spoke) if self.act else f"{self.name} {self.spoke}"
        if asyncio.iscoroutine(said):
            said = await said
        if not isinstance(said, BaseChatMessage):
            said = TextMessage(content=str(said), source=self.name)
        return Response(chat_message=said)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self.spoke = 0


class Logged(logging.Handler):
    """Log records above INFO of OpenTelemetry, of asyncio and of ours."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("opentelemetry", "asyncio", "orchtrace")):
            self.records.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def plain() -> type[Plain]:
    return Plain


@pytest.fixture
def traced() -> Iterator[Captured]:
    """Everything recorded; afterwards all spans must have ended, once, in peace."""
    logged = Logged()
    logging.getLogger().addHandler(logged)
    before = otel_context.get_current()
    try:
        with capture() as captured, orchtrace.instrument("autogen"):
            yield captured
    finally:
        logging.getLogger().removeHandler(logged)
    for trace in captured.traces:
        if REFEREE.exists():
            jsonschema.validate(trace.to_dict(), json.loads(REFEREE.read_text()))
    assert captured.open == {}
    assert captured.ended_twice == []
    assert captured.started == captured.ended
    assert logged.records == []
    assert otel_context.get_current() == before


@pytest.fixture
def read() -> SimpleNamespace:
    """Ways to write a trace down."""
    return SimpleNamespace(outline=outline, triggers=triggers, openings=openings)


def outline(trace: Trace) -> list[str]:
    """Each event as `number agent verb to <- edge type and number of each cause`."""
    number = {event.id: n for n, event in enumerate(trace.events)}
    causes: dict[str, list[str]] = {}
    for edge in trace.edges:
        is_own = edge.src == edge.dst.removesuffix(".close") + ".open"
        if not is_own:
            causes.setdefault(edge.dst, []).append(f"{edge.type} {number[edge.src]}")
    lines = []
    for event in trace.events:
        to = event.get("tool") or event.get("chosen") or event.get("to") or ""
        to = "+".join(to) if isinstance(to, list) else to
        line = f"{number[event.id]} {event.agent} {event.verb} {to}".rstrip()
        if event.get("status", "ok") != "ok":
            line += f" ({event['status']})"
        if causes.get(event.id):
            line += " <- " + ", ".join(sorted(causes[event.id]))
        lines.append(line)
    return lines


def openings(trace: Trace) -> list[tuple[str, str]]:
    """Verb and agent of each opening, in order."""
    verbs = {"spawn", "delegate", "begin"}
    return [(e.verb, e["to"]) for e in trace.events if e.verb in verbs and e.id.endswith(".open")]


def triggers(trace: Trace) -> list[tuple[str, tuple[str, ...]]]:
    """Each opening's agent, and the agents whose work it follows from, read off the edges."""
    into: dict[str, list[str]] = {}
    for edge in trace.edges:
        if edge.type not in {"message", "temporal"}:
            into.setdefault(edge.dst, []).append(edge.src)
    return [
        (event["to"], tuple(sorted(_causes(trace, into, event.id))))
        for event in trace.events[1:]
        if event.id.endswith(".open") and event.verb != "tool_call"
    ]


def _causes(trace: Trace, into: dict[str, list[str]], effect: str) -> set[str]:
    """Agents behind the edges into an event; the orchestrator's instants are followed back."""
    events = {event.id: event for event in trace.events}
    agents: set[str] = set()
    for source in into.get(effect, ()):
        cause = events[source]
        if cause.verb in {"decide", "aggregate"}:
            agents |= _causes(trace, into, source)
        else:
            agents.add(cause.agent)
    return agents
