"""Why a team stopped, from what its manager signed the end with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from orchtrace_autogen import _framework as f

_REASONS: Final[Mapping[str, str]] = {
    "MaxMessageTermination": "max_steps",
    "TokenUsageTermination": "token_budget",
    "TimeoutTermination": "time_budget",
    "HandoffTermination": "handoff",
    "ExternalTermination": "external",
    "TextMentionTermination": "information_complete",
    "StopMessageTermination": "information_complete",
    "FunctionalTermination": "information_complete",
    "SourceMatchTermination": "information_complete",
    "TextMessageTermination": "information_complete",
    "FunctionCallTermination": "information_complete",
}
"""Built-in conditions; each signs its message with the name of its class."""

_PARTS: Final = "_conditions"


class Stop(NamedTuple):
    """A stop reason, and the class or the words of AutoGen's own that say it."""

    reason: str
    detail: str | None


IDLE: Final = Stop("deadlock", "idle")
"""A team whose runtime ran out of messages before anything ended it."""


def stop_of(manager: f.BaseGroupChatManager, source: str, content: str) -> Stop:
    """Return why `manager` ends its team with a message signed by `source`.

    Words of a condition may quote the conversation, so they are left out.
    """
    if source == f.manager_name(manager):
        return _own(manager, content)
    names = source.split(", ")
    reasons = [_REASONS[name] for name in names if name in _REASONS]
    if len(reasons) == len(names):
        return Stop(reasons[0], source)
    detail = ", ".join(_classes(f.condition(manager), names)) or None
    return Stop(reasons[0] if reasons else "information_complete", detail)


def _own(manager: f.BaseGroupChatManager, content: str) -> Stop:
    limit = getattr(manager, "_max_turns", None)
    if content == f"Maximum number of turns {limit} reached.":
        return Stop("max_steps", "max_turns")
    if content == "Max rounds reached.":
        return Stop("max_steps", "max_rounds")
    if content == "Digraph execution is complete":
        return Stop("information_complete", content)
    if content == "The group chat has already terminated.":
        return Stop("unknown", "already terminated")
    return Stop("information_complete", type(manager).__name__)


def _classes(condition: Any, names: list[str]) -> list[str]:
    """Return the classes that fired: the built-in ones by name, the host's where only those fit.

    A condition of the host's own may sign with any text, even a message's source.
    """
    known = [name for name in names if name in _REASONS]
    hosts = [kind for kind in _leaves(condition) if kind not in _REASONS]
    return known + (hosts if len(hosts) == len(names) - len(known) else [])


def _leaves(condition: Any) -> list[str]:
    parts = getattr(condition, _PARTS, None)
    if parts is None:
        return [] if condition is None else [type(condition).__name__]
    return [name for part in parts for name in _leaves(part)]
