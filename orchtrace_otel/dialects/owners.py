"""Whose a call is that hangs beside its agent instead of below it.

OpenLLMetry hangs calls of models and tools of the OpenAI Agents SDK under the
workflow; other conventions let a span name an agent that is not the one around it.
Then the agent is the one that was at work around the call, if there is just one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import SpanRecord
from orchtrace_otel.dialects import openllmetry
from orchtrace_otel.dialects.scene import Scene


def find_owners(scene: Scene) -> dict[str, str]:
    """Return the agent at work around each call that only time gives one."""
    beside: dict[str, list[str]] = {}
    for key, one in scene.spans.items():
        if one.kind == "agent" and key != scene.root_id:
            beside.setdefault(scene.scope(key), []).append(key)
    return {
        call: agents[0]
        for call, named in _misplaced(scene)
        if len(agents := [*_around(scene, call, named, beside.get(scene.scope(call), ()))]) == 1
    }


def _misplaced(scene: Scene) -> Iterator[tuple[str, str | None]]:
    """Yield the calls that are not below their agent, and its name where they give it."""
    for key, one in scene.spans.items():
        if one.kind not in {"turn", "tool", "handoff", "guard"} or key == scene.root_id:
            continue
        around = scene.spans.get(scene.scope(key))
        named = one.attributes.get(a.AGENT_NAME)
        if named is not None:
            if around is None or named != around.attributes.get(a.AGENT_NAME):
                yield key, str(named)
        elif around is not None and around.dialect == openllmetry.NAME:
            yield key, None


def _around(scene: Scene, call: str, named: str | None, agents: Sequence[str]) -> Iterator[str]:
    record = scene.by_id[call]
    for agent in agents:
        is_named = named in {None, scene.spans[agent].attributes[a.AGENT_NAME]}
        if is_named and _contains(scene.by_id[agent], record):
            yield agent


def _contains(outer: SpanRecord, inner: SpanRecord) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end
