"""Spans of the OpenTelemetry GenAI conventions, by their current names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import orjson

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign
from orchtrace_otel.dialects.reading import facts, word

NAME: Final = "genai"

TRANSFER_MODE: Final = "gen_ai.transfer.mode"
TRANSFER_TARGET: Final = "gen_ai.transfer.target.name"
GUARDRAIL_NAME: Final = "gen_ai.guardrail.name"

_KINDS: Final[Mapping[str, str]] = {
    a.INVOKE_WORKFLOW: "workflow",
    a.INVOKE_AGENT: "agent",
    a.EXECUTE_TOOL: "tool",
    "create_agent": "spawn",
    "plan": "decide",
    "run_guardrail": "guard",
    **dict.fromkeys(a.TURN_OPERATIONS, "turn"),
}

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "workflow": (a.WORKFLOW_NAME, a.AGENT_NAME),
    "agent": (a.AGENT_NAME,),
    "tool": (a.TOOL_NAME,),
    "spawn": (a.AGENT_NAME,),
    "guard": (GUARDRAIL_NAME,),
}

_NAMED: Final[Mapping[str, str]] = {
    "workflow": a.AGENT_NAME,
    "agent": a.AGENT_NAME,
    "tool": a.TOOL_NAME,
    "spawn": a.TO,
    "guard": a.DECISION_NAME,
}
"""Under which of our keys the name of what a span is about goes."""

_COPIED: Final = (
    a.PROVIDER,
    a.REQUEST_MODEL,
    a.RESPONSE_MODEL,
    a.INPUT_TOKENS,
    a.OUTPUT_TOKENS,
    a.FINISH_REASONS,
    a.TOOL_CALL_ID,
)


def read(name: str, found: Mapping[str, Any], dialect: str = NAME) -> Foreign | None:
    """Return what a span says, None where it says nothing of orchestration.

    Args:
        name: The span's name, which carries the agent's or the tool's where no attribute does.
        found: Its attributes.
        dialect: What to call the dialect it was translated from.
    """
    operation = word(found, a.OPERATION)
    kind = None if operation is None else _KINDS.get(operation)
    if kind is None or operation is None:
        return None
    said = facts(found, _COPIED)
    agent = word(found, a.AGENT_NAME)
    target = word(found, TRANSFER_TARGET)
    if kind == "tool" and target is not None and found.get(TRANSFER_MODE) == "pass_control":
        kind = "handoff"
        said[a.TO] = target
    named = next((word(found, key) for key in _NAMES.get(kind, ()) if word(found, key)), None)
    named = named or name.removeprefix(operation).strip() or None
    if kind in _NAMED:
        said[_NAMED[kind]] = named or "unknown"
    if kind in {"workflow", "agent", "spawn"}:
        agent = None
    if agent is not None:
        said[a.AGENT_NAME] = agent
    return Foreign(dialect, kind, said, tuple(_calls(found)) if kind == "turn" else ())


def _calls(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of the tool calls in an answer, and nothing else of it."""
    messages = found.get(a.OUTPUT_MESSAGES)
    if isinstance(messages, str):
        try:
            messages = orjson.loads(messages)
        except ValueError:
            return
    for message in _items(messages):
        for part in _items(_member(message, "parts")):
            call_id = _member(part, "id")
            if _member(part, "type") == "tool_call" and isinstance(call_id, str) and call_id:
                yield call_id


def _items(held: object) -> tuple[object, ...]:
    return tuple(cast("list[object]", held)) if isinstance(held, (list, tuple)) else ()


def _member(held: object, key: str) -> object:
    return cast("dict[str, object]", held).get(key) if isinstance(held, dict) else None
