"""A run as its checkpoints tell it: the tasks of each step, what each wrote, what each read.

Checkpoints are only read, once, and copied; the user's saver is never written to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from orchtrace_langgraph import _graphs
from orchtrace_langgraph._causes import PUSH, SENDS, path_key
from orchtrace_langgraph._framework import find
from orchtrace_langgraph._replay_barriers import with_names
from orchtrace_langgraph._replay_deltas import delta_channels, with_values
from orchtrace_langgraph._replay_topics import with_topics
from orchtrace_otel.errors import ConfigError

Path: TypeAlias = tuple[Any, ...]
Key: TypeAlias = tuple[int, str, Path]

_HANDLED: Final = "__error_source_node__"
"""Channel that a task writes whose error a handler takes over."""

_SPECIAL: Final = frozenset(
    (
        "__error__",
        _HANDLED,
        "__interrupt__",
        "__no_writes__",
        "__resume__",
        "__return__",
        "__scheduled__",
    )
)
"""Channels that hold no state: how a task ended, not what it wrote."""

THREAD: Final = "replay"
"""The one thread of a scratch saver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A graph and where its recorded run is, for `orchtrace.counterfactual`.

    A compiled graph alone is enough where it names its thread,
    `graph.with_config(configurable={"thread_id": "7"})`.

    Attributes:
        graph: The compiled graph, with the saver that it ran with.
        thread_id: The thread of the run.
        checkpoint_id: The last checkpoint of the run; the thread's last unless given.
        context: What the graph is given as `context`, which no checkpoint holds.
        is_async: Whether to run it by `ainvoke`; where some node is a coroutine function
            alone, unless given.
    """

    graph: Any
    thread_id: str
    checkpoint_id: str | None = None
    context: Any = None
    is_async: bool | None = None


@dataclass(slots=True)
class Work:
    """What one task did.

    Attributes:
        step: The step that it ran in.
        node: Its node.
        path: Its place in the step.
        writes: What it wrote, channels of control included.
        is_changed: Whether what it did may differ from the recorded run, or is to be taken
            as if it did.
    """

    step: int
    node: str
    path: Path
    writes: list[tuple[str, Any]]
    is_changed: bool = False

    @property
    def key(self) -> Key:
        """By which it is the same in the record and in a replay."""
        return self.step, self.node, self.path

    @property
    def life(self) -> object:
        """Whose write it is: a node's, or that of what was sent out for the once."""
        return self.node if self.path[0] != PUSH else (self.step, self.path[1])

    @property
    def order(self) -> str:
        """By which LangGraph orders the tasks of a step."""
        return path_key(self.path)


@dataclass(slots=True)
class Record:
    """A run of a graph.

    Attributes:
        checkpoints: The checkpoint that was there after each step, by the step's number.
        works: What the tasks of each step did, by its number.
        final: The state at its end.
        serde: How the user's saver writes values down; None where it does not say.
    """

    checkpoints: dict[int, Any]
    works: dict[int, list[Work]]
    final: Any
    serde: Any

    def find(self, step: int, node: str, path: Path) -> Work | None:
        """Return what a task did, if it ran."""
        same = (w for w in self.works.get(step, ()) if w.node == node and w.path == path)
        return next(same, None)


def read_record(recorded: Recorded) -> Record:
    """Read a run's checkpoints.

    Raises:
        ConfigError: If they are not all there.
    """
    graph = recorded.graph
    chain = with_topics(graph, with_names(graph, _chain(recorded)))
    saver = scratch(getattr(graph.checkpointer, "serde", None))
    for checkpoint in chain:
        put(saver, checkpoint)
    again = graph.copy({"checkpointer": saver, "store": None})
    config = {"configurable": {"thread_id": THREAD}}
    snapshots = {
        one.config["configurable"]["checkpoint_id"]: one for one in again.get_state_history(config)
    }
    works: dict[int, list[Work]] = {}
    for checkpoint in chain:
        step = checkpoint.metadata["step"] + 1
        tasks = snapshots[checkpoint.checkpoint["id"]].tasks
        works[step] = _works(step, tasks, checkpoint.pending_writes or ())
    _check(chain, works)
    final = snapshots[chain[-1].checkpoint["id"]].values
    deltas = delta_channels(graph)
    if deltas:
        chain = with_values(chain, works, graph.checkpointer, deltas)
        put(saver, chain[-1])
        final = again.get_state(config).values
    for before, after in pairwise(chain):
        for work in works[before.metadata["step"] + 1]:
            work.writes = [
                (channel, _identified(value, _held(before, channel), _held(after, channel)))
                for channel, value in work.writes
            ]
    return Record(
        {one.metadata["step"]: one for one in chain},
        works,
        final,
        getattr(graph.checkpointer, "serde", None),
    )


def scratch(serde: Any) -> Any:
    """Return a saver of our own, in memory."""
    return find("langgraph.checkpoint.memory:InMemorySaver")(serde=serde)


def put(saver: Any, checkpoint: Any) -> None:
    """Copy a checkpoint into a scratch saver; what was written after it stays behind."""
    parent = _parent(checkpoint)
    config: dict[str, Any] = {"thread_id": THREAD, "checkpoint_ns": ""}
    if parent is not None:
        config["checkpoint_id"] = parent
    held = checkpoint.checkpoint
    saver.put({"configurable": config}, held, checkpoint.metadata, held["channel_versions"])


def _parent(checkpoint: Any) -> str | None:
    config: Mapping[str, Any] = checkpoint.parent_config or {}
    found: str | None = config.get("configurable", {}).get("checkpoint_id")
    return found


def _chain(recorded: Recorded) -> list[Any]:
    """Return the checkpoints of the run, the first one first."""
    saver = recorded.graph.checkpointer
    if not hasattr(saver, "get_tuple"):
        msg = (
            "a graph must have run with a checkpointer to be replayed, this one has none; "
            "compile it with one, such as InMemorySaver()"
        )
        raise ConfigError(msg)
    found = {one.checkpoint["id"]: one for one in _listed(saver, recorded.thread_id)}
    last = recorded.checkpoint_id or max(found, default=None)
    if last not in found:
        msg = f"thread {recorded.thread_id!r} must have checkpoints in the graph's saver, got none"
        raise ConfigError(msg)
    chain: list[Any] = [found[last]]
    while chain[-1].metadata.get("source") != "input":
        parent = _parent(chain[-1])
        if parent not in found:
            msg = (
                f"the checkpoint of each step must be in the saver, of thread "
                f"{recorded.thread_id!r} step {chain[-1].metadata.get('step')} has none before "
                "it; run with durability='async' or 'sync'"
            )
            raise ConfigError(msg)
        chain.append(found[parent])
    return chain[::-1]


def _listed(saver: Any, thread_id: str) -> list[Any]:
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    try:
        return list(saver.list(config))
    except NotImplementedError:
        return asyncio.run(_alisted(saver, config))


async def _alisted(saver: Any, config: Mapping[str, Any]) -> list[Any]:
    return [one async for one in saver.alist(config)]


def _works(step: int, tasks: Iterable[Any], pending: Iterable[tuple[str, str, Any]]) -> list[Work]:
    written: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in pending:
        written.setdefault(task_id, [])
        if channel not in _SPECIAL:
            written[task_id].append((channel, value))
    # One that left nothing, not even that it wrote nothing, never came to its end.
    works = [
        Work(step, task.name, tuple(task.path[:2]), written[task.id])
        for task in tasks
        if task.id in written
    ]
    return sorted(works, key=lambda work: work.order)


def _check(chain: list[Any], works: Mapping[int, list[Work]]) -> None:
    """See that no step is without its writes, and none was changed from outside or handled."""
    for before, checkpoint in pairwise(chain):
        step, source = checkpoint.metadata["step"], checkpoint.metadata.get("source")
        if source != "loop" or before.metadata["step"] != step - 1 or not works.get(step):
            msg = (
                "the checkpoints of a run must tell what the tasks of each step wrote, "
                f"step {step} ({source}) does not; run with durability='async' or 'sync', "
                "and replay no run whose state was updated from outside"
            )
            raise ConfigError(msg)
    if any(channel == _HANDLED for one in chain for _, channel, _ in one.pending_writes or ()):
        msg = (
            "a run must have had no error that a handler took over to be replayed, in this one a "
            "node failed; what its handler wrote is in no task of the checkpoints"
        )
        raise ConfigError(msg)


def _held(checkpoint: Any, channel: str) -> list[Any]:
    value = checkpoint.checkpoint["channel_values"].get(channel)
    is_many: bool = value.__class__ is list
    return value if is_many else []


def _identified(value: Any, before: list[Any], after: list[Any]) -> Any:
    """Give messages that were written without an id the one that the state gave them.

    A state of messages tells by ids which are the same, and makes new ones up for those
    without: written a second time they would be others.
    """
    is_many: bool = value.__class__ is list
    if not is_many:
        return _identified([value], before, after)[0] if hasattr(value, "id") else value
    known = {getattr(one, "id", None) for one in before}
    new = [one for one in after if getattr(one, "id", None) not in known]
    found: list[Any] = []
    for one in value:
        held = next((n for n in new if _is_same(one, n)), None)
        if held is not None:
            new.remove(held)
        found.append(one if held is None else held)
    return found


def _is_same(written: Any, held: Any) -> bool:
    """Whether a message without an id is one that the state holds."""
    if type(written) is not type(held) or getattr(written, "id", "") is not None:
        return False
    return bool(written == held.model_copy(update={"id": None}))


class Facts:
    """What a compiled graph says of its nodes and channels.

    Attributes:
        nodes: Its nodes.
        channels: Its channels.
        keeps: Channels of its state, and whether earlier writes stay part of the value.
        remembering: Nodes with a graph inside that remembers from one call to the next.
    """

    def __init__(self, graph: Any) -> None:
        from orchtrace_langgraph._channels import keeping  # noqa: PLC0415 - it reads LangGraph

        self._graph = graph
        self._known = _graphs.graph_of(graph)
        self.nodes: Mapping[str, Any] = graph.nodes
        self.channels: Mapping[str, Any] = graph.channels
        self.keeps = keeping(graph.channels)
        self.remembering = [
            name
            for name, host in graph.nodes.items()
            if any(getattr(one, "checkpointer", None) is True for one in host.subgraphs)
        ]

    def is_hidden(self, node: str) -> bool:
        """Whether a node only hands on the input."""
        return self._node(node).is_hidden

    def agent(self, node: str) -> str:
        """Return the name of the agent that a node is."""
        return self._node(node).agent

    def role(self, node: str) -> str | None:
        """Return the role of the agent that a node is, as far as its code says."""
        return self._node(node).role

    def _node(self, node: str) -> _graphs.Node:
        return self._known.node(node, self.nodes)

    def routes(self, node: str) -> bool:
        """Whether a router decides where a node goes on."""
        return bool(self._branches(node))

    def reads(self, node: str, *, is_sent: bool = False) -> frozenset[str]:
        """Return the channels that a node and its routers read; what is sent is read from none.

        A router that says what it reads may read more of the state than its node does.
        """
        found = frozenset(() if is_sent else self._node(node).reads)
        builder: Any = getattr(self._graph, "builder", None)
        for branch in self._branches(node).values():
            schema = getattr(branch, "input_schema", None)
            known = builder.schemas.get(schema)
            found |= frozenset(self._node(node).reads if known is None else known)
        return found

    def _branches(self, node: str) -> Mapping[str, Any]:
        builder = getattr(self._graph, "builder", None)
        found: Mapping[str, Any] = getattr(builder, "branches", {}).get(node, {})
        return found

    def drawn(self, node: str) -> frozenset[str]:
        """Return the channels that the edges drawn from a node write."""
        return self._node(node).drawn


class Packet(NamedTuple):
    """What a task sent out to be worked on: by whom, the how manyeth of its, and what."""

    sender: Work
    nth: int
    send: Any


def sends(works: Iterable[Work]) -> list[Packet]:
    """Return what the tasks of a step sent out, in the order in which it is worked on."""
    found: list[Packet] = []
    for work in works:
        flat: list[Any] = []
        for channel, value in work.writes:
            if channel == SENDS:
                is_many: bool = value.__class__ is list
                flat += value if is_many else [value]
        found += [Packet(work, at, send) for at, send in enumerate(flat)]
    return found
