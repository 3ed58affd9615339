"""Work that agents were given in traces of others, which have no activations.

What came of a spawn or a delegation is what its agent did from then on: what follows from
it at once, or from something that the agent did because of it; else what the agent did while
it was the first that had not come back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from orchtrace_otel.rewards.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchtrace_otel.model import Event


class Stretch(NamedTuple):
    """What came of one assignment.

    Attributes:
        agent: Name of who got it; None where the trace does not tell.
        places: Positions of what that agent did because of it, in order of time.
        returns: Those among them at which it came back.
        gone: When it was ended from outside, in ns; None where it was not.
    """

    agent: str | None
    places: Sequence[int]
    returns: Sequence[int]
    gone: int | None


def is_of_others(event: Event) -> bool:
    """Whether an event comes without the activation that each of ours names."""
    return event.id[-5:] != ".open" and "activation" not in event.keys


def stretches(facts: Facts) -> Mapping[int, Stretch]:
    """What came of each assignment of others, by its position; ask it through `Facts.share`."""
    events = facts.events
    is_whole = facts.share(opens_any)
    given = [
        at
        for at in (*facts.by_type.get("spawn", ()), *facts.delegations)
        if not is_whole or is_of_others(events[at])
    ]
    return _Follower(facts, given).follow() if given else {}


def opens_any(facts: Facts) -> bool:
    """Whether an activation, or a tool call, is seen to begin; ask it through `Facts.share`.

    Of others who only name activations nobody knows what belongs to them.
    """
    return any(event.id[-5:] == ".open" for event in facts.events)


class _Follower:
    """Goes through the events of a trace once, in order of time."""

    def __init__(self, facts: Facts, given: Sequence[int]) -> None:
        self.facts = facts
        self.agents = {at: _given_to(facts, at) for at in given}
        self.done: dict[int, list[int]] = {at: [] for at in given}
        self.gone: dict[int, int] = {}
        self.whose: dict[int, int] = {}
        """The assignment because of which its agent did something, by position."""
        self.waiting: dict[str, OrderedDict[int, int]] = {}
        """Assignments of each agent that have not come back, in order, with their number."""
        self.back: Counter[str] = Counter()
        """How many lives of an agent came back, and were not ended since."""
        self.latest: dict[str, int] = {}

    def follow(self) -> Mapping[int, Stretch]:
        """What came of each assignment, by its position."""
        events = self.facts.events
        for number, place in enumerate(_in_order(self.facts, self.agents)):
            event = events[place]
            if event.type == "despawn":
                self._end(event.keys.get("to", event.agent), place)
            if event.agent in self.latest:
                self._do(place, event)
            if (agent := self.agents.get(place)) is not None:
                self._give(agent, place, number)
        return {at: self._stretch(at) for at in self.done}

    def _give(self, agent: str, place: int, number: int) -> None:
        waiting = self.waiting.setdefault(agent, OrderedDict())
        if not waiting:
            self.back[agent] = 0  # a life of its own, whatever became of the one before
        waiting[place] = number
        self.latest[agent] = place

    def _do(self, place: int, event: Event) -> None:
        waiting = self.waiting[event.agent]
        led = [at for at in map(self._led_by, self.facts.graph.causes[place]) if at in waiting]
        if led:
            owner = max(led, key=waiting.__getitem__)
        else:
            owner = next(iter(waiting)) if waiting else self.latest[event.agent]
        self.whose[place] = owner
        self.done[owner].append(place)
        if event.type == "return" and waiting.pop(owner, None) is not None:
            self.back[event.agent] += 1

    def _led_by(self, cause: int) -> int:
        """The assignment that a cause is, or because of which its agent did it; else -1."""
        return cause if cause in self.done else self.whose.get(cause, -1)

    def _end(self, agent: object, place: int) -> None:
        if not isinstance(agent, str) or agent not in self.waiting:
            return
        if self.back[agent]:
            self.back[agent] -= 1  # one that was done; others of its name go on
            return
        waiting = self.waiting[agent]
        self.gone |= dict.fromkeys(waiting, self.facts.graph.begin[place])
        waiting.clear()

    def _stretch(self, at: int) -> Stretch:
        events, places = self.facts.events, self.done[at]
        returns = [place for place in places if events[place].type == "return"]
        return Stretch(self.agents[at], places, returns, self.gone.get(at))


def _given_to(facts: Facts, place: int) -> str | None:
    """Who was given work: whom the event names, else the first other agent that followed it."""
    events = facts.events
    giver = events[place]
    to = giver.keys.get("to")
    if isinstance(to, str):
        return to
    led = [events[at] for at in facts.effects[place] if events[at].agent != giver.agent]
    first = min(led, key=lambda event: (event.t, event.id), default=None)
    return None if first is None else first.agent


def _in_order(facts: Facts, given: Mapping[int, object]) -> Sequence[int]:
    """Positions in order of time; of one moment lives end first, then work is given, then done."""
    graph, events, depths = facts.graph, facts.events, facts.depths
    kinds = [0 if event.type == "despawn" else 2 for event in events]
    for place in given:
        kinds[place] = 1
    return sorted(
        range(len(events)),
        key=lambda at: (graph.begin[at], kinds[at], depths[at], events[at].id),
    )
