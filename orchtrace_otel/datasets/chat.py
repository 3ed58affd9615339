"""Messages of the GenAI conventions to the chat messages that trainers read.

The conventions give a message parts; trainers read `content`, `tool_calls` and, for a
result, `tool_call_id`. A message with several results becomes several messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

Json: TypeAlias = dict[str, Any]


def chat(messages: Iterable[Mapping[str, Any]], *, reasoning: bool = True) -> list[Json]:
    """Return chat messages.

    Args:
        messages: As `content.read_turn` gives them.
        reasoning: Whether what a model thought is kept, as `reasoning_content`.

    Example:
        >>> chat([{"role": "tool", "parts": [
        ...     {"type": "tool_call_response", "id": "c1", "response": "high tide"}]}])
        [{'role': 'tool', 'content': 'high tide', 'tool_call_id': 'c1'}]
    """
    return [said for message in messages for said in _said(message, reasoning=reasoning)]


def is_chat(message: Mapping[str, Any]) -> bool:
    """Whether chat messages of texts, thoughts, calls of tools and results say all of a message.

    Example:
        >>> is_chat({"role": "user", "parts": [{"type": "uri", "uri": "https://host/tide.png"}]})
        False
    """
    return all(_is_chat(part) for part in message.get("parts", ()))


def _is_chat(part: Mapping[str, Any]) -> bool:
    kind = part.get("type")
    if kind == "tool_call_response":
        return not _blocks(_response(part)) or _texts(_response(part)) is not None
    if kind in {"text", "reasoning"}:
        return isinstance(part.get("content", ""), str | None)
    return kind == "tool_call"


def _response(part: Mapping[str, Any]) -> Any:
    return part.get("response", part.get("result"))


def _blocks(response: Any) -> list[Json]:
    """Return the blocks of a provider's make that a result is; none where it is a value."""
    held: list[Any] = [*response] if isinstance(response, list) else []
    are_blocks = all(
        isinstance(one, dict) and str(cast("Json", one).get("type")) in _BLOCK for one in held
    )
    return held if are_blocks else []


_BLOCK: Final = frozenset({"text", "input_text", "image", "image_url", "input_image", "document"})
"""Types of the blocks that a tool's result is made of."""


def _texts(response: Any) -> str | None:
    """Return the text of a result of blocks that are texts; None for any other."""
    blocks = _blocks(response)
    texts = [one["text"] for one in blocks if isinstance(one.get("text"), str)]
    return "".join(texts) if blocks and len(texts) == len(blocks) else None


def _said(message: Mapping[str, Any], *, reasoning: bool) -> Iterator[Json]:
    parts: list[Any] = []
    for part in message.get("parts", ()):
        if part.get("type") == "tool_call_response":
            yield _result(part)
        else:
            parts.append(part)
    if parts or not message.get("parts"):
        yield _one(message, parts, reasoning=reasoning)


def _result(part: Mapping[str, Any]) -> Json:
    response, texts = _response(part), _texts(_response(part))
    said = _text(response) if texts is None else texts
    return _clean({"role": "tool", "content": said, "tool_call_id": part.get("id")})


def _one(message: Mapping[str, Any], parts: Iterable[Any], *, reasoning: bool) -> Json:
    texts: list[str] = []
    calls: list[Json] = []
    thought: list[str] = []
    for part in parts:
        kind, content = part.get("type"), part.get("content", "")
        if kind == "text" and isinstance(content, str):
            texts.append(content)
        elif kind == "tool_call":
            calls.append(_call(part))
        elif kind == "reasoning" and reasoning and content:
            thought.append(str(content))
    said: Json = {"role": str(message.get("role", "user")), "content": "".join(texts)}
    if calls:
        said["tool_calls"] = calls
    if thought:
        said["reasoning_content"] = "\n".join(thought)
    if message.get("name"):
        said["name"] = message["name"]
    return said


def _call(part: Mapping[str, Any]) -> Json:
    arguments = part.get("arguments")
    function = {
        "name": str(part.get("name", "")),
        "arguments": arguments if isinstance(arguments, str) else _text(arguments or {}),
    }
    return _clean({"id": part.get("id"), "type": "function", "function": function})


def _clean(document: Json) -> Json:
    return {key: value for key, value in document.items() if value is not None}


def _text(value: Any) -> str:
    # As templates and clients write values into prompts, and so as policies learned to write.
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tool_schemas(tools: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return tools as OpenAI's API and chat templates take them.

    Example:
        >>> tool_schemas([{"type": "function", "name": "look", "parameters": {}}])
        [{'type': 'function', 'function': {'name': 'look', 'parameters': {}}}]
    """
    return [
        {"type": "function", "function": {key: tool[key] for key in tool if key != "type"}}
        for tool in tools
    ]
