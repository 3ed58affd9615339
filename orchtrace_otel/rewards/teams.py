"""Who opened whom, who followed whom and who read whom: a team as its trace shows it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from orchtrace_otel.model import Edge, Event
    from orchtrace_otel.rewards.facts import Facts

_OWN_LOOP: Final = frozenset({"agent", "model", "llm", "tools", "tool", "call_model"})
"""Names of the parts of one agent's own loop, which some frameworks trace as agents."""


@dataclass(slots=True)
class Act:
    """An activation below the run's root.

    Attributes:
        agent: Who worked.
        by: Who opened it.
        holder: Span id of the activation around it.
        role: The agent's role in lower case; empty where it has none.
        after: Span ids of the activations whose end it followed.
        is_by_tool: Whether it ran inside of a tool call of its holder.
    """

    agent: str
    by: str
    holder: str
    role: str
    after: frozenset[str] = frozenset()
    is_by_tool: bool = False


@dataclass(slots=True)
class Team:
    """What a trace shows of a team.

    Attributes:
        acts: Activations by span id, in order of opening.
        agents: Span id of an activation, the root's too, to its agent.
        read: Pairs of a reader and a writer of messages.
        tools: Span id of an activation to how many tools it called.
        lead: Span id of the activation that leads.
    """

    acts: dict[str, Act] = field(default_factory=dict[str, Act])
    agents: dict[str, str] = field(default_factory=dict[str, str])
    read: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    tools: Counter[str] = field(default_factory=Counter[str])
    lead: str = ""

    @property
    def tools_of_lead(self) -> int:
        """How many tools the lead called, those that other agents ran inside of aside."""
        inside = sum(act.is_by_tool for act in self.acts.values())
        return max(self.tools[self.lead] - inside, 0)


def read_team(facts: Facts) -> Team:
    """Read the team of a trace; those of others, without activations, by their spawns.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> from orchtrace_otel.rewards.facts import Facts
        >>> opening = Event("a.open", 0, "spawn", "lead", {"to": "scout", "parent": "r"})
        >>> read_team(Facts(Trace("run", "task", (opening,)))).acts["a"].agent
        'scout'
    """
    team = Team()
    events = facts.events
    opened: dict[str, Act] = {}
    for event in _openings(facts):
        act = _take_opening(team, event.id[:-5], event.agent, event.keys)
        if act is not None:
            opened[event.id] = act
    for place in facts.by_type.get("tool_call", ()):
        event = events[place]
        team.tools[str(event.keys.get("activation", event.agent))] += 1
    if not team.acts:
        _take_spawns(team, events)
    elif len(team.acts) > 1 or team.tools:
        _connect(team, opened, facts)
    _skip_wrappers(team)
    return team


def _openings(facts: Facts) -> list[Event]:
    """The events that open activations, by time."""
    events = facts.events
    found = [
        event
        for kind, places in facts.by_type.items()
        if kind != "tool_call"
        for event in map(events.__getitem__, places)
        if event.id[-5:] == ".open"
    ]
    found.sort(key=_when)
    return found


def _when(event: Event) -> tuple[float, str]:
    return event.t, event.id


def _take_opening(team: Team, name: str, by: str, keys: Mapping[str, Any]) -> Act | None:
    agent = str(keys.get("to", by))
    team.agents[name] = agent
    if "parent" in keys:
        role = str(keys.get("role", "")).lower()
        team.acts[name] = act = Act(agent, by, str(keys["parent"]), role)
        return act
    if not team.lead:
        team.lead = name
    return None


def _take_spawns(team: Team, events: Iterable[Event]) -> None:
    for event in sorted(events, key=_when):
        to = event.get("to")
        if event.type == "spawn" and isinstance(to, str):
            role = str(event.get("role", "")).lower()
            team.acts.setdefault(to, Act(to, event.agent, event.agent, role))
            team.agents[to] = to
            team.lead = team.lead or event.agent
            team.agents.setdefault(event.agent, event.agent)


def _connect(team: Team, opened: Mapping[str, Act], facts: Facts) -> None:
    acts, events, positions = team.acts, facts.events, facts.graph.positions
    for edge in facts.trace.edges:  # many, and most are about something else
        if edge.type == "message":
            ends = [positions.get(name) for name in (edge.src, edge.dst)]
            giver, taker = [None if at is None else _act_of(acts, events[at]) for at in ends]
            if giver is not None and taker is not None and giver is not taker:
                team.read.add((taker.agent, giver.agent))
        elif edge.dst in opened and edge.src in positions:
            _follow(acts, opened[edge.dst], edge, events[positions[edge.src]])


def _act_of(acts: Mapping[str, Act], event: Event) -> Act | None:
    return acts.get(str(event.keys.get("activation", event.agent)))


def _follow(acts: Mapping[str, Act], act: Act, edge: Edge, source: Event) -> None:
    """Note what an edge into an opening says of how that came about."""
    if source.type == "tool_call":
        act.is_by_tool = act.is_by_tool or source.keys.get("activation") == act.holder
    elif edge.type == "causal" and edge.src[-6:] == ".close":
        giver = edge.src[:-6]
        if giver in acts and acts[giver] is not act:
            act.after |= {giver}


def _skip_wrappers(team: Team) -> None:
    """Take as lead the first that holds more than one agent; drop the loops of single agents."""
    held: defaultdict[str, list[str]] = defaultdict(list)
    for name, act in team.acts.items():
        held[act.holder].append(name)
    for holder in list(held):
        if holder in team.acts and {team.acts[name].agent for name in held[holder]} <= _OWN_LOOP:
            for name in held.pop(holder):
                del team.acts[name]
    while len(inside := held.get(team.lead, [])) == 1 and inside[0] in held:
        del team.acts[inside[0]]
        team.lead = inside[0]
