"""What is known of a compiled graph: its name and role, its nodes, and the edges drawn in it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from orchtrace_otel.calls import MARK, Plan
from orchtrace_otel.model import plain_text

if TYPE_CHECKING:
    from orchtrace_langgraph._channels import Channels

_SUPERVISOR: Final = "langgraph_supervisor."

UNNAMED: Final = "LangGraph"
"""What LangGraph calls a graph that was given no name."""

BRANCH: Final = "branch:to:"
"""Prefix of the channel that an edge to a node writes, before the formatted name of the node."""

_HIDDEN: Final = "langsmith:hidden"


class Node:
    """What is known of one node of a graph, and does not change from task to task.

    A function that a task calls counts as one; it is the first step of what LangGraph runs.

    Attributes:
        plan: What `@orchtrace.agent` on its function says, if it is there.
        agent: Name of the agent that it is.
        role: That agent's role, if it has one.
        is_hidden: Whether it only hands on the input.
        is_worker: Whether it is langgraph-supervisor's call of a worker: it is the worker.
        reads: Channels of the state that its tasks read.
        drawn: Channels that the edges drawn from it write.
    """

    __slots__ = ("_host", "agent", "drawn", "is_hidden", "is_worker", "plan", "reads", "role")

    def __init__(self, name: str, host: Any) -> None:
        # Weak: what a node calls may hold the graph, which holds what is known of it.
        self._host = None if host is None else weakref.ref(host)
        bound = getattr(host, "bound", None) or next(iter(getattr(host, "steps", ())), None)
        function = getattr(bound, "func", None)
        places = (bound, function, getattr(bound, "afunc", None))
        self.plan: Plan | None = next(filter(None, map(_plan_on, places)), None)
        self.agent = plain_text(name) if self.plan is None else self.plan.name
        self.role = None if self.plan is None else self.plan.role
        self.is_hidden = _HIDDEN in (getattr(host, "tags", None) or ())
        module = getattr(function, "__module__", None)
        self.is_worker = isinstance(module, str) and module.startswith(_SUPERVISOR)
        reads: Any = getattr(host, "channels", ())
        self.reads: tuple[str, ...] = (reads,) if isinstance(reads, str) else tuple(reads)
        self.drawn = frozenset(_written(host))

    def is_of(self, host: Any) -> bool:
        """Whether this is known of the very node, and not of one that it took the place of."""
        return (None if self._host is None else self._host()) is host


class Graph:
    """One compiled graph.

    Attributes:
        name: Its name; `UNNAMED` where it has none.
        own_name: The name that it was compiled with.
        role: Its role, from `orchtrace.agent(graph, role=...)`.
        is_named: Whether the user gave it a name.
        channels: What its channels do; None until a run of it is seen.
    """

    __slots__ = (
        "_nodes",
        "channels",
        "is_named",
        "name",
        "own_name",
        "role",
    )

    def __init__(self, name: str) -> None:
        self.own_name: Final = name
        self.name = name
        self.role: str | None = None
        self.is_named = name != UNNAMED
        self.channels: Channels | None = None
        self._nodes: dict[str, Node] = {}

    def rename(self, name: str | None, role: str | None) -> None:
        """Take a name and a role given by the user."""
        if name is not None:
            self.name = name
            self.is_named = True
        if role is not None:
            self.role = role

    def node(self, name: str, nodes: Mapping[str, Any]) -> Node:
        """Return what is known of one of `nodes`."""
        host = nodes.get(name)
        found = self._nodes.get(name)
        if found is None or not found.is_of(host):
            found = self._nodes[name] = Node(name, host)
        return found


def _written(host: Any) -> Iterator[str]:
    """Yield the channels that a node writes whatever it returns."""
    for writer in getattr(host, "writers", ()):
        for entry in getattr(writer, "writes", ()):
            channel = getattr(entry, "channel", None)
            if isinstance(channel, str):
                yield channel


def _plan_on(function: Any) -> Plan | None:
    """Return what `@orchtrace.agent` says on a function, an object or what a partial calls."""
    while isinstance(function, functools.partial):
        function = cast("Any", function).func
    kind = function.__class__
    for place in (function, getattr(kind, "__call__", None)):  # noqa: B004 - not whether, but what
        found = getattr(place, MARK, None)
        if isinstance(found, Plan) and found.kind == "agent":
            return found
    return None


class _ByIdentity:
    """Graphs by an object of the host's, for as long as that lives.

    The object is not asked whether it equals another: it may say so of any, or refuse.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[int, tuple[weakref.ref[Any], Graph]] = {}

    def get(self, host: Any) -> Graph | None:
        """Return what is known of an object."""
        held = self._held.get(id(host))
        return held[1] if held is not None and held[0]() is host else None

    def put(self, host: Any, graph: Graph) -> None:
        """Remember a graph until its object is gone."""
        key, held = id(host), self._held

        def forget(gone: weakref.ref[Any]) -> None:
            # Another may live at the same place by now.
            if key in held and held[key][0] is gone:
                del held[key]

        held[key] = weakref.ref(host, forget), graph


_known: Final = _ByIdentity()
_named: Final = _ByIdentity()
"""Graphs by the first of their nodes, which a copy shares, as `with_config` makes them."""


def graph_of(compiled: Any) -> Graph:
    """Return what is known of a compiled graph; the same object for the same graph."""
    found = _known.get(compiled) if compiled is not None else None
    if found is None:
        name = getattr(compiled, "name", None)
        found = Graph(name if isinstance(name, str) and name else UNNAMED)
        if compiled is not None:
            _known.put(compiled, found)
            _share(compiled, found)
    return found


def _share(compiled: Any, graph: Graph) -> None:
    """Give a copy of a graph the name and the role that the graph was given."""
    first = next(iter(compiled.nodes.values()), None)
    if first is None:
        return
    source = _named.get(first)
    if source is None:
        _named.put(first, graph)
    elif source.own_name == graph.own_name:
        graph.rename(source.name if source.is_named else None, source.role)
