"""Spans of OpenInference: Phoenix, Arize, and what is instrumented for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import orjson

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign
from orchtrace_otel.dialects.reading import facts, word

NAME: Final = "openinference"

KIND: Final = "openinference.span.kind"
AGENT: Final = "agent.name"
NODE: Final = "graph.node.id"
NODE_PARENT: Final = "graph.node.parent_id"
TOOL: Final = "tool.name"
CALL_IDS: Final = ("tool_call.id", "tool.id")
METADATA: Final = "metadata"
MODEL: Final = "llm.model_name"
FINISH_REASON: Final = "llm.finish_reason"
NUMBERS: Final = ("llm.token_count.prompt", "llm.token_count.completion")
RENAMED: Final[Mapping[str, str]] = {
    MODEL: a.RESPONSE_MODEL,
    NUMBERS[0]: a.INPUT_TOKENS,
    NUMBERS[1]: a.OUTPUT_TOKENS,
}

_HANDOFF: Final = "handoff to "
_CALL: Final = re.compile(
    r"llm\.output_messages\.\d+\.message\.tool_calls\.\d+\.tool_call\.id", re.ASCII
)


def read(name: str, found: Mapping[str, Any]) -> Foreign | None:
    """Return what a span says, None where it says nothing of orchestration."""
    match found.get(KIND):
        case "AGENT":
            return Foreign(NAME, "agent", _agent(name, found))
        case "TOOL":
            return _tool(name, found)
        case "LLM":
            return Foreign(NAME, "turn", _turn(found), tuple(_calls(found)))
        case "CHAIN":
            return _chain(name, found)
        case "GUARDRAIL":
            return Foreign(NAME, "guard", {a.DECISION_NAME: name or "guardrail"})
        case _:
            return None


def _agent(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    said = {a.AGENT_NAME: word(found, AGENT) or name or "unknown"}
    sender = word(found, NODE_PARENT)
    if sender is not None:
        said[a.FROM] = sender
    return said


def _tool(name: str, found: Mapping[str, Any]) -> Foreign:
    """Read a tool; a hand-off is one too, told from others by its name alone."""
    tool = word(found, TOOL)
    if tool is None and name.startswith(_HANDOFF) and len(name) > len(_HANDOFF):
        return Foreign(NAME, "handoff", {a.TO: name.removeprefix(_HANDOFF)})
    said: dict[str, Any] = {a.TOOL_NAME: tool or name or "unknown"}
    call_id = word(found, *CALL_IDS)
    if call_id is not None:
        said[a.TOOL_CALL_ID] = call_id
    return Foreign(NAME, "tool", said)


def _turn(found: Mapping[str, Any]) -> dict[str, Any]:
    said = {RENAMED[key]: value for key, value in facts(found, RENAMED).items()}
    provider = word(found, "llm.provider", "llm.system")
    if provider is not None:
        said[a.PROVIDER] = provider
    reason = word(found, FINISH_REASON)
    if reason is not None:
        said[a.FINISH_REASONS] = (reason,)
    return said


def _calls(found: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(key for key in found if _CALL.fullmatch(key)):
        call_id = word(found, key)
        if call_id is not None:
            yield call_id


def _chain(name: str, found: Mapping[str, Any]) -> Foreign:
    """Read a chain: glue, but where it is a LangGraph's node or a LangChain agent."""
    is_agent = bool(name) and name in _agents(found)
    return Foreign(NAME, "agent" if is_agent else "step", {a.AGENT_NAME: name or "unknown"})


def _agents(found: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return the node of a LangGraph and the agent of LangChain that a span ran in."""
    metadata = found.get(METADATA)
    if not isinstance(metadata, str) or "lang" not in metadata:
        return ()
    try:
        held = orjson.loads(metadata)
    except ValueError:
        return ()
    if not isinstance(held, dict):
        return ()
    given = cast("dict[str, Any]", held)
    node = word(given, "langgraph_node")
    # LangGraph.js tells of the task that takes the input in, too: nobody is at work there.
    return None if node == "__start__" else node, word(given, "lc_agent_name")
