"""A task of a graph: the activation of the agent that its node is."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from uuid import UUID

from opentelemetry import context as otel_context
from opentelemetry.context import Context

from orchtrace_langgraph._open_turns import give_up
from orchtrace_langgraph._pauses import asked
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Flow, Mark
from orchtrace_otel.spans import Activation, Scope, Value

if TYPE_CHECKING:
    from orchtrace_langgraph._decisions import Decision
    from orchtrace_langgraph._graphs import Node
    from orchtrace_langgraph._handoffs import Transfer
    from orchtrace_langgraph._runs import GraphRun


T = TypeVar("T")


class Handoffs:
    """What is known of the hand-offs of a task.

    Attributes:
        author: The task inside that handed over with `Command(graph=PARENT)`.
        command: That command, until the task has closed.
        is_back: Whether it is a worker that hands back to its supervisor.
        left: Identity of the exception with which it handed over itself.
        transfers: Its tool calls that answered with a command.
        made: The delegations that it recorded, by node, or by identity of a packet.
    """

    __slots__ = ("author", "command", "is_back", "left", "made", "transfers")

    def __init__(self) -> None:
        self.author: Task | None = None
        self.command: Any = None
        self.is_back = False
        self.left: int | None = None
        self.transfers: list[Transfer] = []
        self.made: dict[str | int, Mark] = {}


class Place(NamedTuple):
    """Where a task is called: an activation or a tool call, and the flow that it returns to."""

    scope: Scope
    flow: Flow


class Task:
    """One task of a step.

    Attributes:
        run: The run of the graph that it belongs to.
        name: Name of its node.
        known: What is known of its node.
        edges: Causes of its opening.
        informed: Who wrote what it reads, as edges into its opening.
        facts: What its opening says that those of most tasks do not.
        attempt: Which try it is.
        ended: Where edges from it start: its end, or the decision not to run it, where its
            result was in a cache; None where nothing is known of it, as after a resume.
        has_failed: Whether it ended with an error that nobody handled.
        has_asked: Whether a run or a task inside of it has recorded the interrupt it ends with.
        opens: How it opens: `spawn` or `delegate`; `begin` after a hand-off.
        by: The agent that handed over to it.
        instance: Which life of the agent it is.
        activation: Its activation, once it runs.
        caller: The task in which it was called, in the functional API.
        place: Where in it that was.
        knew: How much of what came back there it knew.
        handoffs: What is known of its hand-offs, once there may be one.
        inside: Runs of graphs that it, or what it calls, has open.
        decisions: What its routers chose, by router, and where its command goes, by None.
        turns: LLM calls that are still open, by LangChain's id.
    """

    __slots__ = (
        "activation",
        "attempt",
        "by",
        "caller",
        "decisions",
        "edges",
        "ended",
        "facts",
        "handoffs",
        "has_asked",
        "has_failed",
        "id",
        "informed",
        "inside",
        "instance",
        "knew",
        "known",
        "name",
        "opens",
        "place",
        "run",
        "turns",
    )

    def __init__(self, run: GraphRun, host: Any, known: Node) -> None:
        self.run = run
        self.id: str = host.id
        self.name: str = host.name
        self.known = known
        self.edges: list[Edge] = []
        self.informed: list[Edge] = []
        self.facts: dict[str, Value] | None = None
        self.attempt = 1
        self.ended: tuple[Mark, ...] | None = None
        self.has_failed = False
        self.has_asked = False
        self.opens = "spawn"
        self.instance: str | None = None
        self.activation: Activation | None = None
        self.caller: Task | None = None
        self.place: Place | None = None
        self.knew = 0
        self.handoffs: Handoffs | None = None
        self.by: str | None = None
        self.decisions: dict[int | None, Decision] | None = None
        self.turns: set[UUID] | None = None
        self.inside: set[GraphRun] | None = None

    def marks(self) -> tuple[Mark, ...]:
        """Return where edges from it start; where it never ran, those into it do."""
        if self.ended is not None:
            return self.ended
        if self.known.is_hidden:
            return (self.run.activation.opened,)
        return tuple(mark for _, mark in self.edges)

    def hand_over(self) -> Handoffs:
        """Return where to note what is known of its hand-offs."""
        if self.handoffs is None:
            self.handoffs = Handoffs()
        return self.handoffs

    @property
    def author(self) -> Task | None:
        """The task inside that handed over, and that the node is for others then."""
        return None if self.handoffs is None else self.handoffs.author

    def say(self, key: str, value: Value) -> None:
        """Let its opening say something more."""
        if self.facts is None:
            self.facts = {}
        self.facts[key] = value


Entered = tuple[Token["Task | None"], Token[Context]]

CURRENT: Final[ContextVar[Task | None]] = ContextVar("orchtrace_langgraph_task", default=None)
"""The task whose code runs here."""

CALLING: Final[ContextVar[Place | None]] = ContextVar("orchtrace_langgraph_calling", default=None)
"""Where a task is being called that is taken in elsewhere."""


def place() -> Place | None:
    """Return where a task is called now."""
    scope = spans.scope_of(otel_context.get_current())
    noted = CALLING.get()
    if noted is not None and noted.scope is scope:
        return noted
    return None if scope is None else Place(scope, scope.flow.here())


def here() -> Task | None:
    """Return the task whose code runs here; none in a graph that the host wants left alone."""
    return None if spans.is_suppressed(otel_context.get_current()) else CURRENT.get()


waiting: Final[dict[int, Task]] = {}
"""Tasks that are about to run, by identity of the host's own task object."""

running: Final[dict[int, Task]] = {}
"""Tasks that run, by identity of LangGraph's id, since runs that go on from one checkpoint have
tasks of equal ids: a graph invoked with a task's configuration in a thread that carries no
context still finds its parent, and no mark of ours is left in the configuration, which users
see in streams."""


@guarded
def enter(task: Task) -> Entered:
    """Open a task's activation and make it current; `leave` follows in the same context."""
    if task.known.is_hidden:
        token = otel_context.attach(task.run.context)
    else:
        token = _open(task, task.edges).attach()
        running[id(task.id)] = task  # not before: what does not open is never left
    return CURRENT.set(task), token


def _open(task: Task, edges: list[Edge]) -> Activation:
    run, known, place = task.run, task.known, task.place
    activation = spans.open_activation(
        run.activation if place is None else place.scope.activation,
        known.agent,
        opens=task.opens,
        instance=task.instance,
        by=task.by,
        role=known.role,
        edges=[*edges, *task.informed] if task.informed else edges,
        attributes=task.facts,
        context=run.context if place is None else place.scope.context,
    )
    # The decorated function that the node runs finds itself named here and opens nothing.
    activation.owner = known.plan
    task.activation = activation
    task.ended = (activation.closed,)
    return activation


@guarded
def leave(task: Task, entered: Entered | None, error: BaseException | None) -> None:
    """Close a task's activation and make current what was before."""
    if task.turns:
        task.run.turns |= task.turns  # what it began in the background may go on
    if entered is None:
        return
    restore(CURRENT, *entered)
    activation = task.activation
    if activation is None:
        return
    running.pop(id(task.id), None)
    if error is None:
        activation.end("ok")
    else:
        _fail(task, activation, error)
    if task.place is not None:
        task.place.flow.returned_beside(activation.closed, task.knew)
        task.place.scope.activation.release(activation.agent, activation.instance)


def restore(where: ContextVar[T], place: Token[T], token: Token[Context]) -> None:
    """Make current what was before, for us and for OpenTelemetry.

    A coroutine that is thrown away is closed wherever that happens; in another context than
    that in which it began there is nothing to restore.
    """
    try:
        where.reset(place)
    except ValueError:
        return
    otel_context.detach(token)


def _fail(task: Task, activation: Activation, error: BaseException) -> None:
    """Close the activation of a task that an exception leaves, which need not be an error."""
    status, reason = spans.outcome(error)
    if reason == "handoff":
        task.hand_over().left = id(error)
    task.has_failed = status == "error"
    if status == "paused":
        asked(task, activation, error)
    elif status == "cancelled":
        abandon(task)
        _despawn(task, activation)
    activation.end(status, error=error if status == "error" else None)


def _despawn(task: Task, activation: Activation) -> None:
    """Record that LangGraph ends a task because another of its step failed, if that is so.

    No edge leads from there to its end: what failed did not trigger the task.
    """
    # A copy: tasks of the functional API are called from other threads meanwhile.
    failed = [other for other in list(task.run.tasks.values()) if other.has_failed]
    if failed:
        causes: list[Edge] = [("causal", mark) for other in failed for mark in other.marks()]
        spans.instant(task.run.activation, "despawn", to=activation.agent, edges=causes)


@guarded
def abandon(task: Task | None) -> None:
    """End what is open inside a task: LangGraph goes on, and does not wait for it."""
    if task is None:
        return
    for run in tuple(task.inside or ()):
        run.end(None, CancelledError())
    activation = task.activation
    if activation is not None and activation.inside:
        # Tasks that it called are ended as such.
        activation.leave_inside({one.activation for one in list(task.run.tasks.values())})


def left_running(tasks: Iterable[Task]) -> None:
    """End what still runs of the tasks of a run that ends.

    An asynchronous run that is cancelled while it waits for its tasks waits no more.
    """
    for task in [*tasks]:
        activation = task.activation
        if activation is None or activation.is_closed:
            continue
        abandon(task)
        give_up(task.turns or ())
        _despawn(task, activation)
        activation.end("cancelled")


def failed(task: Task, error: BaseException) -> None:
    """Close a try that failed; `try_again` follows, unless the run is given up meanwhile."""
    activation = task.activation
    if activation is None:
        return
    if not activation.is_closed:  # else LangGraph no longer waits for it
        activation.set({a.ATTEMPT: task.attempt})
    activation.end("error", error=error)
    task.decisions = task.handoffs = None
    task.attempt += 1
    task.say(a.ATTEMPT, task.attempt)


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
