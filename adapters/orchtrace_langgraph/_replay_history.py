"""What happened so far in a replay: who wrote what, who read it, and what has changed by then.

The same bookkeeping reads the record and follows a replay, so that a message has the
same slot in both. A task is *downstream* where a channel that it reads, or that called
it up, was written by one that changed; or is not written any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orchtrace_langgraph._causes import PUSH
from orchtrace_langgraph._graphs import BRANCH
from orchtrace_langgraph._replay_edits import Messages, messages_in, without
from orchtrace_langgraph._replay_record import Facts, Key, Packet, Path, Record, Work, sends
from orchtrace_langgraph._state import replaces
from orchtrace_otel.replay import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_PASSING: Final = (BRANCH, "__pregel_", "__start__")
"""Channels whose values are gone after the next step."""


class History:
    """Works of one run, step by step.

    Args:
        facts: What the graph says.
        record: The recorded run, which says what is not done any more.
    """

    def __init__(self, facts: Facts, record: Record) -> None:
        self._facts = facts
        self._record = record
        self._works: defaultdict[int, list[Work]] = defaultdict(list)
        self._written: dict[str, list[Work]] = {}
        self._since: dict[str, int] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._changed: set[str] = set()
        self._sends: list[Packet] = []
        self._sent: list[list[tuple[Slot, Work]]] = []
        self._step = min(record.works)

    def open(self, step: int) -> None:
        """Take in what the steps before `step` wrote; do so before asking of its tasks."""
        while self._step < step:
            works = sorted(self._works[self._step], key=lambda work: work.order)
            for work in works:
                self._wrote(work)
            self._change(works)
            self._sends = sends(works)
            # All at once: the tasks of one step begin in threads, in no order.
            self._sent = [self._slots([one.sender], one.send.node) for one in self._sends]
            self._step += 1

    def add(self, work: Work) -> None:
        """Note what a task did."""
        self._works[work.step].append(work)

    def packet(self, path: Path) -> Packet | None:
        """Return who sent the packet that a task works on, the how manyeth, and it."""
        if path[0] != PUSH or not isinstance(path[1], int):
            return None
        return self._sends[path[1]] if path[1] < len(self._sends) else None

    def rank(self, path: Path) -> int:
        """Return the how manyeth a packet is of those to the same node in its step."""
        nodes: list[Any] = [packet.send.node for packet in self._sends[: path[1] + 1]]
        return nodes.count(nodes[-1]) - 1

    def read(self, node: str, path: Path) -> list[tuple[Slot, Work]]:
        """Return the messages that a task reads as news: their slots, and who wrote them.

        To be asked once for each task of a step. Packets count before what is read from state.
        """
        if self.packet(path) is not None:
            place: int = path[1]
            return self._sent[place]
        return self._slots(self._news(node), node)

    def _slots(self, writers: Iterable[Work], node: str) -> list[tuple[Slot, Work]]:
        receiver = self._facts.agent(node)
        found: list[tuple[Slot, Work]] = []
        for work in writers:
            if not self._facts.is_hidden(work.node):
                pair = (self._facts.agent(work.node), receiver)
                self._counts[pair] += 1
                found.append((Slot(*pair, self._counts[pair]), work))
        return found

    def recorded(self, node: str, path: Path) -> Work | None:
        """Return what a task did in the record, where nothing that leads to it has changed."""
        sent = self.packet(path)
        if self._changed & self._facts.reads(node, is_sent=sent is not None):
            return None
        if sent is not None:
            return None if sent.sender.is_changed else self._same_packet(node, sent)
        if self._changed & {*self._facts.nodes[node].triggers}:
            return None
        return self._record.find(self._step, node, path)

    def is_held(self, work: Work, node: str) -> bool:
        """Return whether what a task wrote is part of what a node, or its router, reads now."""
        read = self._facts.reads(node)
        return any(one is work for name in read for one in self._written.get(name, ()))

    def channel(self, name: str, hide: Callable[[Work], list[Any] | None], since: int) -> Any:
        """Return a channel as if some had not written it, or something else.

        Nor had those who only handed on what these wrote.

        Args:
            name: One of the state.
            hide: From a work to what it wrote instead: the updates of the channel, or None
                for those that it wrote.
            since: A step of the record, or the first after it, before which all is as it was.
        """
        held = self._record.checkpoints[since - 1].checkpoint["channel_values"]
        host = self._facts.channels[name]
        was, now = (
            host.from_checkpoint(held[name]) if name in held else host.copy() for _ in range(2)
        )
        hidden: Messages = {}
        for step in sorted(s for s in self._works if since <= s < self._step):
            wrote: list[Any] = []
            updates: list[Any] = []
            for work in sorted(self._works[step], key=lambda one: one.order):
                own = [value for written, value in work.writes if written == name]
                wrote += own
                instead = hide(work)
                if instead is None:
                    updates += [without(value, hidden) for value in own]
                elif self._facts.keeps[name]:
                    hidden |= messages_in(own, messages_in(_values(was), {}))
                    updates += instead
                else:
                    updates += instead
            if updates:
                now.update(updates)
            if wrote:
                was.update(wrote)
        return now

    def _news(self, node: str) -> list[Work]:
        since = self._since.get(node, self._step)
        first = node not in self._since
        self._since[node] = self._step
        channels: Any = self._facts.nodes[node].channels
        found: list[Work] = []
        for channel in (channels,) if isinstance(channels, str) else channels:
            for work in self._written.get(channel, []):
                is_new = first or work.step >= since
                if is_new and work.life != node and work not in found:
                    found.append(work)
        return sorted(found, key=lambda work: (work.step, work.order))

    def _wrote(self, work: Work) -> None:
        if self._facts.is_hidden(work.node):
            return
        for channel, value in work.writes:
            keeps = self._facts.keeps.get(channel)
            if keeps is None:
                continue
            known = self._written.setdefault(channel, [])
            if (not keeps and known and known[-1].step != work.step) or replaces(value):
                known.clear()
            known.append(work)

    def _change(self, works: Iterable[Work]) -> None:
        """Note which channels hold something else than they did in the record."""
        self._changed = {one for one in self._changed if not one.startswith(_PASSING)}
        changed: dict[str, bool] = {}
        same: set[Key] = set()
        for work in works:
            if not work.is_changed:
                same.add(work.key)
            _spread(changed, work.writes, is_changed=work.is_changed)
        for before in self._record.works.get(self._step, ()):
            if before.key not in same:
                _spread(changed, before.writes, is_changed=True)
        for channel, is_changed in changed.items():
            if is_changed:
                self._changed.add(channel)
            elif self._facts.keeps.get(channel) is False:
                self._changed.discard(channel)

    def _same_packet(self, node: str, packet: Packet) -> Work | None:
        before = sends(self._record.works.get(self._step - 1, ()))
        for at, (sender, nth, _) in enumerate(before):
            if sender.key == packet.sender.key and nth == packet.nth:
                return self._record.find(self._step, node, (PUSH, at))
        return None


def _spread(
    changed: dict[str, bool], writes: Iterable[tuple[str, Any]], *, is_changed: bool
) -> None:
    for channel, _ in writes:
        changed[channel] = changed.get(channel, False) or is_changed


def _values(channel: Any) -> tuple[Any, ...]:
    return (channel.get(),) if channel.is_available() else ()


class Reads(NamedTuple):
    """What a task of the record read.

    Attributes:
        work: What it did.
        packet: What it was sent, where it was.
        slots: The messages that it read as news.
    """

    work: Work
    packet: Packet | None
    slots: list[tuple[Slot, Work]]


def follow(history: History, record: Record, until: int) -> Mapping[int, list[Reads]]:
    """Let a history take in the steps of a record before `until`; return who read what."""
    found: dict[int, list[Reads]] = {}
    for step in sorted(record.works):
        if step >= until:
            break
        history.open(step)
        found[step] = [
            Reads(work, history.packet(work.path), history.read(work.node, work.path))
            for work in record.works[step]
        ]
        for work in record.works[step]:
            history.add(work)
    history.open(until)
    return found
