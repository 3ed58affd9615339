"""Who can be taken out of a run: messages by slot, and agents, roles and the like by name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchtrace_otel.model import Event, Trace


class Slot(NamedTuple):
    """A message by its place: the same in a replay, where ids and times differ.

    Attributes:
        sender: Agent that sent it.
        receiver: Agent that it went to.
        ordinal: The how manyeth from this sender to this receiver in the run, from 1 on.
    """

    sender: str
    receiver: str
    ordinal: int


class Part(NamedTuple):
    """Any other part of a team: one of `PARTS`, and its name."""

    kind: str
    name: str


PARTS: Final = ("agent", "role", "capacity", "dependency")
"""What can be removed or edited beside messages; `capacity` and `dependency` are names that
the host's team knows, such as `writer.model` or `writer<-critic`."""

Player: TypeAlias = Slot | Part


def find_slots(trace: Trace) -> dict[Slot, str]:
    """Return the messages of a trace: slot to event id, in order of time.

    A message is an event whose verb is `message`, or one of type `message` in traces of
    others; the begin of a run is none. One that does not say where it went is left out.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> facts = {"from": "scout", "to": "lead"}
        >>> events = (Event("e1", 0, "message", "scout", facts),
        ...           Event("e2", 1, "message", "scout", facts))
        >>> find_slots(Trace("run", "task", events))[Slot("scout", "lead", 2)]
        'e2'
    """
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[Slot, str] = {}
    for event in sorted(trace.events, key=_when):
        receiver = event.get("to")
        if event.verb != "message" or not isinstance(receiver, str):
            continue
        pair = (str(event.get("from", event.agent)), receiver)
        counts[pair] += 1
        found[Slot(*pair, counts[pair])] = event.id
    return found


class Read(NamedTuple):
    """What an agent wrote to a state it shares with others, as one of them read it.

    Attributes:
        src: Id of the event that closed the writer's work.
        dst: Id of the event that opened the reader's.
    """

    src: str
    dst: str


def find_reads(trace: Trace) -> dict[Slot, Read]:
    """Return the messages of a trace that go through a shared state: slot to its two ends.

    They are `message` edges from the close of who wrote to the opening of who read, and
    no events of their own: a team that shares a state addresses nobody. Ordinals count
    the writer's instances first, then time; what is tried again has read once.

    Example:
        >>> from orchtrace_otel.model import Edge, Event, Trace
        >>> events = (Event("w.close", 1, "return", "scout", {"verb": "return"}),
        ...           Event("r.open", 2, "spawn", "lead", {"verb": "spawn", "to": "cook"}))
        >>> find_reads(Trace("run", "task", events, (Edge("w.close", "r.open", "message"),)))
        {Slot(sender='scout', receiver='cook', ordinal=1): Read(src='w.close', dst='r.open')}
    """
    events = {event.id: event for event in trace.events}
    found: list[tuple[Event, Event]] = []
    for edge in trace.edges:
        if edge.type == "message" and edge.dst.endswith(".open"):
            src, dst = events.get(edge.src), events.get(edge.dst)
            if src is None or dst is None or src.verb != "return":
                continue
            if dst.get("attempt", 1) == 1:  # another try reads the same once more
                found.append((src, dst))
    found.sort(key=lambda ends: (*_life(ends[0]), *_life(ends[1])))
    counts: Counter[tuple[str, str]] = Counter()
    slots: dict[Slot, Read] = {}
    for src, dst in found:
        pair = (src.agent, str(dst.get("to", dst.agent)))
        counts[pair] += 1
        slots[Slot(*pair, counts[pair])] = Read(src.id, dst.id)
    return slots


def _life(event: Event) -> tuple[int, float, str]:
    """Return what orders events by their agents' instances, which count, then by time."""
    number = str(event.get("instance", "")).rpartition("#")[2]
    return (int(number) if number.isdecimal() else 0, *_when(event))


def _when(event: Event) -> tuple[float, str]:
    return (event.t, event.id)


def describe(player: Player) -> str:
    """Name a player for people.

    Example:
        >>> describe(Slot("scout", "lead", 2)), describe(Part("agent", "critic"))
        ('scout -> lead #2', 'agent critic')
    """
    if isinstance(player, Slot):
        return f"{player.sender} -> {player.receiver} #{player.ordinal}"
    return f"{player.kind} {player.name}"


def agents_of(trace: Trace) -> Sequence[Part]:
    """Return the agents that worked in a trace, in order of first activation, tools and user aside.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> closed = Event("a.close", 1, "return", "critic", {"verb": "return"})
        >>> agents_of(Trace("run", "task", (closed,)))
        [Part(kind='agent', name='critic')]
    """
    names: dict[str, None] = {}
    for event in sorted(trace.events, key=_when):
        opened = event.get("to") if event.id.endswith(".open") and "parent" in event.keys else None
        name = (
            opened if isinstance(opened, str) else event.agent if event.verb == "return" else None
        )
        if name is not None:
            names.setdefault(name)
    return [Part("agent", name) for name in names]
