"""Runs a recorded graph again from the checkpoint before a change, in a saver of our own.

What is not downstream of the change is taken from the checkpoints, task by task: its
node is not called. Neither the user's saver nor the store is written to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry import context as otel_context

from orchtrace_langgraph._framework import find
from orchtrace_langgraph._replay_guide import ARROW, Replay
from orchtrace_langgraph._replay_history import History, follow
from orchtrace_langgraph._replay_nodes import replace_nodes
from orchtrace_langgraph._replay_record import (
    THREAD,
    Facts,
    Recorded,
    put,
    read_record,
    scratch,
)
from orchtrace_langgraph._replay_store import overlay
from orchtrace_langgraph._replay_tools import held_tools
from orchtrace_otel.errors import ConfigError, ReplayBlockedError
from orchtrace_otel.playback import play_back, playback
from orchtrace_otel.replay import Change, Player, Slot, describe, is_replaying

if TYPE_CHECKING:
    from orchtrace_otel.model import Trace
    from orchtrace_otel.replay import Score

_KEPT: Final = ("tags", "max_concurrency")
_LIMIT: Final = "recursion_limit"
_NOT_KEPT: Final = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")


def find_recorded(target: Any) -> Recorded | None:
    """Return where the recorded run of a target is; None where it is no graph.

    Raises:
        ConfigError: If a graph does not say which thread its run was in.
    """
    if isinstance(target, Recorded):
        return target
    if not isinstance(target, find("langgraph.pregel:Pregel")):
        return None
    graph: Any = target
    config: Mapping[str, Any] = graph.config or {}
    configurable: Mapping[str, Any] = config.get("configurable", {})
    if "thread_id" not in configurable:
        msg = (
            "a graph must say in which thread it ran to be replayed, this one does not; give "
            "graph.with_config(configurable={'thread_id': ...}), or a Recorded"
        )
        raise ConfigError(msg)
    return Recorded(
        graph=graph,
        thread_id=str(configurable["thread_id"]),
        checkpoint_id=configurable.get("checkpoint_id"),
    )


class GraphReplayer:
    """Runs a graph again.

    Args:
        recorded: The graph and its run.
        trace: The trace of it.
        score: From what the graph returns to the outcome.
    """

    def __init__(self, recorded: Recorded, trace: Trace, score: Score) -> None:
        self._recorded = recorded
        self._score = score
        self._record = read_record(recorded)
        self._facts = Facts(recorded.graph)
        roles = {e.agent: e["role"] for e in trace.events if isinstance(e.get("role"), str)}
        nodes = {work.node for works in self._record.works.values() for work in works}
        self._nodes = {node for node in nodes if not self._facts.is_hidden(node)}
        self._agents = {self._facts.agent(node) for node in self._nodes}
        self._roles = {
            node: self._facts.role(node) or roles.get(self._facts.agent(node))
            for node in self._nodes
        }
        self._read = follow(
            History(self._facts, self._record), self._record, max(self._record.works) + 1
        )
        self._slots = {
            slot for tasks in self._read.values() for *_, read in tasks for slot, _ in read
        }
        self._check(trace)

    def _check(self, trace: Trace) -> None:
        """See that the checkpoints are those of the trace: it knows all the work they tell of."""
        traced = Counter(event.agent for event in trace.events if event.verb == "return")
        works = (work for step in self._record.works.values() for work in step)
        kept = Counter(self._facts.agent(w.node) for w in works if w.node in self._nodes)
        if kept - traced:
            msg = (
                "the checkpoints must be those of the trace, they tell of work of agents "
                f"{sorted(kept - traced)} that the trace does not; name the thread and "
                "the last checkpoint of the run that was traced, and replay no run that went on "
                "where another one had left, or that took results from a cache"
            )
            raise ConfigError(msg)

    def value(self, change: Change, seed: int) -> float | Awaitable[float]:  # noqa: ARG002 - a graph takes no seed
        """Run the graph with a change; see `orchtrace_otel.replay.Replayer`."""
        for player in change.touched:
            self._know(player)
        if self._facts.remembering:
            msg = (
                "a graph inside of a node must keep no memory of its own, that of "
                f"{self._facts.remembering} (checkpointer=True) is not in the graph's checkpoints"
            )
            raise ReplayBlockedError(msg)
        replay = Replay(self._facts, self._record, change, self._roles, self._read)
        if replay.fork is None:
            return float(self._score(self._record.final))
        played = playback()
        if played is not None:
            before = self._record.checkpoints[replay.last]
            played.go_on_from(datetime.fromisoformat(before.checkpoint["ts"]).timestamp())
        graph, config = self._again(replay)
        options = {} if self._recorded.context is None else {"context": self._recorded.context}
        if self._is_async():
            return self._arun(graph, config, options)
        with _quiet(), held_tools():
            return self._outcome(graph.invoke(None, config, **options))

    async def _arun(self, graph: Any, config: Any, options: Any) -> float:
        with _quiet(), held_tools():
            return self._outcome(await graph.ainvoke(None, config, **options))

    def _outcome(self, result: Any) -> float:
        if isinstance(result, dict) and "__interrupt__" in result:
            msg = "a replay must not wait for a person, this one came to an interrupt"
            raise ReplayBlockedError(msg)
        return float(self._score(cast("Any", result)))

    def _again(self, replay: Replay) -> tuple[Any, dict[str, Any]]:
        """Return the graph, and where it goes on."""
        graph = self._recorded.graph
        fork = cast("int", replay.fork)
        saver = scratch(self._record.serde)
        put(saver, self._record.checkpoints[max(s for s in self._record.checkpoints if s < fork)])
        held: Mapping[str, Any] = graph.config or {}
        limit = held.get(_LIMIT, find("langgraph._internal._config:DEFAULT_RECURSION_LIMIT"))
        again = graph.copy(
            {
                "nodes": replace_nodes(graph, replay, {_LIMIT: limit}),
                "checkpointer": saver,
                "store": overlay(graph.store),
                "cache": None,
                "interrupt_before_nodes": (),
                "interrupt_after_nodes": (),
                "config": None,
            }
        )
        configurable = {
            key: value
            for key, value in held.get("configurable", {}).items()
            if key not in _NOT_KEPT
        }
        kept = {key: held[key] for key in _KEPT if key in held}
        kept[_LIMIT] = self._left_of(limit, fork)
        return again, {**kept, "configurable": {**configurable, "thread_id": THREAD}}

    def _left_of(self, limit: int, fork: int) -> int:
        """Return how many steps a replay may take: those before it count as they did in the run.

        The run may have been given more than its graph says, or again as many after a pause.
        """
        steps = self._record.works
        return max(limit - (fork - min(steps) + 1), max(steps) - 1 - fork, 1)

    def _is_async(self) -> bool:
        if self._recorded.is_async is not None:
            return self._recorded.is_async
        return any(_is_coroutine(host.bound) for host in self._facts.nodes.values())

    def _know(self, player: Player) -> None:
        """Refuse a player that the graph's run does not have."""
        if isinstance(player, Slot):
            is_known = player in self._slots
        elif player.kind == "role":
            is_known = player.name in self._roles.values()
        elif player.kind == "dependency":
            reader, _, writer = player.name.partition(ARROW)
            is_known = any(s[:2] == (writer, reader) for s in self._slots)
        else:
            is_known = player.name in self._agents
        if not is_known:
            msg = (
                f"{describe(player)} must be of the nodes of the graph that ran, it is not: "
                "the graph itself, and what runs inside of a node, cannot be taken out"
            )
            raise ReplayBlockedError(msg)


def _is_coroutine(bound: Any) -> bool:
    return (getattr(bound, "func", True) is None and getattr(bound, "afunc", None) is not None) or (
        not hasattr(bound, "func") and hasattr(bound, "afunc")
    )


class _quiet(ExitStack):  # noqa: N801 - used as `with _quiet()`
    """Keeps LangSmith out, and holds tools back where nobody does so yet."""

    def __enter__(self) -> _quiet:
        super().__enter__()
        if not is_replaying():
            token = otel_context.attach(play_back(None, otel_context.get_current()))
            self.callback(otel_context.detach, token)
        with suppress(ImportError, AttributeError):
            self.enter_context(find("langsmith.run_helpers:tracing_context")(enabled=False))
        return self
