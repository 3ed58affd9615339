"""Who was given work in a run, and how it went: what rewards of the orchestration count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.others import stretches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from orchtrace_otel.model import Event

_ASSIGNS: Final = frozenset({"spawn", "delegate"})
_FELL_SHORT: Final = frozenset({"error", "cancelled", "paused"})


class Assignments(NamedTuple):
    """Work that agents were given, by a spawn or a delegation: one column for each thing known.

    Attributes:
        places: Positions of the events that gave it.
        agents: Name of who got it; None where the trace does not tell.
        instances: Which life of that agent, or its name.
        activations: Stretch of work that came of it; None where none did.
        parents: Activation that it is inside of.
        opened: Position of that activation's opening.
        closed: Position of its closing, or of the agent's return.
        finished: Whether it came back, in time and without an error.
    """

    places: Sequence[int]
    agents: Sequence[str | None]
    instances: Sequence[str | None]
    activations: Sequence[str | None]
    parents: Sequence[str | None]
    opened: Sequence[int | None]
    closed: Sequence[int | None]
    finished: Sequence[bool]


_Row: TypeAlias = tuple[
    int, str | None, str | None, str | None, str | None, int | None, int | None, bool
]
"""One assignment, in the order of the columns."""


def assignments(facts: Facts) -> Assignments:
    """Everything that was assigned, in the order of events; ask it through `Facts.share`."""
    listed = _Reader(facts).read()
    columns = len(Assignments._fields)
    return Assignments(*[listed[column::columns] for column in range(columns)])


def lasting(facts: Facts) -> Sequence[tuple[int, int, int]]:
    """Which assignments, by number, began and ended, and when, in ns; ask it through `share`."""
    found, begin = facts.share(assignments), facts.graph.begin
    return [
        (number, begin[opened], begin[closed])
        for number, (opened, closed) in enumerate(zip(found.opened, found.closed, strict=True))
        if opened is not None and closed is not None
    ]


def briefs(facts: Facts) -> Sequence[str | None]:
    """The brief of each assignment, where content is captured; ask it through `Facts.share`."""
    events = facts.events
    return [
        brief if isinstance(brief := events[at].keys.get("content_ref"), str) else None
        for at in facts.share(assignments).places
    ]


def unwell(facts: Facts) -> Collection[int]:
    """Positions of what did not end as it should, or not in time; ask it through `Facts.share`."""
    events = facts.events
    return frozenset([at for at in facts.share(unsettled) if not closed_well(events[at])])


def unsettled(facts: Facts) -> Sequence[int]:
    """Positions of all whose status is not `ok`, or that say whether they were late; likewise."""
    return [
        at
        for at, event in enumerate(facts.events)
        if (keys := event.keys).get("status") != "ok" or "late" in keys
    ]


def closings(facts: Facts, kind: str) -> Mapping[int, int]:
    """What closes each opening, right for events of one type; others may be among them."""
    if "duplicate_ids" not in facts.graph.flags:
        return facts.closings
    events = facts.events
    closing = {events[at].id: at for at in facts.by_type.get(kind, ())}
    return {
        at: closing[event.id[:-5] + ".close"]
        for at, event in enumerate(events)
        if event.id[-5:] == ".open" and event.id[:-5] + ".close" in closing
    }


def closed_well(event: Event) -> bool:
    """Whether an interval's closing says that it ended as it should, and in time."""
    get = event.keys.get
    status = get("status")
    if status != "ok" and isinstance(status, str) and status in _FELL_SHORT:
        return False
    return not get("late")


def text(value: Any) -> str | None:
    """Return a key's value where it is a text, as names are; others may write what they like."""
    return value if isinstance(value, str) else None


class _Reader:
    """Finds for each spawn and each delegation the activation, and its end."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.types = facts.by_type
        self.returns = closings(facts, "return")
        self.unwell = facts.share(unwell)
        self.gone = self._despawned()

    def read(self) -> list[Any]:
        """The rows, one behind the other: lists of their own would be the garbage collector's."""
        events, closing = self.facts.events, self.returns
        unwell, gone = self.unwell, self.gone
        listed: list[Any] = []
        for place, opening in self._begun():
            if opening is None:
                listed += self._unopened(place)
                continue
            event = events[opening]
            name, keys = event.id[:-5], event.keys
            to, instance, parent = keys.get("to"), keys.get("instance"), keys.get("parent")
            if not to.__class__ is instance.__class__ is parent.__class__ is str:
                to = text(to) or text(events[place].keys.get("to"))
                instance, parent = text(instance) or to, text(parent)
            closed = closing.get(opening)
            if closed is not None and events[closed].type != "return":
                closed = None
            finished = closed is not None and closed not in unwell
            if gone and finished:
                finished = self._stayed(closed, instance)
            listed += place, to, instance, name, parent, opening, closed, finished
        return listed

    def _begun(self) -> Iterator[tuple[int, int | None]]:
        """Spawns and delegations, each with the opening that came of it."""
        events = self.facts.events
        opened_by = self._openings()
        for place in (*self.types.get("spawn", ()), *self.facts.delegations):
            is_opening = events[place].id[-5:] == ".open"
            yield place, place if is_opening else opened_by.pop(place, None)
        for opening in opened_by.values():  # a cause was lost; the work was not
            yield opening, opening

    def _openings(self) -> dict[int, int]:
        """Openings that follow a spawn or delegation of its own: by that one's position.

        An opening whose spawn is not known stands under its own position.
        """
        events, causes = self.facts.events, self.facts.graph.causes
        found: dict[int, int] = {}
        for place in self.types.get("message", ()):
            keys = events[place].keys
            if keys.get("verb") != "begin" or "parent" not in keys:
                continue
            givers = [
                cause
                for cause in causes[place]
                if text(events[cause].keys.get("verb")) in _ASSIGNS
                and not events[cause].id.endswith(".open")
                and cause not in found
            ]
            key = min(givers, key=lambda at: (events[at].t, events[at].id), default=place)
            found[key] = place
        return found

    def _unopened(self, place: int) -> _Row:
        event = self.facts.events[place]
        if place in self.facts.share(stretches):
            return self._of_others(place)
        to = text(event.keys.get("to"))
        return place, to, to, None, text(event.keys.get("activation")), None, None, False

    def _of_others(self, place: int) -> _Row:
        """Work given in a trace without activations: its agent's last return ends it."""
        facts = self.facts
        to, _, returns, gone = facts.share(stretches)[place]
        closed = returns[-1] if returns else None
        finished = (
            closed is not None
            and closed not in self.unwell
            and (gone is None or gone >= facts.graph.begin[closed])
        )
        return place, to, to, None, facts.events[place].agent, None, closed, finished

    def _stayed(self, closed: int | None, instance: str | None) -> bool:
        """Whether nobody had ended it from outside when it closed."""
        gone = self.gone.get(instance)
        return closed is None or gone is None or gone >= self.facts.graph.begin[closed]

    def _despawned(self) -> dict[str | None, int]:
        """When each instance was ended from outside."""
        facts = self.facts
        found: dict[str | None, int] = {}
        for place in self.types.get("despawn", ()):
            keys = facts.events[place].keys
            # `instance` is that of who despawns; whom it ends is in `to`.
            to, when = text(keys.get("to")), facts.graph.begin[place]
            found[to] = min(found.get(to, when), when)
        return found
