"""Messages in the shape of the GenAI conventions, from the shape that chat servers take.

A shape is made of the host's own parts, without copying them: `values.Copy` copies it
afterwards, within limits and redacted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from orchtrace_otel.content.values import value_of

Part = Mapping[str, Any]

_MOST_ARGUMENTS: Final = 256 * 1_024


def is_a(value: object, kind: type) -> bool:
    """Whether a value is of that very class: of any other not even the class is asked for."""
    return type(value) is kind


def message(role: str, parts: Iterable[Part], name: str | None = None) -> dict[str, Any]:
    """Return a message of the conventions; parts without content are left out."""
    held: dict[str, Any] = {"role": role, "parts": list(parts)}
    if name:
        held["name"] = name
    return held


def said_by(role: str, value: Any) -> dict[str, Any]:
    """Return the message that a value is, as an agent is given one or gives one back."""
    part = text(value) if is_a(value, str) else {"type": "generic", "content": value}
    return message(role, [part])


def text(content: Any) -> Part:
    """Return a part of plain text."""
    return {"type": "text", "content": content}


def reasoning(content: Any) -> Part:
    """Return a part of reasoning."""
    return {"type": "reasoning", "content": content}


def tool_call(call_id: Any, name: Any, arguments: Any) -> Part:
    """Return a part that asks for a tool; arguments that are the text of a JSON object are read."""
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": read(arguments)}


def tool_response(call_id: Any, response: Any) -> Part:
    """Return a part that a tool answers with."""
    return {"type": "tool_call_response", "id": call_id, "response": response}


def read(arguments: Any) -> Any:
    """Return the value that a text of JSON stands for: names in it are what is redacted by."""
    if not is_a(arguments, str) or len(arguments) > _MOST_ARGUMENTS:
        return arguments
    if arguments.lstrip()[:1] not in {"{", "["}:
        return arguments
    try:
        return orjson.loads(arguments)
    except ValueError:
        return arguments


def parts(content: Any) -> list[Part]:
    """Return the parts of a message's content: a text, or blocks of a provider's make."""
    if is_a(content, str):
        return [text(content)] if content else []
    if not is_a(content, list):
        return [] if content is None else [{"type": "generic", "content": content}]
    return [block(one) for one in content]


def block(one: Any) -> Part:
    """Return the part that a block of a provider's make is."""
    if is_a(one, str):
        return text(one)
    if not is_a(one, dict):
        return {"type": "generic", "content": one}
    kind = one.get("type")
    reader = _BLOCKS.get(kind) if is_a(kind, str) else None
    return {"type": "generic", "content": one} if reader is None else reader(one)


def media(one: Mapping[str, Any]) -> Part:
    """Return the part of an image, a sound or a file: where it is, else what it is."""
    modality = str(one.get("type")).removeprefix("input_").removesuffix("_url")
    held: Any = one.get("image_url") or one.get("url") or one
    url: Any = held.get("url") if is_a(held, dict) else held
    if is_a(url, str) and not url.startswith("data:"):
        return {"type": "uri", "modality": modality, "uri": url}
    return {"type": "blob", "modality": modality, "content": url if is_a(url, str) else one}


def _thought(one: Mapping[str, Any]) -> Part:
    said: Any = one.get("thinking") or one.get("reasoning") or one.get("text")
    # Some give what was thought as blocks of text; of what they keep to themselves, nothing.
    blocks: Any = said or one.get("summary")
    if is_a(blocks, list):
        said = "\n".join(block["text"] for block in blocks if _is_text(block))
    return reasoning(said or "")


def _is_text(block: Any) -> bool:
    return is_a(block, dict) and is_a(block.get("text"), str)


_BLOCKS: Final[Mapping[str, Callable[[Mapping[str, Any]], Part]]] = {
    **dict.fromkeys(
        ("text", "input_text", "output_text"),
        lambda one: text(one.get("text")),
    ),
    "thinking": _thought,
    "reasoning": _thought,
    "tool_use": lambda one: tool_call(one.get("id"), one.get("name"), one.get("input")),
    "tool_result": lambda one: tool_response(one.get("tool_use_id"), one.get("content")),
    **dict.fromkeys(
        ("image_url", "image", "input_image", "input_audio", "audio", "file", "video"), media
    ),
}
"""What reads a block, by its type in the request of a provider."""


def of_chat(given: Any) -> Mapping[str, Any]:
    """Return the shape of a message as chat servers take it: a dict with role and content.

    Example:
        >>> of_chat({"role": "user", "content": "who?"})
        {'role': 'user', 'parts': [{'type': 'text', 'content': 'who?'}]}
    """
    if not is_a(given, dict):
        return message("user", parts(given))
    role, content = given.get("role", "user"), given.get("content")
    role = role if is_a(role, str) else _role(role)
    if role in {"tool", "function"}:
        held = [tool_response(given.get("tool_call_id"), content)]
        return message("tool", held, given.get("name"))
    held = parts(content)
    thought = given.get("reasoning_content") or given.get("reasoning")
    if thought:
        held.insert(0, reasoning(thought))
    one = given.get("function_call")
    held += [_asked(call) for call in given.get("tool_calls") or ([one] if one else ())]
    rest = _rest(given)
    if rest:
        held.append({"type": "generic", "content": rest})
    return message(role, held, given.get("name"))


def _rest(given: Any) -> dict[Any, Any] | None:
    """Return what a message says in no field that is known here, where it says nothing else."""
    if any(given.get(name) for name in _SAYING):
        return None
    return {key: value for key, value in given.items() if value and key not in _ABOUT} or None


_SAYING: Final = ("content", "tool_calls", "function_call", "reasoning_content", "reasoning")
_ABOUT: Final = frozenset({"role", "name", "tool_call_id"})


def _asked(call: Any) -> Part:
    """Return the part that asks for a tool; what calls no function by its name is as it is."""
    asked: Any = call.get("function", call) if is_a(call, dict) else None
    if not is_a(asked, dict) or asked.get("name") is None:
        return {"type": "generic", "content": call}
    return tool_call(call.get("id"), asked.get("name"), asked.get("arguments"))


def _role(role: Any) -> str:
    """Return who says a message, as a text; a member of an enum is what it stands for."""
    if issubclass(type(role), enum.Enum):
        role = value_of(role)
    return str.__str__(role) if issubclass(type(role), str) else f"<{type(role).__qualname__}>"


def look_at_chat(given: Any) -> tuple[Any, ...]:
    """Return what tells whether such a message has changed."""
    if not is_a(given, dict):
        return (given,)
    role = given.get("role", "user")
    return (
        role if is_a(role, str) else _role(role),
        given.get("content"),
        given.get("name"),
        given.get("tool_call_id"),
        given.get("reasoning_content") or given.get("reasoning"),
        given.get("tool_calls") or given.get("function_call") or None,
        _rest(given),
    )


def definition(name: Any, description: Any, parameters: Any) -> Mapping[str, Any]:
    """Return the definition of a tool in the conventions' shape."""
    return {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
    }


def of_tools(given: Any) -> list[Mapping[str, Any]]:
    """Return definitions of tools as chat servers take them in the conventions' shape."""
    held: list[Mapping[str, Any]] = []
    for one in given if is_a(given, list) or is_a(given, tuple) else ():
        asked: Any = one.get("function", one) if is_a(one, dict) else None
        if is_a(asked, dict) and asked.get("name"):
            schema = asked.get("parameters", asked.get("input_schema"))
            held.append(definition(asked.get("name"), asked.get("description"), schema))
    return held


PARAMETERS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "seed",
    "stop",
    "n",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
    "thinking",
)
"""What decides how a completion is sampled; all else of a request, headers too, stays out."""


def sampling(*given: Any) -> dict[str, Any]:
    """Return the sampling parameters of a request, the later mapping before the earlier.

    Example:
        >>> sampling({"temperature": 0.2, "api_key": "no"}, {"extra_body": {"top_k": 5}})
        {'temperature': 0.2, 'top_k': 5}
    """
    held: dict[str, Any] = {}
    for one in given:
        if not is_a(one, dict):
            continue
        extra: Any = one.get("extra_body")
        sources: list[Any] = [one, extra if is_a(extra, dict) else {}]
        for source in sources:
            held |= {name: source[name] for name in PARAMETERS if source.get(name) is not None}
    return held


def joined(texts: Sequence[bytes], most: int) -> tuple[bytes, int]:
    """Return messages as one JSON array of at most `most` bytes, and how many were left out.

    The oldest go first: what was said last is what an answer follows from.
    """
    size, first = 2, len(texts)
    while first > 0 and size + len(texts[first - 1]) + 1 <= most:
        first -= 1
        size += len(texts[first]) + 1
    return b"[" + b",".join(texts[first:]) + b"]", first


def with_reason(said: bytes, reasons: Sequence[str], at: int) -> bytes:
    """Return an answer with why it ended, which the conventions ask for."""
    reason = reasons[at] if at < len(reasons) else "unknown"
    return said[:-1] + b',"finish_reason":' + orjson.dumps(reason) + b"}"
