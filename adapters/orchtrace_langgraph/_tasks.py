"""A task of a graph: the activation of the agent that its node is."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from orchtrace_langgraph._pauses import asked
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.spans import Activation, Value

if TYPE_CHECKING:
    from orchtrace_langgraph._decisions import Decision
    from orchtrace_langgraph._handoffs import Transfer
    from orchtrace_langgraph._runs import GraphRun
    from orchtrace_otel.calls import Plan


class Task:
    """One task of a step.

    Attributes:
        run: The run of the graph that it belongs to.
        name: Name of its node.
        node: Its node, with what is bound to it.
        is_hidden: Whether it only hands on the input.
        is_worker: Whether it is langgraph-supervisor's call of a worker.
        edges: Causes of its opening.
        informed: Who wrote what it reads, as edges into its opening.
        channels: Where these wrote, as `state:<key>`.
        attempt: Which try it is.
        skipped: The decision not to run it, where its result was in a cache.
        has_failed: Whether it ended with an error that nobody handled.
        has_asked: Whether a run or a task inside of it has recorded the interrupt it ends with.
        opens: How it opens: `spawn` or `delegate`; `begin` after a hand-off.
        by: The agent that handed over to it.
        instance: Which life of the agent it is.
        plan: What `@orchtrace.agent` on its function says.
        activation: Its activation, once it runs.
        caller: The task that called it, in the functional API.
        author: The task inside that handed over with `Command(graph=PARENT)`.
        command: That command, until the task has closed.
        left: Identity of the exception with which it handed over itself.
        transfers: Its tool calls that answered with a command.
        handoffs: The delegations that it recorded, by node, or by identity of a packet.
        decisions: What its routers chose, by router, and where its command goes, by None.
        turns: LLM calls that are still open, by LangChain's id.
    """

    __slots__ = (
        "activation",
        "attempt",
        "author",
        "by",
        "caller",
        "channels",
        "command",
        "decisions",
        "edges",
        "handoffs",
        "has_asked",
        "has_failed",
        "id",
        "informed",
        "instance",
        "is_hidden",
        "is_worker",
        "left",
        "name",
        "node",
        "opens",
        "plan",
        "run",
        "skipped",
        "transfers",
        "turns",
    )

    def __init__(self, run: GraphRun, host: Any, node: Any, *, is_hidden: bool = False) -> None:
        self.run = run
        self.id: str = host.id
        self.name: str = host.name
        self.node = node
        self.is_hidden = is_hidden
        self.is_worker = False
        self.edges: list[Edge] = []
        self.informed: list[Edge] = []
        self.channels: tuple[str, ...] = ()
        self.attempt = 1
        self.skipped: Mark | None = None
        self.has_failed = False
        self.has_asked = False
        self.opens = "spawn"
        self.instance: str | None = None
        self.plan: Plan | None = None
        self.activation: Activation | None = None
        self.caller: Task | None = None
        self.author: Task | None = None
        self.command: Any = None
        self.left: int | None = None
        self.transfers: list[Transfer] | None = None
        self.handoffs: dict[str | int, Mark] | None = None
        self.by: str | None = None
        self.decisions: dict[int | None, Decision] | None = None
        self.turns: set[UUID] | None = None

    @property
    def has_news(self) -> bool:
        """Whether it is known where what it writes comes from; not after a resume."""
        return self.activation is not None or self.skipped is not None

    def marks(self) -> list[Mark]:
        """Return where edges from it start; through it, where it never ran (a cache hit)."""
        if self.activation is not None:
            return [self.activation.closed]
        if self.is_hidden:
            return [self.run.activation.opened]
        if self.skipped is not None:
            return [self.skipped]
        return [mark for _, mark in self.edges]


Entered = tuple[Token["Task | None"], Token[Context]]

CURRENT: Final[ContextVar[Task | None]] = ContextVar("orchtrace_langgraph_task", default=None)
"""The task whose code runs here."""

waiting: Final[dict[int, Task]] = {}
"""Tasks that are about to run, by identity of the host's own task object."""

running: Final[dict[str, Task]] = {}
"""Tasks that run, by LangGraph's id: a graph invoked with a task's configuration in a
thread that carries no context still finds its parent, and no mark of ours is left in
the configuration, which users see in streams."""


@guarded
def enter(task: Task) -> Entered:
    """Open a task's activation and make it current; `leave` follows in the same context."""
    if task.is_hidden:
        token = otel_context.attach(task.run.context)
        return CURRENT.set(task), token
    running[task.id] = task
    token = _open(task, task.edges).attach()
    return CURRENT.set(task), token


def _open(task: Task, edges: list[Edge]) -> Activation:
    caller = task.caller.activation if task.caller is not None else None
    plan = task.plan
    facts: dict[str, Value] = {}
    if not task.run.is_exact:
        facts[a.CAUSALITY] = "inferred"
    if task.channels:
        facts[a.CHANNEL] = task.channels
    if task.attempt > 1:
        facts[a.ATTEMPT] = task.attempt
    activation = spans.open_activation(
        caller or task.run.activation,
        task.name if plan is None else plan.name,
        opens=task.opens,
        instance=task.instance,
        by=task.by,
        role=None if plan is None else plan.role,
        edges=[*edges, *task.informed] if task.informed else edges,
        attributes=facts,
        context=task.run.context if caller is None else None,
    )
    # The decorated function that the node runs finds itself named here and opens nothing.
    activation.owner = plan
    task.activation = activation
    return activation


@guarded
def leave(task: Task, entered: Entered | None, error: BaseException | None) -> None:
    """Close a task's activation and make current what was before."""
    if entered is None:
        return
    # A coroutine that is thrown away is closed wherever that happens; there is
    # nothing to restore there.
    if not isinstance(error, GeneratorExit):
        CURRENT.reset(entered[0])
        otel_context.detach(entered[1])
    activation = task.activation
    if activation is None:
        return
    running.pop(task.id, None)
    status, reason = spans.outcome(error)
    if reason == "handoff":
        task.left = id(error)
    task.has_failed = status == "error"
    if status == "paused":
        asked(task, activation, error)
    elif status == "cancelled":
        _despawn(task, activation)
    activation.end(status, error=error if status == "error" else None)
    if task.caller is not None and task.caller.activation is not None:
        task.caller.activation.flow.returned(activation.closed)
        task.caller.activation.release(activation.agent, activation.instance)


def _despawn(task: Task, activation: Activation) -> None:
    """Record that LangGraph ends a task because another of its step failed, if that is so.

    No edge leads from there to its end: what failed did not trigger the task.
    """
    failed = [other for other in task.run.tasks.values() if other.has_failed]
    if failed:
        causes: list[Edge] = [("causal", mark) for other in failed for mark in other.marks()]
        spans.instant(task.run.activation, "despawn", to=activation.agent, edges=causes)


def failed(task: Task, error: BaseException) -> None:
    """Close a try that failed; `try_again` follows, unless the run is given up meanwhile."""
    activation = task.activation
    if activation is None:
        return
    activation.set({a.ATTEMPT: task.attempt})
    activation.end("error", error=error)
    task.decisions = task.author = task.command = None
    task.transfers = task.handoffs = None
    task.attempt += 1


@guarded
def try_again(task: Task) -> None:
    """Open the next try of a task that failed, where nothing is open yet; make it current.

    What was current before the task is current again when it leaves, whatever its tries
    attached.
    """
    before = task.activation
    if before is None or not before.is_closed or before.run.is_closed:
        return
    task.opens, task.by = "delegate", None
    # What led to the first try leads to this one; that the other came back is why it is now.
    causes = [("causal" if kind == "spawn" else kind, mark) for kind, mark in task.edges]
    _open(task, [*causes, ("return", before.closed)]).attach()
