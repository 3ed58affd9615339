"""Chat messages as OpenAI's API takes them, without what only other readers know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

_KEYS: Final = ("role", "content", "name", "tool_calls", "tool_call_id")
_NAME: Final = re.compile(r"[^\s<|\\/>]+")
"""What the API takes as the name of a participant."""


def messages(said: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return messages with the keys of the API alone; names that it would refuse are left out.

    Example:
        >>> messages([{"role": "user", "content": "Hi", "name": "Ann Lee", "other": 1}])
        [{'role': 'user', 'content': 'Hi'}]
    """
    return [{key: one[key] for key in _KEYS if key in one and _is_taken(key, one)} for one in said]


def _is_taken(key: str, message: Mapping[str, Any]) -> bool:
    return key != "name" or _NAME.fullmatch(str(message[key])) is not None
