"""AutoGen's own spans are off while ours are on.

Its runtime writes six spans a message, with the message's body among the attributes,
and ignores the context that came with it; its agents' and tools' spans repeat ours,
carry descriptions and texts of exceptions, and stay current across yields, which
makes a stream that is closed elsewhere log an error.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import autogen_agentchat.agents._base_chat_agent as chat_agent
import autogen_agentchat.teams._group_chat._chat_agent_container as container
import autogen_core._single_threaded_agent_runtime as runtime
import autogen_core.tools._base as tools
from autogen_core._telemetry import EnvelopeMetadata, TraceHelper
from opentelemetry.trace import INVALID_SPAN

from orchtrace_otel.adapter import Patches

_NOTHING: Final = contextlib.nullcontext(INVALID_SPAN)


def _no_span(*_args: object, **_kwargs: object) -> contextlib.nullcontext[Any]:
    return _NOTHING


def _no_metadata() -> EnvelopeMetadata:
    """Nobody reads the context of an envelope: a runtime of one process has no use for it."""
    return EnvelopeMetadata()


def _trace_block(_wrapped: Any, _helper: Any, _args: Any, _kwargs: Any) -> Any:
    return _NOTHING


async def _attributes(_wrapped: Any, host: Any, _args: Any, kwargs: dict[str, Any]) -> Any:
    """Skip what is only for spans; an agent that cannot be made still fails as it did."""
    for key in ("sender_agent_id", "recipient_agent_id"):
        agent = kwargs.get(key)
        if agent:
            await host._get_agent(agent)  # noqa: SLF001 - what the original does
    return {}


def silence(patches: Patches) -> None:
    """Switch AutoGen's spans off until `patches` are undone."""
    patches.wrap(TraceHelper, "trace_block", _trace_block)
    patches.wrap(runtime.SingleThreadedAgentRuntime, "_create_otel_attributes", _attributes)
    patches.replace(runtime, "get_telemetry_envelope_metadata", _no_metadata)
    patches.replace(chat_agent, "trace_create_agent_span", _no_span)
    patches.replace(chat_agent, "trace_invoke_agent_span", _no_span)
    patches.replace(container, "trace_invoke_agent_span", _no_span)
    patches.replace(tools, "trace_tool_span", _no_span)
