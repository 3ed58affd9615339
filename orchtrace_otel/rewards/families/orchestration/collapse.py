"""How orchestrators game a reward for parallelism: working in turn, or for show."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

from orchtrace_otel.rewards.component import component
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families.assignments import Assignment, assignments, text
from orchtrace_otel.rewards.families.orchestration.lineage import sibling_pairs
from orchtrace_otel.rewards.families.orchestration.parallel import peak_of_agents

if TYPE_CHECKING:
    from collections.abc import Sequence


@component(family="R7", unit="orchestrator", range=(-1, 0), inputs=("spawn", "delegate", "edges"))
def serial_collapse(facts: Facts) -> float | None:
    """-1 where work that did not depend on each other was done one after the other, else 0.

    That is: two assignments under one parent without a path between them, while never
    more than one sub-agent worked. Absent where times or causes are unknown.
    """
    if not facts.is_timed:
        return None
    if facts.share(peak_of_agents) > 1:
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
    found = facts.share(assignments)
    if not found:
        return 0.0
    return -len(why_spurious(facts)) / len(found)


def why_spurious(facts: Facts) -> dict[int, str]:
    """Which assignments, by number, were for show, and why."""
    found = facts.share(assignments)
    reasons = dict.fromkeys(_repeated(facts, found), "has an earlier one's brief")
    reasons |= dict.fromkeys(_idle(facts, found), "did nothing")
    useful = facts.useful
    for at in [at for at, one in enumerate(found) if one.closed not in useful]:
        if not _led(facts, found[at]):
            reasons[at] = "led to no answer"
    return reasons


def _led(facts: Facts, one: Assignment) -> bool:
    """Whether what came of it led to the answer, where no end says so: anything its agent did."""
    if one.closed is not None or one.opened is not None or one.agent is None:
        return False
    return one.agent in facts.share(_useful_agents)


def _useful_agents(facts: Facts) -> set[str]:
    return {facts.events[place].agent for place in facts.useful}


def _idle(facts: Facts, found: Sequence[Assignment]) -> set[int]:
    """Assignments that ran beside others of their parent and were not seen to do anything."""
    tokens = facts.tokens
    if not tokens or not facts.is_timed:
        return set()
    events, types = facts.events, facts.by_type
    busy: set[str | None] = {one.parent for one in found}
    for place in (*tokens, *types.get("tool_call", ()), *types.get("message", ())):
        keys = events[place].keys
        if keys.get("verb") != "begin":
            busy.add(text(keys.get("activation")))
    silent = [
        at
        for at, one in enumerate(found)
        if one.activation is not None and one.closed is not None and one.activation not in busy
    ]
    return set(silent) & _beside(facts, found) if silent else set()


def _beside(facts: Facts, found: Sequence[Assignment]) -> set[int]:
    """Assignments that overlap in time with another one of their parent."""
    begin = facts.graph.begin
    groups: defaultdict[str | None, list[tuple[int, int, int]]] = defaultdict(list)
    for at, one in enumerate(found):
        if one.opened is not None and one.closed is not None:
            groups[one.parent].append((begin[one.opened], begin[one.closed], at))
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


def _repeated(facts: Facts, found: Sequence[Assignment]) -> set[int]:
    """Assignments whose brief an earlier one under the same parent had."""
    events = facts.events
    gave = [(events[one.place], one.parent, at) for at, one in enumerate(found)]
    briefs = [
        (event.t, event.id, text(event.keys["content_ref"]), parent, at)
        for event, parent, at in gave
        if "content_ref" in event.keys  # none has where content is off
    ]
    first: set[tuple[str | None, str]] = set()
    repeated: set[int] = set()
    for _, _, brief, parent, at in sorted(briefs, key=itemgetter(0, 1)):
        if brief is not None:
            if (parent, brief) in first:
                repeated.add(at)
            first.add((parent, brief))
    return repeated
