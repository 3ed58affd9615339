"""Chat messages as OpenAI's API takes them, without what only other readers know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from orchtrace_otel.datasets import Call, Dropped, Group

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


def leave_out_thoughts(group: Group) -> Iterator[Dropped]:
    """Leave out calls that wrote thoughts alone: the lines have no place for these."""
    for run in group.runs:
        mute = {call.id for call in run.chosen if not _says(call)}
        run.chosen = [call for call in run.chosen if call.id not in mute]
        yield from (Dropped("unwritable", run.id, turn) for turn in sorted(mute))


def _says(call: Call) -> bool:
    return any(said.get(key) for said in call.completion for key in ("content", "tool_calls"))


def _is_taken(key: str, message: Mapping[str, Any]) -> bool:
    return key != "name" or _NAME.fullmatch(str(message[key])) is not None
