"""Who opened whom, who followed whom and who read whom: a team as its trace shows it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import lt
from typing import TYPE_CHECKING, Final, TypeAlias

from orchtrace_otel.rewards.others import Stretch, stretches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from orchtrace_otel.model import Event
    from orchtrace_otel.rewards.facts import Facts

_OWN_LOOP: Final = frozenset({"agent", "model", "llm", "tools", "tool", "call_model"})
"""Names of the parts of one agent's own loop, which some frameworks trace as agents."""

Act: TypeAlias = tuple[str, str, str, str]
"""An activation below the run's root: who worked, who opened it, the span id of the activation
around it, and the agent's role, empty where it has none."""


@dataclass(slots=True)
class Team:
    """What a trace shows of a team.

    Attributes:
        acts: Activations by span id, in order of opening.
        agents: Span id of an activation, the root's too, to its agent.
        after: Span ids of the activations whose end an activation followed, where it did.
        by_tool: Span ids of the activations that ran inside of a tool call of their holder.
        read: Pairs of a reader and a writer of messages.
        tools: Span id of the activation that called it, for each call of a tool.
        lead: Span id of the activation that leads.
    """

    acts: dict[str, Act] = field(default_factory=dict[str, Act])
    agents: dict[str, str] = field(default_factory=dict[str, str])
    after: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    by_tool: set[str] = field(default_factory=set[str])
    read: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    tools: Sequence[str] = ()
    lead: str = ""

    @property
    def kinds(self) -> Sequence[Act]:
        """Activations that differ in more than their span, by the first of each: mostly few."""
        return [*dict.fromkeys(self.acts.values())]

    @property
    def tools_of_lead(self) -> int:
        """How many tools the lead called, those that other agents ran inside of aside."""
        return max(self.tools.count(self.lead) - len(self.by_tool & self.acts.keys()), 0)


def read_team(facts: Facts) -> Team:
    """Read the team of a trace; those of others, without activations, by what they gave to whom.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> from orchtrace_otel.rewards.facts import Facts
        >>> opening = Event("a.open", 0, "spawn", "lead", {"to": "scout", "parent": "r"})
        >>> read_team(Facts(Trace("run", "task", (opening,)))).acts["a"]
        ('scout', 'lead', 'r', '')
    """
    team = Team()
    events = facts.events
    opened: dict[str, str] = {}
    for event in _openings(events):
        name, keys = event.id[:-5], event.keys
        team.agents[name] = agent = str(keys.get("to", event.agent))
        if "parent" in keys:
            opened[event.id] = name
            role = str(keys.get("role", ""))
            team.acts[name] = agent, event.agent, str(keys["parent"]), role
        elif not team.lead:
            team.lead = name
    calls = [events[place] for place in facts.by_type.get("tool_call", ())]
    team.tools = [str(call.keys.get("activation", call.agent)) for call in calls]
    if not team.acts:
        _take_given(team, facts)
    elif len(team.acts) > 1 or calls:
        _connect(team, opened, {call.id for call in calls}, facts)
    _skip_wrappers(team)
    return team


def _openings(events: Iterable[Event]) -> Sequence[Event]:
    """The events that open activations, by time."""
    found = [
        event
        for event in events
        # The first is a quick no for most.
        if ".open" in event.id and event.type != "tool_call" and event.id[-5:] == ".open"
    ]
    times = [event.t for event in found]
    if not all(map(lt, times, times[1:])):  # a trace of ours is in order
        found.sort(key=_when)
    return found


def _when(event: Event) -> tuple[float, str]:
    return event.t, event.id


def _take_given(team: Team, facts: Facts) -> None:
    """Take who was given work, and by whom, where no activations are seen.

    Who was spawned is inside of who spawned it, and who was delegated to where that one went
    on when it had come back; else it was handed over. Where work is handed over to the first
    who gave any, too, nobody leads.
    """
    events, work = facts.events, facts.share(stretches)
    whose = {at: place for place, one in work.items() for at in one.places}
    places = sorted({*facts.by_type.get("spawn", ()), *work}, key=lambda at: _when(events[at]))
    given: list[tuple[Event, str, bool]] = []
    for place in places:
        giver = events[place]
        to = work[place].agent if place in work else giver.get("to")
        if isinstance(to, str):
            own = work[whose[place]].places if place in whose else ()
            is_inside = giver.type == "spawn" or _is_outlasted(work[place], own, facts)
            given.append((giver, to, is_inside))
    first = team.lead or (given[0][0].agent if given else _only_agent(facts))
    team.lead = "" if any(first == to and not inside for _, to, inside in given) else first
    for giver, to, is_inside in given:
        holder = giver.agent if is_inside else team.lead
        team.acts.setdefault(to, (to, giver.agent, holder, str(giver.get("role", ""))))
        team.agents |= {giver.agent: giver.agent, to: to}
    team.agents.setdefault(team.lead, team.lead)


def _only_agent(facts: Facts) -> str:
    """The agent of a trace in which one works alone; empty for several."""
    names = {event.agent for event in facts.events if event.type != "tool_result"}
    return names.pop() if len(names) == 1 else ""


def _is_outlasted(given: Stretch, own: Iterable[int], facts: Facts) -> bool:
    """Whether who gave work did more of its own once that had come back."""
    begin = facts.graph.begin
    back = [begin[at] for at in given.returns]
    return bool(back) and any(begin[at] >= back[-1] for at in own)


def _connect(team: Team, opened: Mapping[str, str], calls: Collection[str], facts: Facts) -> None:
    """Note what edges say of how activations came about, and of who read whom."""
    acts, events, positions = team.acts, facts.events, facts.graph.positions
    # What a tool does first, such as to decide, may stand between its opening and theirs.
    inside = facts.graph.inside
    team.by_tool = {name for name in acts.keys() & inside.keys() if inside[name] + ".open" in calls}
    # Edges are many, and most are about something else.
    edges = [edge for edge in facts.trace.edges if edge.dst in opened or edge.type == "message"]
    for edge in edges:
        source = edge.src
        if edge.type == "message":
            if source in positions and edge.dst in positions:
                _read(team, events[positions[source]], events[positions[edge.dst]])
        elif source in calls and events[positions[source]].type == "tool_call":
            name = opened[edge.dst]
            if events[positions[source]].keys.get("activation") == acts[name][2]:
                team.by_tool.add(name)
        elif edge.type == "causal" and source[-6:] == ".close" and source in positions:
            giver, name = source[:-6], opened[edge.dst]
            if giver in acts and giver != name:
                team.after.setdefault(name, set()).add(giver)


def _read(team: Team, written: Event, read: Event) -> None:
    """Note that one agent read what another wrote."""
    giver, taker = [str(event.keys.get("activation", event.agent)) for event in (written, read)]
    if giver != taker and giver in team.acts and taker in team.acts:
        team.read.add((team.acts[taker][0], team.acts[giver][0]))


def _skip_wrappers(team: Team) -> None:
    """Take as lead the first that holds more than one agent; drop the loops of single agents."""
    acts = team.acts
    if acts.keys().isdisjoint([holder for _, _, holder, _ in acts.values()]):
        return
    held: defaultdict[str, list[str]] = defaultdict(list)
    for name, (_, _, holder, _) in acts.items():
        held[holder].append(name)
    for holder in list(held):
        if holder in acts and {acts[name][0] for name in held[holder]} <= _OWN_LOOP:
            for name in held.pop(holder):
                del acts[name]
    passed = {team.lead}  # of spawns alone an agent may hold itself, or one that holds it
    while (
        len(inside := held.get(team.lead, [])) == 1
        and inside[0] in held
        and inside[0] not in passed
    ):
        del acts[inside[0]]
        team.lead = inside[0]
        passed.add(team.lead)
