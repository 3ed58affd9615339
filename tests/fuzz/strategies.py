"""Input that no honest sender sends: spans of every dialect in any tangle, and broken bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from orchtrace_otel import attributes as a

TRACES = ("5b8efff798038103d269b633813fc60c", "0af7651916cd43dd8448eb211c80319c")
IDS = tuple(f"{number:016x}" for number in range(1, 7))

KEYS = (
    a.OPERATION,
    a.AGENT_NAME,
    a.WORKFLOW_NAME,
    a.TOOL_NAME,
    a.TOOL_CALL_ID,
    a.REQUEST_MODEL,
    a.INPUT_TOKENS,
    a.OUTPUT_TOKENS,
    a.FINISH_REASONS,
    a.OUTPUT_MESSAGES,
    a.ERROR_TYPE,
    "gen_ai.system",
    "gen_ai.usage.prompt_tokens",
    "gen_ai.transfer.mode",
    "gen_ai.transfer.target.name",
    "gen_ai.handoff.from_agent",
    "gen_ai.handoff.to_agent",
    "openinference.span.kind",
    "agent.name",
    "graph.node.parent_id",
    "tool.name",
    "metadata",
    "llm.model_name",
    "llm.request.type",
    "llm.token_count.prompt",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id",
    "traceloop.span.kind",
    "traceloop.entity.name",
    "http.request.method",
    a.RUN_ID,
    a.VERB,
    a.OPENS,
    a.EDGES,
    a.EDGES_CLOSE,
    a.TURNS,
    a.ACTIVATION,
    a.REWARD_RECORDS,
    a.STATUS,
)

WORDS = (
    "chat",
    "invoke_agent",
    "invoke_workflow",
    "execute_tool",
    "create_agent",
    "plan",
    "run_guardrail",
    "pass_control",
    "AGENT",
    "TOOL",
    "LLM",
    "CHAIN",
    "GUARDRAIL",
    "workflow",
    "agent",
    "tool",
    "task",
    "handoff",
    "spawn",
    "stop",
    "turn",
    "begin",
    "alice",
    "bob",
    "",
    f"{TRACES[0]}-{IDS[0]}",
    f"causal:{IDS[1]}.close",
    '{"langgraph_node": "alice"}',
    '[{"parts": [{"type": "tool_call", "id": "bob"}]}]',
    "[" * 2000,
)

_scalar: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from(WORDS).map(lambda held: {"stringValue": held}),
    st.sampled_from((0, 1, -1, 2**63 - 1, -(2**63), 2**53)).map(lambda n: {"intValue": str(n)}),
    st.sampled_from((0.0, 7.0, -1.5, 1e308)).map(lambda held: {"doubleValue": held}),
    st.booleans().map(lambda held: {"boolValue": held}),
    st.just({}),
)
values = st.recursive(
    _scalar,
    lambda inner: st.lists(inner, max_size=3).map(lambda held: {"arrayValue": {"values": held}}),
    max_leaves=4,
)
attributes = st.dictionaries(st.sampled_from(KEYS), values, max_size=6).map(
    lambda found: [{"key": key, "value": held} for key, held in found.items()]
)
times = st.sampled_from((0, 1, 5, 10, 1_700_000_000_000_000_000, 2**64 - 1)).map(str)
names = st.sampled_from(("", "alice", "handoff to bob", "invoke_agent bob", "alice.agent", "GET"))
spans = st.fixed_dictionaries(
    {
        "traceId": st.sampled_from(TRACES),
        "spanId": st.sampled_from(IDS),
        "parentSpanId": st.sampled_from(("", *IDS, "00000000000000ff")),
        "name": names,
        "startTimeUnixNano": times,
        "endTimeUnixNano": times,
        "attributes": attributes,
    },
    optional={
        "status": st.sampled_from(({}, {"code": 2}, {"code": "STATUS_CODE_ERROR"})),
        "droppedLinksCount": st.integers(0, 2**32 - 1),
        "events": st.just(
            [{"name": "exception", "attributes": [{"key": "exception.type", "value": {}}]}]
        ),
    },
)


def request(held: list[dict[str, Any]]) -> bytes:
    """A request of these spans."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": held}]}]}).encode()


requests = st.lists(spans, max_size=8).map(request)
"""Well-formed requests that say anything about anyone."""
