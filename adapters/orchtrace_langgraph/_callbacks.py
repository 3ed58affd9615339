"""What is left where a version of LangGraph lacks what the exact causes come from.

Graphs and their tasks then come from the callbacks that LangChain makes for each of
them. They tell who ran in whom, and in which step; a task is taken to follow from all
tasks of the step before, and its span is not current in its code.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from opentelemetry import context as otel_context

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.spans import Activation, Run, Scope

_STEP: Final = "graph:step:"
_HIDDEN: Final = "langsmith:hidden"
_INFERRED: Final = {a.CAUSALITY: "inferred"}
_MOST_OPEN: Final = 10_000
_MOST_NESTED: Final = 100
"""How far up a chain of callbacks an activation is looked for."""


class _Graph:
    """A graph that runs: its tasks of this step, and what those of the step before left."""

    __slots__ = ("activation", "before", "closed", "instances", "is_paused", "run", "step")

    def __init__(self, activation: Activation, run: Run | None) -> None:
        self.activation = activation
        self.run = run
        self.step: object = None
        self.before: list[Mark] = [activation.opened]
        self.closed: list[Mark] = []
        self.instances: dict[str, str] = {}
        self.is_paused = False

    def open(self, name: str, step: object) -> Activation:
        """Open the activation of a task."""
        if step != self.step:
            self.step = step
            self.before, self.closed = self.closed or self.before, []
        instance = self.instances.get(name)
        opens = "spawn" if instance is None else "delegate"
        if instance is None:
            instance = self.instances[name] = self.activation.run.instance(name)
        return spans.open_activation(
            self.activation,
            name,
            opens=opens,
            instance=instance,
            edges=[("causal", mark) for mark in self.before],
            attributes=_INFERRED,
        )

    def end(self, error: BaseException | None) -> None:
        """Close the graph's own activation or its run."""
        status, reason = spans.outcome(error)
        if error is None and self.is_paused:
            status, reason = "paused", "paused"
        edges: list[Edge] = [("return", mark) for mark in self.closed]
        told = error if status == "error" else None
        if self.run is None:
            self.activation.close(status=status, error=told, edges=edges)
        else:
            self.run.close(
                stop_reason=reason,
                stop_detail=None if error is None else spans.error_type(error),
                status=status,
                error=told,
                edges=edges,
            )


_chains: Final[OrderedDict[UUID, tuple[UUID | None, str]]] = OrderedDict()
"""Chains that are open: what each runs in, and its name."""


class _Turnstile:
    """Lets one task at a time begin or end: those of one step do so in threads of their own.

    Without it two of them that begin at once would each open their graph.
    """

    def __init__(self) -> None:
        self.start_afresh()
        afresh_in_children(self)

    def start_afresh(self) -> None:
        """Let the child of a fork pass, whatever its parent's threads were doing."""
        self.lock = threading.RLock()


_turnstile: Final = _Turnstile()
_graphs: Final[dict[UUID, _Graph]] = {}
tasks: Final[dict[UUID, tuple[Activation, UUID]]] = {}
"""Tasks that are open, and the graph of each, by LangChain's ids."""


def scope_for(run_id: UUID | None, current: Scope | None) -> Scope | None:
    """Return the task in which a chain, a model or a tool runs, or `current`."""
    if not tasks:
        return current
    for _ in range(_MOST_NESTED):
        if run_id is None:
            break
        if run_id in tasks:
            return tasks[run_id][0]
        run_id = _chains.get(run_id, (None, ""))[0]
    return current


@guarded
def _begin(manager: Any, name: Any) -> None:
    if spans.is_suppressed(otel_context.get_current()):
        return
    run_id, around = manager.run_id, manager.parent_run_id
    _chains[run_id] = (around, name if isinstance(name, str) and name else "LangGraph")
    if len(_chains) > _MOST_OPEN:
        _end(next(iter(_chains)), GeneratorExit())
    tags: Any = manager.tags or ()
    if around not in _chains or _HIDDEN in tags or not any(tag.startswith(_STEP) for tag in tags):
        return
    known: dict[str, Any] = manager.metadata or {}
    with _turnstile.lock:
        graph = _graphs.get(around) or _open_graph(around)
        if graph is not None:
            _graphs[around] = graph
            name = _chains[run_id][1]
            tasks[run_id] = (graph.open(name, known.get("langgraph_step")), around)


def _open_graph(run_id: UUID) -> _Graph | None:
    outer, name = _chains[run_id]
    scope = scope_for(outer, spans.scope_of(otel_context.get_current()))
    if scope is None or scope.run.is_closed:
        run = spans.start_run(name, system="langgraph")
        return None if run is None else _Graph(run.root, run)
    flow = scope.flow.here()
    activation = spans.open_activation(
        scope.activation, name, edges=flow.take("spawn"), attributes=_INFERRED
    )
    return _Graph(activation, None)


@guarded
def _end(run_id: UUID, error: BaseException | None) -> None:
    _chains.pop(run_id, None)
    task = tasks.pop(run_id, None)
    if task is not None:
        activation, around = task
        status, _ = spans.outcome(error)
        activation.close(status=status, error=error if status == "error" else None)
        graph = _graphs.get(around)
        if graph is not None:
            with _turnstile.lock:
                graph.closed.append(activation.closed)
                graph.is_paused = graph.is_paused or status == "paused"
    graph = _graphs.pop(run_id, None)
    if graph is not None:
        graph.end(error)


Wrapped = Callable[..., Any]


def start(wrapped: Wrapped, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Wrap `CallbackManager.on_chain_start`."""
    manager = wrapped(*args, **kwargs)
    _begin(manager, kwargs.get("name"))
    return manager


async def astart(wrapped: Wrapped, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Wrap `AsyncCallbackManager.on_chain_start`."""
    manager = await wrapped(*args, **kwargs)
    _begin(manager, kwargs.get("name"))
    return manager


def end(wrapped: Wrapped, manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Wrap `on_chain_end` of a chain's run, sync and async."""
    _end(manager.run_id, None)
    return wrapped(*args, **kwargs)


def fail(wrapped: Wrapped, manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Wrap `on_chain_error`, sync and async."""
    _end(manager.run_id, args[0] if args else kwargs.get("error"))
    return wrapped(*args, **kwargs)


def forget() -> None:
    """Drop what is still open."""
    for run_id in [*tasks, *_graphs]:
        _end(run_id, GeneratorExit())
    _chains.clear()
