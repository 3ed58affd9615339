"""Where a run of a graph begins: a run of its own, part of one, or the node that it is."""

from __future__ import annotations

from typing import Any, Final

from opentelemetry import context as otel_context

from orchtrace_langgraph import _graphs, _tasks
from orchtrace_langgraph._beside import context_in
from orchtrace_langgraph._content import task_of
from orchtrace_langgraph._graphs import Graph
from orchtrace_langgraph._runs import GraphRun
from orchtrace_langgraph._tasks import Task
from orchtrace_otel import content, spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.spans import Scope

_KEY: Final = "_orchtrace_run"


@guarded
def begin(loop: Any) -> GraphRun | None:
    """Open a run of the loop's graph where it was called."""
    run = _begin(loop)
    if run is not None:
        run.starts(loop)
    return run


def _begin(loop: Any) -> GraphRun | None:
    graph = _graphs.graph_of(getattr(loop._migrate_checkpoint, "__self__", None))  # noqa: SLF001
    name = graph.name
    if not (graph.is_named and graph.role):
        given = loop.config.get("run_name")
        name = given if isinstance(given, str) and given else name
    scope = _scope(loop)
    if scope is None:
        task_id = content.task_id((loop.input,), {})
        run = spans.start_run(name, system="langgraph", task_id=task_id)
        task_of(run, loop.input)
        return None if run is None else GraphRun(graph, run.root, run=run, task_id=task_id)
    context = otel_context.get_current()
    if spans.is_suppressed(context):
        return None
    caller = scope.activation
    outer = _tasks.CURRENT.get() or _calling(loop)
    if outer is not None and outer.activation is caller and _is_node(outer, loop, graph, name):
        return GraphRun(graph, caller, is_own=False, outer=outer)
    flow = scope.flow.here()
    activation = spans.open_activation(
        caller,
        name,
        role=graph.role,
        edges=flow.take("spawn"),
        # In a thread that carries no context its parent is the caller's span.
        context=None if spans.scope_of(context) is None else context_in(context, scope),
    )
    return GraphRun(graph, activation, flow=flow, outer=outer)


def _scope(loop: Any) -> Scope | None:
    """Return the activation or the tool call in which a graph is called, if its run is open."""
    scope = spans.scope_of(otel_context.get_current())
    if scope is None:
        task = _calling(loop)
        scope = task.activation if task is not None else None
    if scope is not None and (scope.run.is_remote or not scope.run.is_closed):
        return scope
    return spans.join_run()


def _calling(loop: Any) -> Task | None:
    """Return the task with whose configuration a graph was called, while it runs."""
    return _tasks.running.get(id(loop.config.get("configurable", {}).get("__pregel_task_id")))


def _is_node(task: Task, loop: Any, graph: Graph, name: str) -> bool:
    """Whether a graph is itself the node that runs: then the node's activation is its own."""
    if task.known.is_worker and name == task.name:
        return True
    bound = getattr(task.run.nodes.get(task.name), "bound", None)
    return getattr(bound, "nodes", None) is loop.nodes and (not graph.is_named or name == task.name)


def of(loop: Any) -> GraphRun | None:
    """Return the run that is noted on a loop."""
    found: GraphRun | None = loop.__dict__.get(_KEY)
    return found


def note(loop: Any, run: GraphRun | None) -> None:
    """Note a run on its loop; None once it has ended."""
    loop.__dict__[_KEY] = run
