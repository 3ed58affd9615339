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
STOPPED: Final = Stop("external", "runtime stopped")
"""A runtime that was stopped at once drops what it has not begun to handle."""
UNKNOWN: Final = Stop("unknown", None)
"""A run that came back though the team's manager did not end it, on a runtime that others use."""


def stop_of(manager: f.BaseGroupChatManager, source: str, content: str) -> Stop:
    """Return why `manager` ends its team with a message signed by `source`.

    Words of a condition may quote the conversation, so they are left out.
    """
    if source == f.manager_name(manager):
        return _own(manager, content)
    parts = _parts(f.condition(manager))
    names = source.split(", ") if len(parts) > 1 else [*parts]
    fired = [_base(parts[name]) if name in parts else name for name in names]
    reasons = [_REASONS[name] for name in fired if name in _REASONS]
    known = [name for name in names if name in parts or name in _REASONS]
    hosts = [name for name in parts if _base(parts[name]) not in _REASONS]
    if len(known) < len(names) and len(hosts) == 1:
        # A condition of the host's own signs with any text; only one can have been meant.
        known += hosts
    return Stop(reasons[0] if reasons else "information_complete", ", ".join(known) or None)


def _parts(condition: Any) -> dict[str, type]:
    """Return the classes of the conditions that a condition is combined of, by name."""
    combined = getattr(condition, _PARTS, None)
    if combined is None:
        return {} if condition is None else {type(condition).__name__: type(condition)}
    return {name: kind for part in combined for name, kind in _parts(part).items()}


def _base(kind: type) -> str:
    """Return the built-in condition that a class is, or its own name."""
    names = [base.__name__ for base in kind.__mro__]
    return next((name for name in names if name in _REASONS), names[0])


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
