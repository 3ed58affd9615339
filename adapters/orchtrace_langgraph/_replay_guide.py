"""What each task of a replay does: what it did, nothing, something else, or its node's code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from orchtrace_langgraph._causes import PUSH
from orchtrace_langgraph._framework import COMMAND, find, is_a
from orchtrace_langgraph._graphs import BRANCH
from orchtrace_langgraph._replay_edits import (
    Messages,
    added,
    edited,
    hides,
    instead_of,
    messages_in,
)
from orchtrace_langgraph._replay_history import History, follow
from orchtrace_langgraph._replay_nodes import READ, Turn
from orchtrace_langgraph._replay_record import Facts, Record, Work
from orchtrace_otel.errors import ReplayBlockedError
from orchtrace_otel.replay import Change, Part, Player, Slot

if TYPE_CHECKING:
    from orchtrace_langgraph._replay_history import Reads
    from orchtrace_langgraph._replay_record import Key, Path

ARROW: Final = "<-"
"""Between reader and writer in the name of a dependency."""


class _Hidden(NamedTuple):
    """A work that a node reads otherwise, from a channel to the updates that it finds there.

    Since a step: what is sent to the node, and runs in that step beside it, finds all as it was.
    """

    work: Work
    instead: Callable[[str], list[Any] | None]
    since: int
    adds: frozenset[str] = frozenset()
    """Channels that the work did not write, and that are written instead."""

    @property
    def channels(self) -> frozenset[str]:
        """The channels that hold something else."""
        return self.adds.union(name for name, _ in self.work.writes)


class Replay:
    """What the tasks of one replay do.

    Args:
        facts: What the graph says.
        record: The recorded run.
        change: What is otherwise.
        roles: Role of each node that has one.
        reads: Who read what in the record, by step.

    Attributes:
        fork: The first step in which something is otherwise; None where nothing is.
        last: The last step in which no node is called that reads something otherwise.
        history: What happened so far.
    """

    def __init__(
        self,
        facts: Facts,
        record: Record,
        change: Change,
        roles: Mapping[str, str | None],
        reads: Mapping[int, list[Reads]],
    ) -> None:
        self._facts = facts
        self._record = record
        self._change = change
        self._roles = roles
        self._lock = threading.Lock()
        self._hidden: dict[str, list[_Hidden]] = {}
        self._turns: dict[Key, Turn] = {}
        self.history = History(facts, record)
        self.fork, self.last = self._find_fork(reads)
        self._first = max(record.works) + 1 if self.fork is None else self.fork
        follow(self.history, record, self._first)

    def _find_fork(self, reads: Mapping[int, list[Reads]]) -> tuple[int | None, int]:
        """Return the first step in which something is otherwise, and the last that is as it was.

        That is the same where who is touched says nothing, or what it said.
        """
        touched = self._change.touched
        for step in sorted(reads):
            there = [one for one in reads[step] if not self._facts.is_hidden(one.work.node)]
            read: set[Player] = {slot for one in there for slot, _ in one.slots}
            for one in there:
                read |= self._dependencies(one.slots)
            if read & touched:
                return step, step - 1
            if any(self._own(one) & touched for one in there):
                return step, step
        return None, max(reads, default=0)

    def _own(self, one: Reads) -> set[Player]:
        """Return what a task is a part of."""
        parts = self._parts(one.work.node)
        if one.packet is not None:
            parts.add(Part("capacity", self._facts.agent(one.work.node)))
        return parts

    def begin(self, node: str, given: Any, config: Mapping[str, Any]) -> Turn:
        """Say what a task does; see `Guide`."""
        told = config["metadata"]
        step, path = told["langgraph_step"], tuple(told["langgraph_path"])[:2]
        if path[0] == PUSH and not isinstance(path[1], int):
            msg = "a graph of the functional API cannot be replayed: its tasks are called by code"
            raise ReplayBlockedError(msg)
        with self._lock:
            known = self._turns.get((step, node, path))
            if known is not None:  # a try that failed is followed by another one
                return known
            self.history.open(step)
            slots = self.history.read(node, path)
            turn = self._turn(node, step, path, given, slots, config)
            self._turns[step, node, path] = turn
            return turn

    def end(self, turn: Turn, writes: list[tuple[str, Any]]) -> None:
        """Take in what a task wrote; see `Guide`."""
        node, step, path, is_changed = turn.key
        with self._lock:
            self.history.add(Work(step, node, path, writes, is_changed))

    def _turn(  # noqa: PLR0913 - what is known of a task
        self,
        node: str,
        step: int,
        path: Path,
        given: Any,
        slots: list[tuple[Slot, Work]],
        config: Mapping[str, Any],
    ) -> Turn:
        change, parts = self._change, self._parts(node)
        key = (node, step, path, True)
        is_sent = self.history.packet(path) is not None
        if not is_sent:
            self._hide(node, step, slots)
        if parts & change.without or self._is_beyond(node, path):
            says = self._going_on(node, step, path, None)
            return self._masked(Turn(key, given, says=says), config)
        for part in parts & change.edits.keys():
            says = self._going_on(node, step, path, change.edits[part])
            return self._masked(Turn(key, given, says=says), config)
        unread = self._dependencies(slots)
        touched = ({slot for slot, _ in slots} | unread) & change.touched
        if is_sent:
            if touched & change.without:
                return Turn(key, given, says=self._going_on(node, step, path, None))
            for player in touched & change.edits.keys():
                return Turn(key, change.edits[player])
        is_other = touched or self._reads_otherwise(node, step, path)
        recorded = None if is_other else self.history.recorded(node, path)
        if recorded is not None:
            is_changed = bool(self._kept(node, path) & change.anew)
            return Turn((node, step, path, is_changed), given, writes=recorded.writes)
        return self._masked(Turn(key, given), config)

    def _parts(self, node: str) -> set[Player]:
        role = self._roles.get(node)
        parts: set[Player] = {Part("agent", self._facts.agent(node))}
        return parts if role is None else parts | {Part("role", role)}

    def _kept(self, node: str, path: Path) -> set[Player]:
        """Return what a task is part of that may be thrown anew."""
        if self.history.packet(path) is None:
            return self._parts(node)
        return self._parts(node) | {Part("capacity", self._facts.agent(node))}

    @staticmethod
    def _dependencies(slots: list[tuple[Slot, Work]]) -> set[Player]:
        return {Part("dependency", f"{s.receiver}{ARROW}{s.sender}") for s, _ in slots}

    def _is_beyond(self, node: str, path: Path) -> bool:
        """Whether a packet is one more than the capacity that is left."""
        if self.history.packet(path) is None:
            return False
        capacity = Part("capacity", self._facts.agent(node))
        if capacity in self._change.without:
            return True
        most = self._change.edits.get(capacity)
        return most is not None and self.history.rank(path) >= int(most)

    def _going_on(self, node: str, step: int, path: Path, edit: Any) -> Callable[[Any], Any]:
        """Return what a node returns that says something else, or with None nothing.

        Where it went by a command it goes again, unless the edit itself is one.
        """
        says = instead_of(edit)
        went = self._went(node, step, path)
        if not went:
            return says

        def say_and_go(given: Any) -> Any:
            said = says(given)
            is_told = is_a(said, COMMAND)
            return said if is_told else find(COMMAND)(update=said, goto=went)

        return say_and_go

    def _went(self, node: str, step: int, path: Path) -> list[str]:
        """Return where a node went by a command in the record, then or when it first ran."""
        if self._facts.routes(node):
            return []
        before = self._record.find(step, node, path) or next(
            (w for works in self._record.works.values() for w in works if w.node == node), None
        )
        drawn = self._facts.drawn(node)
        return [
            channel.removeprefix(BRANCH)
            for channel, _ in (before.writes if before is not None else ())
            if channel.startswith(BRANCH) and channel not in drawn
        ]

    def _hide(self, node: str, step: int, slots: list[tuple[Slot, Work]]) -> None:
        """Remember what a node must not read, or reads otherwise, from now on."""
        for slot, work in slots:
            players: set[Player] = {slot, *self._dependencies([(slot, work)])}
            for player in players & self._change.without:
                self._hidden.setdefault(node, []).append(_Hidden(work, hides, step))
                del player
            for player in players & self._change.edits.keys():
                edit = self._change.edits[player]
                new = edited(work.writes, edit, self._facts.keeps)
                adds = added(work.writes, edit)
                self._hidden.setdefault(node, []).append(_Hidden(work, new, step, adds))

    def _hidden_from(self, node: str, step: int, *, is_sent: bool) -> list[_Hidden]:
        return [one for one in self._hidden.get(node, ()) if one.since < step or not is_sent]

    def _reads_otherwise(self, node: str, step: int, path: Path) -> bool:
        """Whether what a node must not read is in the state that it, or its router, finds."""
        is_sent = self.history.packet(path) is not None
        if is_sent and not self._facts.routes(node):
            return False
        hidden = self._hidden_from(node, step, is_sent=is_sent)
        return any(one.adds or self.history.is_held(one.work, node) for one in hidden)

    def _masked(self, turn: Turn, config: Mapping[str, Any]) -> Turn:
        """Return a turn in which a node reads the state without what is hidden from it."""
        node, step, path, _ = turn.key
        is_sent = self.history.packet(path) is not None
        hidden = self._hidden_from(node, step, is_sent=is_sent)
        if not hidden:
            return turn
        names = {name for one in hidden for name in one.channels} & self._facts.keeps.keys()
        since = min(self._first, *(one.work.step for one in hidden))
        others = {n: self.history.channel(n, _hide_in(hidden, n), since) for n in names}
        unmasked = config["configurable"][READ]
        read = _reader(unmasked, others)
        turn = turn._replace(read=read, foreign=self._foreign(unmasked, others))
        if is_sent:
            return turn  # what it works on is its packet; its routers read the state
        host = self._facts.nodes[node]
        given = read((), host.channels)
        return turn._replace(given=host.mapper(given) if host.mapper else given)

    def _foreign(self, read: Callable[..., Any], others: Mapping[str, Any]) -> dict[str, Messages]:
        """Return the messages that only this node finds; it is not to hand them on to others."""
        names = [name for name in others if self._facts.keeps[name] and others[name].is_available()]
        there = read(names, False)  # noqa: FBT003 - LangGraph's signature
        found = {
            name: messages_in([others[name].get()], messages_in([there.get(name)], {}))
            for name in names
        }
        return {name: messages for name, messages in found.items() if messages}


def _reader(read: Callable[..., Any], others: Mapping[str, Any]) -> Callable[..., Any]:
    """Return how the state is read where some channels are others: see `Turn.read`."""

    def read_masked(own: Sequence[tuple[str, Any]], select: Any, fresh: bool = False) -> Any:  # noqa: FBT001, FBT002 - LangGraph's signature
        is_one = isinstance(select, str)
        masked = {
            name: _after(others[name], name, own) if fresh else others[name]
            for name in ({select} if is_one else {*select}) & others.keys()
        }
        if is_one and not masked:
            return read(select, fresh)
        there = {name: one.get() for name, one in masked.items() if one.is_available()}
        if is_one:
            return there.get(select)
        values: dict[str, Any] = {**read(select, fresh)}
        return {name: value for name, value in values.items() if name not in masked} | there

    return read_masked


def _after(channel: Any, name: str, own: Sequence[tuple[str, Any]]) -> Any:
    """Return a channel as a task finds it that reads what it wrote itself, as its routers do."""
    found = channel.copy()
    found.update([value for written, value in own if written == name])
    return found


def _hide_in(hidden: list[_Hidden], channel: str) -> Callable[[Work], list[Any] | None]:
    def instead(work: Work) -> list[Any] | None:
        found = (one for one in hidden if one.work.key == work.key)
        return next((one.instead(channel) for one in found), None)

    return instead
