"""The message graph of verifiers' `Trace`: each message once, each call a path through it.

Concatenated along a path from a root, the nodes' tokens are exactly what a call read and
wrote. Servers give the tokens of a prompt as a whole, so what a call read anew stands on
the node of its answer, masked, as verifiers itself writes them where a renderer tells no
spans (verifiers 0.4.0, `verifiers/v1/graph.py`). Where the tokens of an earlier node are
not those that a prompt begins with, the path forks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

from orchtrace_datasets.provenance import Sampled
from orchtrace_otel.datasets import Call

Json: TypeAlias = dict[str, Any]

_ROLES: Final[Mapping[str, str]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def is_typed(said: Iterable[Json]) -> bool:
    """Whether verifiers has a type for each of some chat messages."""
    return all(str(one["role"]) in _ROLES for one in said)


def messages(said: Iterable[Json]) -> list[Json]:
    """Return chat messages as verifiers types them; it must have a type for each."""
    return [_message(one) for one in said]


def _message(said: Json) -> Json:
    role = _ROLES[str(said["role"])]
    made: Json = {"role": role, "content": said.get("content", "")}
    if role == "tool":
        made["tool_call_id"] = str(said.get("tool_call_id", ""))
    if role == "assistant":
        if "reasoning_content" in said:
            made["reasoning_content"] = said["reasoning_content"]
        if said.get("tool_calls"):
            made["tool_calls"] = [_tool_call(one) for one in said["tool_calls"]]
    return made


def _tool_call(said: Json) -> Json:
    function = said["function"]
    return {
        "id": str(said.get("id", "")),
        "type": "function",
        "name": function["name"],
        "arguments": function["arguments"],
    }


def tools(call: Call) -> list[Json]:
    """Return the tools that a call was offered."""
    return [
        {
            "name": str(tool.get("name", "")),
            "description": str(tool.get("description") or ""),
            "parameters": tool.get("parameters") or {},
        }
        for tool in call.content.tools
    ]


@dataclass(slots=True)
class Nodes:
    """The nodes of one trace.

    Attributes:
        rows: As `MessageNode` has them.
        of_call: Which of them is a call's answer, by the call's id.
        tools: The tools that calls were offered, by name.
    """

    rows: list[Json] = field(default_factory=list[Json])
    of_call: dict[str, int] = field(default_factory=dict[str, int])
    tools: dict[str, Json] = field(default_factory=dict[str, Json])
    _known: dict[tuple[Any, ...], list[int]] = field(
        default_factory=dict[tuple[Any, ...], "list[int]"]
    )

    def add(
        self, call: Call, prompt: list[Json], answer: Json, tokens: Sampled | None, at: float
    ) -> int:
        """Add a call: what of its prompt is new, and its answer, whose place it returns.

        Args:
            call: The call.
            prompt: What it read, as `messages` makes it.
            answer: What it wrote.
            tokens: Its tokens, where they are good enough.
            at: When it ended, in seconds since 1970.
        """
        ids = None if tokens is None else tokens.prompt_ids
        offered = tools(call)
        self.tools.update((tool["name"], tool) for tool in offered)
        owner = str(call.row.get("instance"))
        parent: int | None = None
        place = 0
        for message in prompt:
            key = _key(parent, message, owner, offered)
            node = next(self._matching(key, ids, place), None)
            if node is None:
                node = self._put(key, parent, message, offered, at)
            place += len(self.rows[node]["token_ids"])
            parent = node
        key = _key(parent, answer, owner, offered)
        node = self._put(key, parent, answer, offered, at)
        self.rows[node] |= {"sampled": True, **_tokens(tokens, place)}
        self.of_call[call.id] = node
        return node

    def _matching(self, key: tuple[Any, ...], ids: list[int] | None, place: int) -> Iterator[int]:
        """Return nodes of this message whose tokens are those that the prompt goes on with."""
        for node in reversed(self._known.get(key, ())):
            held = self.rows[node]["token_ids"]
            # A call without ids must not stand on a path whose tokens would end before it.
            if (not held) if ids is None else (ids[place : place + len(held)] == held):
                yield node

    def _put(
        self,
        key: tuple[Any, ...],
        parent: int | None,
        message: Json,
        offered: list[Json],
        at: float,
    ) -> int:
        node: Json = {
            "parent": parent,
            "semantic_parents": [],
            "message": message,
            "sampled": False,
            "timestamp": at,
            "token_ids": [],
            "mask": [],
            "logprobs": [],
        }
        if parent is None and offered:
            node["tools"] = offered
        self.rows.append(node)
        self._known.setdefault(key, []).append(len(self.rows) - 1)
        return len(self.rows) - 1

    def above(self, node: int) -> Iterator[int]:
        """Return the nodes on the way from a node to its root, itself not among them."""
        parent: int | None = self.rows[node]["parent"]
        while parent is not None:
            yield parent
            parent = self.rows[parent]["parent"]


def _key(parent: int | None, message: Json, owner: str, offered: list[Json]) -> tuple[Any, ...]:
    said = orjson.dumps(message, option=orjson.OPT_SORT_KEYS)
    return (parent, said) if parent is not None else (said, owner, orjson.dumps(offered))


def _tokens(tokens: Sampled | None, place: int) -> Json:
    if tokens is None:
        return {}
    read = tokens.prompt_ids[place:]
    return {
        "token_ids": [*read, *tokens.ids],
        "mask": [*(False for _ in read), *(bool(one) for one in tokens.mask)],
        "logprobs": [
            value for value, one in zip(tokens.logprobs, tokens.mask, strict=False) if one
        ],
    }
