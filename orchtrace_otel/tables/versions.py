"""Which version of its policy each agent of a run had, and when the run began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchtrace_otel.model import records_of
from orchtrace_otel.spans import writable

if TYPE_CHECKING:
    from orchtrace_otel.model import Trace


def versions_of(trace: Trace) -> dict[str, str]:
    """Return the newest policy version of each agent in a run, where its turns say it.

    Texts are such as columns hold.
    """
    found: dict[str, str] = {}
    for record in records_of(trace.stop, "turn_records"):
        agent: Any = record.get("agent")
        version: Any = record.get("policy_version")
        if isinstance(agent, str) and isinstance(version, str | int):
            found[writable(agent)] = writable(str(version))
    return found


def began(trace: Trace) -> int:
    """Return when a run began, nanoseconds since 1970; 0 where it does not say."""
    start: Any = trace.events[0].get("start_unix_nano") if trace.events else None
    return start if isinstance(start, int) and abs(start) < 2**63 else 0
