"""Spans of OpenLLMetry (Traceloop), old and new.

Agents, tools and workflows say what they are in `traceloop.span.kind`; calls of models
say it in the GenAI conventions, older ones in `llm.request.type`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign
from orchtrace_otel.dialects import genai, genai_old
from orchtrace_otel.dialects.reading import facts, word

NAME: Final = "openllmetry"

KIND: Final = "traceloop.span.kind"
ENTITY: Final = "traceloop.entity.name"
WORKFLOW: Final = "traceloop.workflow.name"
NODE: Final = "traceloop.association.properties.langgraph_node"
HANDOFF_FROM: Final = "gen_ai.handoff.from_agent"
HANDOFF_TO: Final = "gen_ai.handoff.to_agent"

_REQUESTS: Final[Mapping[str, str]] = {"chat": a.CHAT, "completion": "text_completion"}

_SDK_NAMES: Final[Mapping[str, str]] = {"Agent Workflow": "Agent workflow"}
"""What it calls every run of the OpenAI Agents SDK, and what that SDK calls a run unless told."""

_UNNAMED: Final = frozenset(("unknown", "Unknown", ""))


def read(name: str, found: Mapping[str, Any]) -> Foreign | None:
    """Return what a span says, None where it says nothing of orchestration."""
    kind = found.get(KIND)
    match kind:
        case "workflow":
            named = _name(name, found, "workflow", WORKFLOW, ENTITY)
            return Foreign(NAME, kind, {a.AGENT_NAME: _SDK_NAMES.get(named, named)})
        case "agent":
            named = _name(name, found, kind, a.AGENT_NAME, ENTITY)
            return Foreign(NAME, kind, {a.AGENT_NAME: named})
        case "tool":
            return _tool(name, found)
        case "handoff":
            return _handoff(found)
        case "task":
            return _task(name, found)
        case _:
            return _turn(name, found)


def _name(name: str, found: Mapping[str, Any], kind: str, *keys: str) -> str:
    """Return what something is called; its span is called that and its kind."""
    return word(found, *keys) or name.removesuffix("." + kind) or "unknown"


def _tool(name: str, found: Mapping[str, Any]) -> Foreign:
    said = {
        a.TOOL_NAME: _name(name, found, "tool", a.TOOL_NAME, ENTITY),
        **facts(found, (a.TOOL_CALL_ID,)),
    }
    agent = word(found, a.AGENT_NAME)
    if agent is not None:
        said[a.AGENT_NAME] = agent
    return Foreign(NAME, "tool", said)


def _handoff(found: Mapping[str, Any]) -> Foreign:
    said: dict[str, Any] = {}
    sender = word(found, HANDOFF_FROM, a.AGENT_NAME)
    if sender is not None:
        said[a.AGENT_NAME] = sender
    to = word(found, HANDOFF_TO)
    if to is not None and to not in _UNNAMED:
        said[a.TO] = to
    return Foreign(NAME, "handoff", said)


def _task(name: str, found: Mapping[str, Any]) -> Foreign:
    """Read a task: glue, but where it is a node of a LangGraph, which is an agent."""
    named = _name(name, found, "task", ENTITY)
    is_node = word(found, NODE) == named
    return Foreign(NAME, "agent" if is_node else "step", {a.AGENT_NAME: named})


def _turn(name: str, found: Mapping[str, Any]) -> Foreign | None:
    """Read a call of a model, which newer versions say as the conventions do."""
    request = word(found, genai_old.REQUEST_TYPE)
    if request is None or a.OPERATION in found:
        return None
    operation = _REQUESTS.get(request)
    if operation is None:
        return None
    said = {**found, a.OPERATION: operation}
    return genai_old.read(name, said, NAME) or genai.read(name, said, NAME)
