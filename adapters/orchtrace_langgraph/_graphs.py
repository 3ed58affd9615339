"""What is known of a compiled graph: its name and role, and which edges are drawn in it."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Final, cast

from orchtrace_otel.calls import MARK, Plan

_SUPERVISOR: Final = "langgraph_supervisor."

UNNAMED: Final = "LangGraph"
"""What LangGraph calls a graph that was given no name."""

BRANCH: Final = "branch:to:"
"""Prefix of the channel that an edge to a node writes."""


class Graph:
    """One compiled graph.

    Attributes:
        name: Its name; `UNNAMED` where it has none.
        own_name: The name that it was compiled with.
        role: Its role, from `orchtrace.agent(graph, role=...)`.
        is_named: Whether the user gave it a name.
        gathering: Channels that wait for several writers, and whether only the
            first writer of a name counts; None until a run of it is seen.
        keeping: Channels of its state, and whether earlier writes stay part of the
            value; None likewise.
    """

    __slots__ = (
        "_drawn",
        "_plans",
        "_workers",
        "gathering",
        "is_named",
        "keeping",
        "name",
        "own_name",
        "role",
    )

    def __init__(self, name: str) -> None:
        self.own_name: Final = name
        self.name = name
        self.role: str | None = None
        self.is_named = name != UNNAMED
        self.gathering: dict[str, bool] | None = None
        self.keeping: dict[str, bool] | None = None
        self._drawn: dict[str, frozenset[str]] = {}
        self._plans: dict[str, Plan | None] = {}
        self._workers: dict[str, bool] = {}

    def rename(self, name: str | None, role: str | None) -> None:
        """Take a name and a role given by the user."""
        if name is not None:
            self.name = name
            self.is_named = True
        if role is not None:
            self.role = role

    def drawn(self, task: Any) -> frozenset[str]:
        """Return the channels that the edges drawn from a task's node write."""
        found = self._drawn.get(task.name)
        if found is None:
            entries = (entry for writer in task.writers for entry in getattr(writer, "writes", ()))
            channels = (getattr(entry, "channel", None) for entry in entries)
            found = frozenset(c for c in channels if isinstance(c, str))
            self._drawn[task.name] = found
        return found

    def plan(self, name: str, node: Any) -> Plan | None:
        """Return what `@orchtrace.agent` on a node's function says, if it is there."""
        try:
            return self._plans[name]
        except KeyError:
            bound = getattr(node, "bound", None)
            places = (bound, getattr(bound, "func", None), getattr(bound, "afunc", None))
            plan = self._plans[name] = next(filter(None, map(_plan_on, places)), None)
            return plan

    def is_worker(self, name: str, node: Any) -> bool:
        """Whether a node is langgraph-supervisor's call of a worker: the node is the worker."""
        found = self._workers.get(name)
        if found is None:
            function = getattr(getattr(node, "bound", None), "func", None)
            module = getattr(function, "__module__", None)
            found = isinstance(module, str) and module.startswith(_SUPERVISOR)
            self._workers[name] = found
        return found


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


_known: weakref.WeakKeyDictionary[Any, Graph] = weakref.WeakKeyDictionary()
_named: weakref.WeakKeyDictionary[Any, Graph] = weakref.WeakKeyDictionary()
"""Graphs by the first of their nodes, which a copy shares, as `with_config` makes them."""


def graph_of(compiled: Any) -> Graph:
    """Return what is known of a compiled graph; the same object for the same graph."""
    found = _known.get(compiled) if compiled is not None else None
    if found is None:
        name = getattr(compiled, "name", None)
        found = Graph(name if isinstance(name, str) and name else UNNAMED)
        if compiled is not None:
            _known[compiled] = found
            _share(compiled, found)
    return found


def _share(compiled: Any, graph: Graph) -> None:
    """Give a copy of a graph the name and the role that the graph was given."""
    first = next(iter(compiled.nodes.values()), None)
    if first is None:
        return
    source = _named.setdefault(first, graph)
    if source.own_name == graph.own_name:
        graph.rename(source.name if source.is_named else None, source.role)
