"""Chat messages as chat templates take them: arguments of tools as objects.

Templates of TRL 1.16 write arguments down themselves. A text of JSON they write as a text
(Llama 3, Qwen 2.5, gpt-oss), which no policy ever wrote, or refuse (GLM 4, Qwen 3.5, LFM 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = dict[str, Any]


def messages(said: Iterable[Json]) -> list[Json]:
    """Return chat messages whose arguments are objects; a text that is none of JSON stays.

    Example:
        >>> function = {"name": "look", "arguments": '{"what": "tide"}'}
        >>> messages([{"role": "assistant", "content": "", "tool_calls": [{"function": function}]}])
        ... # doctest: +NORMALIZE_WHITESPACE
        [{'role': 'assistant', 'content': '',
          'tool_calls': [{'function': {'name': 'look', 'arguments': {'what': 'tide'}}}]}]
    """
    return [
        one | {"tool_calls": [_call(call) for call in one["tool_calls"]]}
        if "tool_calls" in one
        else one
        for one in said
    ]


def _call(call: Mapping[str, Any]) -> Json:
    function: Mapping[str, Any] = call["function"]
    return {**call, "function": {**function, "arguments": _object(function["arguments"])}}


def _object(arguments: str) -> Any:
    try:
        return orjson.loads(arguments) if arguments.lstrip().startswith("{") else arguments
    except orjson.JSONDecodeError:
        return arguments
