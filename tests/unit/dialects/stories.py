"""Runs told in every dialect, as OTLP JSON: synthetic, in our own words.

A story is what happened; a teller writes it as one instrumentation would.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

TRACE = "5b8efff798038103d269b633813fc60c"
START = 1_700_000_000_000_000_000
MILLI = 1_000_000


@dataclass
class Span:
    """One span as a test writes it down: milliseconds, plain values."""

    id: int
    parent: int | None
    name: str
    start: float
    end: float
    attributes: dict[str, Any] = field(default_factory=dict)
    raised: str | None = None
    failed: bool = False
    trace: str = TRACE

    def otlp(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "traceId": self.trace,
            "spanId": f"{self.id:016x}",
            "name": self.name,
            "startTimeUnixNano": str(START + round(self.start * MILLI)),
            "endTimeUnixNano": str(START + round(self.end * MILLI)),
            "attributes": attributes(self.attributes),
            "status": {"code": 2 if self.failed else 1},
        }
        if self.parent is not None:
            found["parentSpanId"] = f"{self.parent:016x}"
        if self.raised is not None:
            said = attributes({"exception.type": self.raised, "exception.message": "secret"})
            found["events"] = [{"name": "exception", "attributes": said}]
        return found


def attributes(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Attributes as OTLP JSON writes them."""
    return [{"key": key, "value": value(held)} for key, held in found.items()]


def value(held: Any) -> dict[str, Any]:
    """A value as OTLP JSON writes it."""
    if isinstance(held, bool):
        return {"boolValue": held}
    if isinstance(held, int):
        return {"intValue": str(held)}
    if isinstance(held, float):
        return {"doubleValue": held}
    if isinstance(held, (list, tuple)):
        return {"arrayValue": {"values": [value(one) for one in held]}}
    return {"stringValue": held}


def request(spans: list[Span]) -> bytes:
    """A request that holds these spans, in this order."""
    held = [span.otlp() for span in spans]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": held}]}]}).encode()


def openinference() -> list[Span]:
    """The bakery: a front desk hands an order over to a baker, who uses an oven."""
    kind = "openinference.span.kind"
    front = {kind: "AGENT", "agent.name": "front desk", "graph.node.id": "front desk"}
    baker = {
        kind: "AGENT",
        "agent.name": "baker",
        "graph.node.id": "baker",
        "graph.node.parent_id": "front desk",
    }
    return [
        Span(1, None, "Agent workflow", 0, 100, {kind: "AGENT"}),
        Span(2, 1, "Agent workflow", 1, 99, {kind: "CHAIN"}),
        Span(3, 2, "front desk", 2, 40, front),
        Span(4, 3, "turn", 3, 39, {kind: "CHAIN"}),
        Span(5, 4, "response", 4, 30, _llm(40, 6)),
        Span(6, 5, "POST", 5, 29, {"http.request.method": "POST"}),
        Span(7, 4, "handoff to baker", 31, 32, {kind: "TOOL", "output.value": "baker"}),
        Span(8, 2, "baker", 41, 95, baker),
        Span(9, 8, "turn", 42, 70, {kind: "CHAIN"}),
        Span(10, 9, "response", 43, 55, _llm(60, 9)),
        Span(11, 9, "oven", 56, 65, {kind: "TOOL", "tool.name": "oven", "input.value": "secret"}),
        Span(12, 8, "turn", 71, 94, {kind: "CHAIN"}),
        Span(13, 12, "response", 72, 90, _llm(80, 12)),
    ]


def _llm(read: int, written: int) -> dict[str, Any]:
    return {
        "openinference.span.kind": "LLM",
        "llm.model_name": "loaf-1",
        "llm.system": "openai",
        "llm.token_count.prompt": read,
        "llm.token_count.completion": written,
        "llm.input_messages.0.message.content": "secret",
    }


def openllmetry() -> list[Span]:
    """The same run: the recipient unnamed, calls of models and tools under the workflow."""
    kind = "traceloop.span.kind"

    def agent(name: str) -> dict[str, Any]:
        return {kind: "agent", "gen_ai.agent.name": name, "gen_ai.operation.name": "invoke_agent"}

    handoff = {kind: "handoff", "gen_ai.handoff.from_agent": "front desk"}
    oven = {kind: "tool", "gen_ai.tool.name": "oven", "gen_ai.tool.call.arguments": "secret"}
    return [
        Span(21, None, "Agent Workflow", 0, 100, {kind: "workflow"}),
        Span(23, 21, "front desk.agent", 2, 40, agent("front desk")),
        Span(25, 21, "openai.response", 4, 30, chat(40, 6)),
        Span(27, 23, "front desk → unknown.handoff", 31, 32, handoff),
        Span(28, 21, "baker.agent", 41, 95, agent("baker")),
        Span(30, 21, "openai.response", 43, 55, chat(60, 9)),
        Span(31, 21, "oven.tool", 56, 65, oven),
        Span(33, 21, "openai.response", 72, 90, chat(80, 12)),
    ]


def chat(read: int, written: int) -> dict[str, Any]:
    """A call of a model by the current names of the GenAI conventions."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": "loaf-1",
        "gen_ai.usage.input_tokens": read,
        "gen_ai.usage.output_tokens": written,
        "gen_ai.input.messages": '[{"role": "user", "content": "secret"}]',
    }


def genai() -> list[Span]:
    """The same run by the GenAI conventions with the transfer that is proposed for them."""
    operation = "gen_ai.operation.name"

    def agent(name: str) -> dict[str, Any]:
        return {operation: "invoke_agent", "gen_ai.agent.name": name}

    transfer = {
        operation: "execute_tool",
        "gen_ai.tool.name": "transfer",
        "gen_ai.transfer.mode": "pass_control",
        "gen_ai.transfer.target.name": "baker",
    }
    oven = {operation: "execute_tool", "gen_ai.tool.name": "oven", "gen_ai.tool.call.id": "c1"}
    workflow = {operation: "invoke_workflow", "gen_ai.workflow.name": "Agent workflow"}
    asks = {"gen_ai.output.messages": '[{"parts": [{"type": "tool_call", "id": "c1"}]}]'}
    return [
        Span(41, None, "invoke_workflow Agent workflow", 0, 100, workflow),
        Span(43, 41, "invoke_agent front desk", 2, 40, agent("front desk")),
        Span(45, 43, "chat loaf-1", 4, 30, chat(40, 6)),
        Span(47, 43, "execute_tool transfer baker", 31, 32, transfer),
        Span(48, 41, "invoke_agent baker", 41, 95, agent("baker")),
        Span(50, 48, "chat loaf-1", 43, 55, {**chat(60, 9), **asks}),
        Span(51, 48, "execute_tool oven", 56, 65, oven),
        Span(53, 48, "chat loaf-1", 72, 90, chat(80, 12)),
    ]


def genai_old() -> list[Span]:
    """The same run by the names the GenAI conventions had before."""
    renamed = {
        "gen_ai.provider.name": "gen_ai.system",
        "gen_ai.usage.input_tokens": "gen_ai.usage.prompt_tokens",
        "gen_ai.usage.output_tokens": "gen_ai.usage.completion_tokens",
    }
    told = genai()
    for span in told:
        span.attributes = {renamed.get(key, key): held for key, held in span.attributes.items()}
    return told


TELLERS = {
    "openinference": openinference,
    "openllmetry": openllmetry,
    "genai": genai,
    "genai_old": genai_old,
}
