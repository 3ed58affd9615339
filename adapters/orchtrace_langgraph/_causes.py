"""Who wrote what: from the writes of a step to the causes of the tasks of the next.

The loop tells what ran and what it wrote; this is the bookkeeping, one object a run
of a graph. The rules follow the channels: an edge's channel holds the writers of the
step before, a barrier's and a deferred node's gather writers until they are consumed,
and Sends come in the order of their senders' paths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from orchtrace_langgraph._graphs import BRANCH
from orchtrace_otel.flow import Mark

if TYPE_CHECKING:
    from orchtrace_langgraph._tasks import Task

PULL: Final = "__pregel_pull"
PUSH: Final = "__pregel_push"
SENDS: Final = "__pregel_tasks"
END: Final = "__end__"
_MOST_GATHERED: Final = 10_000


class Writer(NamedTuple):
    """A task that wrote a channel, and the decision or hand-off by which it did, if any."""

    task: Task
    decision: Mark | None
    is_handoff: bool = False


Way: TypeAlias = str | int
"""By what a task leads to another: an edge's channel, or the identity of a packet."""

Write: TypeAlias = tuple[Way, str, Any]
"""One write: by what it leads on, its channel, and the value or the packet."""


def triggering(writes: Iterable[tuple[str, Any]], triggers: Mapping[str, Any]) -> list[Write]:
    """Return those of a task's writes that can trigger tasks, in their order; one a packet."""
    found: list[Write] = []
    for channel, value in writes:
        if channel == SENDS:
            many = isinstance(value, list)
            sends = cast("list[Any]", value) if many else [value]
            found += [(id(send), SENDS, send) for send in sends]
        elif channel in triggers:
            found.append((channel, channel, value))
    return found


def goal_of(write: Write) -> str | None:
    """Return the node that a write leads to, where it is a packet or an edge to one."""
    _, channel, value = write
    if channel == SENDS:
        return getattr(value, "node", None)
    return channel[len(BRANCH) :] if channel.startswith(BRANCH) else None


class Writers:
    """The writers of every channel that can trigger a task, as far as they still count.

    Args:
        first_only: The channels that gather writers, and whether only first ones count.
        channels: The host's channels as the run finds them. Who wrote a barrier before, in
            the run that left the checkpoint, is not known here, but who writes it again
            comes too late.
    """

    __slots__ = ("_first_only", "_gathered", "_sends", "_written")

    def __init__(self, first_only: Mapping[str, bool], channels: Mapping[str, Any]) -> None:
        self._first_only = first_only
        self._gathered: dict[str, dict[Any, Writer | None]] = {
            name: dict.fromkeys(seen)
            for name, is_barrier in first_only.items()
            if is_barrier and (seen := getattr(channels[name], "seen", None))
        }
        self._written: dict[str, list[Writer]] = {}
        self._sends: list[Writer] = []

    def begin_step(self, tasks: Any, channels: Mapping[str, Any]) -> None:
        """Forget what the tasks that ran have consumed, before their writes are added."""
        self._written = {}
        self._sends = []
        if not self._gathered:
            return
        for task in tasks:
            for channel in task.triggers:
                if channel in self._gathered and channels[channel].is_available():
                    del self._gathered[channel]

    def add(self, channel: str, value: Any, writer: Writer) -> None:
        """Add one write of the step; Sends in the order of their senders' paths."""
        if channel == SENDS:
            self._sends.append(writer)
            return
        first_only = self._first_only.get(channel)
        if first_only is None:
            self._written.setdefault(channel, []).append(writer)
            return
        gathered = self._gathered.setdefault(channel, {})
        key = value if first_only else len(gathered)
        if len(gathered) < _MOST_GATHERED:
            gathered.setdefault(key, writer)

    def sent(self, index: Any) -> list[Writer]:
        """Return who sent a packet of the step, by its number; none for that of a call."""
        known = isinstance(index, int) and index < len(self._sends)
        return [self._sends[index]] if known else []

    def of(self, task: Any, loop: Any) -> list[Writer]:
        """Return the writers that triggered a task of a node; empty for the run's input."""
        triggers = task.triggers
        found: list[Writer] = []
        for channel in triggers if len(triggers) == 1 else _fired(task, loop):
            if channel in self._gathered:
                found += filter(None, self._gathered[channel].values())
            else:
                found += self._written.get(channel, ())
        return found

    def waiting(self) -> list[Writer]:
        """Return the writers that a barrier or a deferred node still waits with."""
        return [w for gathered in self._gathered.values() for w in gathered.values() if w]


def _fired(task: Any, loop: Any) -> Any:
    """Return which of a task's several triggers fired: the test that the scheduler made.

    Until the step's writes are applied `versions_seen` is as the scheduler saw it.
    """
    channels = loop.channels
    versions = loop.checkpoint["channel_versions"]
    seen: Any = loop.checkpoint["versions_seen"].get(task.name) or {}
    return [
        channel
        for channel in task.triggers
        if channel in versions
        and channels[channel].is_available()
        and (channel not in seen or versions[channel] > seen[channel])
    ]


def in_order(tasks: Collection[Any]) -> list[Any]:
    """Return the tasks of a step in the order in which the loop applies their writes.

    It says which Send is whose, and who came first at a barrier.
    """
    shapes: set[tuple[int, type[Any]]] = {(len(task.path), type(task.path[1])) for task in tasks}
    return sorted(tasks, key=_BY_PATH if shapes <= _PLAIN else _by_path_key)


_PLAIN: Final = {(2, str), (3, int)}
"""Paths of nodes and of packets, which are in order as they are; those of calls are not."""

_BY_PATH: Final = attrgetter("path")


def _by_path_key(task: Any) -> str:
    return path_key(task.path[:3])


def path_key(path: Any) -> str:
    """Return the key by which LangGraph orders the writes of a step: tasks by path."""
    if isinstance(path, str):
        return path
    if isinstance(path, int):
        return f"{path:010d}"
    return "~" + ", ".join(path_key(part) for part in path)
