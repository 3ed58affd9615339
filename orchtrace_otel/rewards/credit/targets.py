"""Whose each event is: which agent's, in which role, a decision or not, which tool call's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from orchtrace_otel.rewards.families.tools import called
from orchtrace_otel.rewards.graph import is_delegation
from orchtrace_otel.rewards.others import stretches

if TYPE_CHECKING:
    from orchtrace_otel.model import Event
    from orchtrace_otel.rewards.facts import Facts

DECISIONS: Final = frozenset({"orchestrator_decision", "spawn", "despawn", "aggregate"})
"""Types of what an orchestrator does: it decides, delegates, spawns, merges and stops."""

_USER: Final = "user"

UNASSIGNED: Final = "unassigned"
"""Target of what no target of a unit got."""

Targets: TypeAlias = Sequence[str | None]
"""Whose each event is, by position; None for nobody's."""


def agents(facts: Facts) -> Targets:
    """The agent of each event; that of a tool's result is who called the tool.

    The begin of a run is the agent's that it reaches, not the user's. A tool that a trace
    names as the agent of its result is no agent.
    """
    events, types = facts.events, facts.by_type
    found: list[str | None] = [event.agent for event in events]
    if "tool_result" in types:
        _give_results_to_callers(facts, found)
    for place in types.get("message", ()):
        event = events[place]
        if event.agent == _USER and event.keys.get("verb") == "begin":
            to = event.keys.get("to")  # others may write what they like there
            found[place] = to if isinstance(to, str) else _USER
    return found


def _give_results_to_callers(facts: Facts, found: list[str | None]) -> None:
    events, types = facts.events, facts.by_type
    results = types["tool_result"]
    idle = {found[place] for place in results}
    for kind, places in types.items():
        if idle and kind != "tool_result":
            idle.difference_update(map(found.__getitem__, places))
    for place in results:
        event = events[place]
        agent = event.agent
        if agent not in idle and agent != event.keys.get("tool"):
            continue
        caller = facts.share(called).get(place)
        found[place] = None if caller is None else found[caller]


def roles(facts: Facts) -> Mapping[str, str]:
    """The role of each agent: the one that it was first seen in; `unassigned` is none."""
    first: dict[str, Event] = {}
    giving = _giving_a_role(facts)
    for place, event in enumerate(facts.events):
        keys = event.keys
        if "role" not in keys:
            continue
        name: str | None = event.agent
        if place in giving:
            to = keys.get("to")
            name = to if isinstance(to, str) else _reached(facts, place)
        if name is None:
            continue
        seen = first.get(name)
        # An event later than the first has nothing to say; most are.
        if seen is None or (event.t <= seen.t and (event.t, event.id) < (seen.t, seen.id)):
            first[name] = event
    named = {name: event.keys["role"] for name, event in first.items()}
    return {
        name: role for name, role in named.items() if isinstance(role, str) and role != UNASSIGNED
    }


def _giving_a_role(facts: Facts) -> Collection[int]:
    """Positions of events whose role is that of whom they reach, and not of who did it."""
    events, types = facts.events, facts.by_type
    said = [
        at
        for at in types.get("message", ())
        if events[at].keys.get("verb") == "begin" or is_delegation(events[at])
    ]
    return {*types.get("spawn", ()), *facts.delegations, *said}


def _reached(facts: Facts, place: int) -> str | None:
    """Who got what a spawn or a delegation gave that names nobody; None where nobody is seen."""
    given = facts.share(stretches).get(place)
    return facts.events[place].agent if given is None else given.agent


def messages(facts: Facts) -> Targets:
    """The id of each message."""
    return [
        event.id if event.type == "message" and event.keys.get("verb") != "begin" else None
        for event in facts.events
    ]


def tool_calls(facts: Facts) -> Targets:
    """The id of the call, for a tool's call and for its result."""
    found: list[str | None] = [None] * len(facts.events)
    for result, call in facts.share(called).items():
        found[result] = facts.events[call].id
    for place in facts.by_type.get("tool_call", ()):
        found[place] = facts.events[place].id
    return found
