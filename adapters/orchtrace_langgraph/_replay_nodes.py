"""A node in a replay: it does what it did, or nothing, or something else, or it runs.

It takes the place of what LangGraph calls in the copy of a graph; triggers, channels
and writers stay the node's own. A node that is taken out goes on by its edges and its
routers, as it would if it had nothing to say.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from langchain_core.runnables import Runnable, RunnableConfig

from orchtrace_langgraph._replay_edits import Messages, without

SEND: Final = "__pregel_send"
READ: Final = "__pregel_read"


class Turn(NamedTuple):
    """What one task of a replay is to do.

    Attributes:
        writes: What it writes at once, without being called; None where it is called.
        says: Returns what its node is to return instead of being called, from its input.
        given: Its input.
        read: How it reads the state, where that is not all of it: what it wrote so far, the
            channels, and whether it finds what it wrote itself, as its routers do.
        foreign: Messages that it alone finds, by channel of the state: in the place of others.
        key: Of the task, for `end`.
    """

    key: Any
    given: Any
    writes: list[tuple[str, Any]] | None = None
    says: Callable[[Any], Any] | None = None
    read: Callable[..., Any] | None = None
    foreign: Mapping[str, Messages] | None = None


class Guide(Protocol):
    """Who knows what a task of a replay is to do."""

    def begin(self, node: str, given: Any, config: Mapping[str, Any]) -> Turn:
        """Say what a task does."""
        ...

    def end(self, turn: Turn, writes: list[tuple[str, Any]]) -> None:
        """Take in what it wrote."""
        ...


class _Says(Runnable[Any, Any]):
    """A node's code that is replaced."""

    def __init__(self, says: Callable[[Any], Any]) -> None:
        self._says = says

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002, ARG002 - LangChain's names
        return self._says(input)


class Node(Runnable[Any, Any]):
    """What is called in the place of a node."""

    def __init__(self, name: str, host: Any, guide: Guide, told: Mapping[str, Any]) -> None:
        self.name = self._node = name
        self._host = host
        self._guide = guide
        self._told = told

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name
        """Do what the guide says."""
        turn, host, ours, sent = self._begin(input, config or {})
        if host is not None:
            try:
                host.invoke(turn.given, ours, **kwargs)
            except Exception as error:  # noqa: BLE001 - raised again unless it is LangGraph's hand-off
                self._hand_over(error, ours)
        self._guide.end(turn, sent)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:  # noqa: A002 - LangChain's name
        """Do what the guide says."""
        turn, host, ours, sent = self._begin(input, config or {})
        if host is not None:
            try:
                await host.ainvoke(turn.given, ours, **kwargs)
            except Exception as error:  # noqa: BLE001 - raised again unless it is LangGraph's hand-off
                self._hand_over(error, ours)
        self._guide.end(turn, sent)

    def _begin(
        self, given: Any, config: Mapping[str, Any]
    ) -> tuple[Turn, Any, Any, list[tuple[str, Any]]]:
        turn = self._guide.begin(self._node, given, config)
        configurable = config["configurable"]
        send = configurable[SEND]
        sent: list[tuple[str, Any]] = []

        def note(writes: Any) -> None:
            listed = list(writes)
            if turn.foreign:
                listed = [(to, without(value, turn.foreign.get(to, {}))) for to, value in listed]
            sent.extend(listed)
            send(listed)

        if turn.writes is not None:
            note(turn.writes)
            return turn, None, None, sent
        changed: dict[str, Any] = {SEND: note}
        if turn.read is not None:
            changed[READ] = functools.partial(turn.read, sent)
        ours = {**config, **self._told, "configurable": {**configurable, **changed}}
        host = self._host.node if turn.says is None else self._instead(turn.says)
        return turn, host, ours, sent

    def _instead(self, says: Callable[[Any], Any]) -> Any:
        return self._host.copy({"bound": _Says(says), "subgraphs": ()}).node

    def _hand_over(self, error: Exception, config: Any) -> None:
        """Write where a graph inside handed over to, as LangGraph does for a node."""
        if type(error).__name__ != "ParentCommand":
            raise error
        for writer in self._host.flat_writers:
            writer.invoke(error.args[0], config)


def replace_nodes(graph: Any, guide: Guide, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nodes of a graph with ours called in their place.

    Args:
        graph: The graph.
        guide: Who knows what they do.
        told: What their configuration says otherwise than that of the replay.
    """
    return {name: _replaced(name, host, guide, told) for name, host in graph.nodes.items()}


def _replaced(name: str, host: Any, guide: Guide, told: Mapping[str, Any]) -> Any:
    ours = host.copy({"cache_policy": None})
    # A cached property, which is read for what to call, and for nothing else.
    ours.__dict__["node"] = Node(name, host, guide, told)
    return ours
