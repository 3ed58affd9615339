"""The tokens of a trace by event, and which of them were spent on protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchtrace_otel.model import Event, Trace

_PROTOCOL: Final = frozenset({"orchestrator_decision", "message", "aggregate"})

_NO_PROTOCOL: Final = ("begin", "stop")
"""Verbs of ours that are written as one of these; verbs of others may be any, and no hash."""


def read_tokens(trace: Trace) -> dict[int, int] | None:
    """Tokens by position of the event that carries them; None where some are unknown.

    Some are unknown where a turn came without usage, where an event's number is no
    count, or where the run cost more than its events account for.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> events = (Event("a", 0, "message", "lead", {"tokens": 20}),)
        >>> read_tokens(Trace("run", "task", events, costs={"tokens": 20}))
        {0: 20}
        >>> read_tokens(Trace("run", "task", events, costs={"tokens": 25})) is None
        True
    """
    if (trace.metrics or {}).get("turns_without_usage", 0) > 0:
        return None
    events = trace.events
    found = {
        place: event.keys["tokens"] for place, event in enumerate(events) if "tokens" in event.keys
    }
    for place, said in found.items():
        if said.__class__ is not int or said < 0:  # mostly it is a count
            count = count_tokens(said)
            if count is None:
                return None
            found[place] = count
    return None if sum(found.values()) < trace.costs.get("tokens", 0) else found


def protocol_tokens(events: Sequence[Event], tokens: Mapping[int, int], stop: int | None) -> int:
    """Tokens spent on deciding, delegating, messages and merging, rather than on work."""
    return sum(
        [
            count
            for place, count in tokens.items()
            # The stop closes the run's own activation, and what a close carries is work.
            if place != stop and is_protocol(events[place])
        ]
    )


def is_protocol(event: Event) -> bool:
    """Whether what an event spends is protocol, the stop aside."""
    return event.type in _PROTOCOL and event.keys.get("verb") not in _NO_PROTOCOL


def count_tokens(value: Any) -> int | None:
    """`value` as a count; None where it is none, as for a boolean, a half or a text.

    Example:
        >>> count_tokens(3), count_tokens(3.0), count_tokens(0.5), count_tokens(True)
        (3, 3, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 0 and value % 1 == 0 else None
