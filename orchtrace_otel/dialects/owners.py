"""Whose a call is that hangs beside its agent instead of below it.

OpenLLMetry hangs calls of models and tools of the OpenAI Agents SDK under the
workflow; other conventions let a span name an agent that is not the one around it.
Then the agent is the one that was at work around the call, if there is just one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

from orchtrace_otel import attributes as a
from orchtrace_otel.dialects import openllmetry
from orchtrace_otel.dialects.scene import Scene

_CALLS: Final = frozenset(("turn", "tool", "handoff", "guard"))


def find_owners(scene: Scene) -> dict[str, str]:
    """Return the agent at work around each call that only time gives one."""
    found: dict[str, str] = {}
    misplaced = dict(_misplaced(scene))
    at_work: dict[tuple[str, str | None], _AtWork] = {}
    for key, one in scene.spans.items():  # by start, so that who began before a call is known
        record, scope = scene.by_id[key], scene.scope(key)
        if one.kind == "agent" and key != scene.root_id:
            for name in (None, str(one.attributes[a.AGENT_NAME])):
                at_work.setdefault((scope, name), _AtWork()).begin(record.end, key)
        elif key in misplaced and (scope, misplaced[key]) in at_work:
            agent = at_work[scope, misplaced[key]].only_until(record.end)
            if agent is not None:
                found[key] = agent
    return found


class _AtWork:
    """Agents that have begun, by their end."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, str]] = []

    def begin(self, end: int, agent: str) -> None:
        insort(self._ends, (end, agent))

    def only_until(self, end: int) -> str | None:
        """Return the one that is at work until then; None where there is none, or several."""
        place = bisect_left(self._ends, (end, ""))
        return self._ends[place][1] if place == len(self._ends) - 1 else None


def _misplaced(scene: Scene) -> Iterator[tuple[str, str | None]]:
    """Yield the calls that are not below their agent, and its name where they give it."""
    for key, one in scene.spans.items():
        if one.kind not in _CALLS or key == scene.root_id:
            continue
        around = scene.spans.get(scene.scope(key))
        named = one.attributes.get(a.AGENT_NAME)
        if named is not None:
            if around is None or named != around.attributes.get(a.AGENT_NAME):
                yield key, str(named)
        elif around is not None and around.dialect == openllmetry.NAME:
            yield key, None
