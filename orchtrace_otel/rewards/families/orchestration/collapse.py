"""How orchestrators game a reward for parallelism: working in turn, or for show."""

from __future__ import annotations

from collections import defaultdict

from orchtrace_otel.rewards.component import component
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.assignments import (
    Assignments,
    assignments,
    briefs,
    lasting,
    text,
)
from orchtrace_otel.rewards.families.orchestration.lineage import sibling_pairs
from orchtrace_otel.rewards.families.orchestration.parallel import peak_of_agents
from orchtrace_otel.rewards.others import stretches


@component(family="R7", unit="orchestrator", range=(-1, 0), inputs=("spawn", "delegate", "edges"))
def serial_collapse(facts: Facts) -> float | None:
    """-1 where work that did not depend on each other was done one after the other, else 0.

    That is: two assignments under one parent without a path between them, while never
    more than one sub-agent worked. Absent where times or causes are unknown.
    """
    if not facts.is_timed:
        return None
    peak = facts.share(peak_of_agents)
    if peak is None:
        return None
    if peak > 1:
        return 0.0
    pairs = facts.share(sibling_pairs)
    if pairs is None:
        return None
    return -1.0 if pairs.all > pairs.connected else 0.0


@component(family="R7", unit="orchestrator", range=(-1, 0), inputs=("return", "edges", "tokens"))
def spurious_parallelism(facts: Facts) -> float | None:
    """Minus the share of assignments that were for show; 0 without any.

    Those whose end led to no answer; that ran beside others and did nothing (no tool call,
    no message, no tokens, no work passed on, where the run has tokens at all); or whose brief
    was word for word that of an earlier one beside them. Absent on cycles, and with ids that
    are not unique.
    """
    if not facts.is_causal:
        return None
    assigned = len(facts.share(assignments).places)
    return -len(why_spurious(facts)) / assigned if assigned else 0.0


def why_spurious(facts: Facts) -> dict[int, str]:
    """Which assignments, by number, were for show, and why."""
    found = facts.share(assignments)
    reasons = dict.fromkeys(_repeated(facts, found), "has an earlier one's brief")
    reasons |= dict.fromkeys(_idle(facts, found), "did nothing")
    led = facts.led
    for at in [at for at, end in enumerate(found.closed) if end is None or not led[end]]:
        if not _led(facts, found, at):
            reasons[at] = "led to no answer"
    return reasons


def _led(facts: Facts, found: Assignments, at: int) -> bool:
    """Whether what came of it led to the answer, where no end says so: anything its agent did."""
    stretch, led = facts.share(stretches).get(found.places[at]), facts.led
    if stretch is not None:
        return any(led[place] for place in stretch.returns or stretch.places)
    agent = found.agents[at]
    if found.closed[at] is not None or found.opened[at] is not None or agent is None:
        return False
    return agent in facts.share(_useful_agents)


def _useful_agents(facts: Facts) -> set[str]:
    return {facts.events[place].agent for place in facts.useful}


def _idle(facts: Facts, found: Assignments) -> set[int]:
    """Assignments that ran beside others of their parent and were not seen to do anything."""
    tokens = facts.tokens
    if not tokens or not facts.is_timed:
        return set()
    events, types = facts.events, facts.by_type
    busy: set[str | None] = {None, *found.parents}
    for place in (*tokens, *types.get("tool_call", ()), *types.get("message", ())):
        keys = events[place].keys
        if keys.get("verb") != "begin":
            busy.add(text(keys.get("activation")))
    silent = {at for at, name in enumerate(found.activations) if name not in busy}
    silent |= _silent_others(facts, found)
    return silent & _beside(facts, found) if silent else silent


def _silent_others(facts: Facts, found: Assignments) -> set[int]:
    """The same in traces of others, for those whose agent was seen at all."""
    work = facts.share(stretches)
    if not work:
        return set()
    types, tokens = facts.by_type, facts.tokens or ()
    busy = {*tokens, *types.get("tool_call", ()), *types.get("message", ()), *found.places}
    return {
        at
        for at, place in enumerate(found.places)
        if place in work and work[place].places and busy.isdisjoint(work[place].places)
    }


def _beside(facts: Facts, found: Assignments) -> set[int]:
    """Assignments that overlap in time with another one of their parent."""
    groups: defaultdict[str | None, list[tuple[int, int, int]]] = defaultdict(list)
    for at, start, end in (*facts.share(lasting), *_lasting_of_others(facts, found)):
        groups[found.parents[at]].append((start, end, at))
    overlapping: set[int] = set()
    for group in groups.values():
        group.sort()
        longest, owner = group[0][1], group[0][2]
        for start, end, at in group[1:]:
            if start < longest:
                overlapping |= {at, owner}
            if end > longest:
                longest, owner = end, at
    return overlapping


def _lasting_of_others(facts: Facts, found: Assignments) -> list[tuple[int, int, int]]:
    """When work was given in traces of others, and when the last that came of it was over."""
    work, graph = facts.share(stretches), facts.graph
    return [
        (at, graph.begin[place], max([graph.finish[done] for done in work[place].places]))
        for at, place in enumerate(found.places if work else ())
        if place in work and work[place].places
    ]


def _repeated(facts: Facts, found: Assignments) -> set[int]:
    """Assignments whose brief an earlier one under the same parent had."""
    events = facts.events
    gave = [
        (events[found.places[at]], at)
        for at, brief in enumerate(facts.share(briefs))
        if brief is not None  # none has where content is off
    ]
    gave.sort(key=lambda one: (one[0].t, one[0].id))
    first: set[tuple[str | None, str | None]] = set()
    repeated: set[int] = set()
    for _, at in gave:
        said = found.parents[at], facts.share(briefs)[at]
        if said in first:
            repeated.add(at)
        first.add(said)
    return repeated
