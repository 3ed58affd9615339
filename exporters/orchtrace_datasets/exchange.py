"""A call as a chat server's request and response, with tokens where trainers look for them.

Token ids stand where vLLM writes them: `prompt_token_ids` of the response, `token_ids` of
the choice, and `token_id:<id>` in place of a token's text among its log probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from orchtrace_datasets.provenance import Sampled
from orchtrace_otel.datasets import Call
from orchtrace_otel.tables.turns import CUT

Json: TypeAlias = dict[str, Any]

_FINISHED: Final[Mapping[str, str]] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    **dict.fromkeys(CUT, "length"),
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "content_filter": "content_filter",
    "function_call": "function_call",
}


def finished(call: Call) -> str:
    """Return why a call ended, in the words of OpenAI's API; `stop` where nobody said."""
    has_tools = bool(call.completion and call.completion[0].get("tool_calls"))
    told = str(call.row.get("finish_reason", ""))
    return _FINISHED.get(told, "tool_calls" if has_tools else "stop")


def request(call: Call) -> Json:
    """Return what was asked for: model, messages, tools, sampling parameters."""
    offered = {"tools": call.tools} if call.tools else {}
    asked = {**call.content.parameters, "messages": call.prompt, **offered}
    return {"model": call.model or "unknown", **asked}


def response(call: Call, tokens: Sampled | None, created: int) -> Json:
    """Return what was answered, its first choice.

    Args:
        call: The call.
        tokens: Its tokens, where they are good enough.
        created: When it was answered, in seconds since 1970.
    """
    choice: Json = {
        "index": 0,
        "finish_reason": finished(call),
        "message": {**call.completion[0], "role": "assistant"},
        "logprobs": None,
    }
    made: Json = {
        "id": str(call.row.get("response_id") or call.id),
        "object": "chat.completion",
        "created": created,
        "model": call.model or "unknown",
        "choices": [choice],
    }
    used = usage(call)
    if used is not None:
        made["usage"] = used
    if tokens is not None:
        made["prompt_token_ids"] = tokens.prompt_ids
        choice["token_ids"] = tokens.ids
        if tokens.logprobs:
            choice["logprobs"] = {"content": _logprobs(tokens), "refusal": None}
    return made


def usage(call: Call) -> dict[str, int] | None:
    """Return how many tokens were read and written; None where either is unknown."""
    read, written = call.row.get("input_tokens"), call.row.get("output_tokens")
    if read is None or written is None:
        return None
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def began(call: Call) -> float:
    """Return when a call began, in seconds since 1970."""
    return float(call.run.row.get("start_unix_nano") or 0) / 1e9 + float(call.row.get("t") or 0.0)


def ended(call: Call) -> float:
    """Return when a call ended, in seconds since 1970."""
    return began(call) + float(call.row.get("duration_s") or 0.0)


def _logprobs(tokens: Sampled) -> list[Json]:
    pairs = zip(tokens.ids, tokens.logprobs, strict=True)
    return [
        {"token": f"token_id:{one}", "logprob": value, "bytes": None, "top_logprobs": []}
        for one, value in pairs
    ]
