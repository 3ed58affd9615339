"""The one place that starts and ends spans.

A `Run` is an `invoke_workflow` root with all that happens below it. Stretches of
work are `Interval`s: activations of agents (`invoke_agent`), tool calls, LLM calls,
and events that take time. Everything else is an instant, a span without length.
Parents are given, never guessed; edges are written on the later span twice, as OTel
links, which people and backends see, and as string arrays, which no limit on links
cuts. Nothing here keeps a context attached: callers attach and detach around the
code they run, and never across a yield.
"""

from __future__ import annotations

import re
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, Tracer

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Flow, Mark, Unit, unit
from orchtrace_otel.model import EDGE_TYPES

if TYPE_CHECKING:
    from orchtrace_otel.model import Reward

Value: TypeAlias = str | bool | int | float | Sequence[str] | Sequence[int]
Attributes: TypeAlias = Mapping[str, Value]

_SCOPE: Final = otel_context.create_key("orchtrace-scope")
_SPAN: Final = next(iter(trace.set_span_in_context(trace.INVALID_SPAN, Context())))
"""Key of the current span; one new context is made instead of two, on the hot path."""
_SUPPRESSED: Final = otel_context._SUPPRESS_INSTRUMENTATION_KEY  # noqa: SLF001 - it has no public name
_LINK_ATTRIBUTES: Final = {kind: {a.EDGE_TYPE: kind} for kind in EDGE_TYPES}
_SPAN_ID: Final = re.compile("(?!0{16})[0-9a-f]{16}")
_IDS: Final = RandomIdGenerator()
_MOST_WAITING: Final = 10_000
"""Results and messages that one activation or run remembers until they are used."""


class Follower(Protocol):
    """Who follows one run while it is open."""

    def ended(self, interval: Interval, end: int) -> None:
        """Take an interval of the run whose span has ended."""


class Observer(Protocol):
    """Who follows runs from their opening to their close: the pipeline."""

    def opened(self, run: Run) -> Follower:
        """Follow a run from now on."""
        ...

    def closing(self, run: Run, end: int) -> Attributes:
        """Build and score a run that ends at `end`; what is returned is set on its root."""
        ...

    def late(self, run_id: str, reward: Reward) -> None:
        """Take a reward for a run that is closed or runs elsewhere."""

    def lose(self, what: str) -> None:
        """Count what was lost."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where spans go, and who follows the runs."""

    tracer: Tracer
    observer: Observer | None = None
    clock: Any = None
    """Nanoseconds since the epoch, for tests; None for the system's clocks."""
    provider: trace.TracerProvider | None = None
    """Where `tracer` comes from; a framework's own spans inside our runs go there too."""


_configured: Tracing | None = None
_global: tuple[object, Tracing | None] = (None, None)


def use(tracing: Tracing | None) -> Tracing | None:
    """Make `tracing` the one that new runs use; return the one before."""
    global _configured  # noqa: PLW0603 - the one switch of the whole process
    before, _configured = _configured, tracing
    return before


def is_configured() -> bool:
    """Whether somebody said where spans go, be it `configure` or a test."""
    return _configured is not None


def tracing() -> Tracing | None:
    """Return where new runs go; None while nobody listens."""
    if _configured is not None:
        return _configured
    global _global  # noqa: PLW0603 - remembers the tracer of the provider seen last
    provider = trace.get_tracer_provider()
    if provider is not _global[0]:
        _global = (provider, _of_provider(provider))
    return _global[1]


def ignore(provider: trace.TracerProvider) -> None:
    """Begin no runs through a global provider: whoever set it for us has shut down."""
    global _global  # noqa: PLW0603 - see tracing
    _global = (provider, None)


def _of_provider(provider: trace.TracerProvider) -> Tracing | None:
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    tracer = provider.get_tracer(a.SCOPE)
    return None if isinstance(tracer, trace.NoOpTracer) else Tracing(tracer, provider=provider)


class Interval:
    """A stretch of time with a span: a tool call, an LLM call, an event that takes time.

    Attributes:
        run: The run it belongs to.
        parent: The activation it belongs to; None for a run's root.
        span: Its span; current nowhere by itself.
        span_id: Its span's id, 16 hexadecimal digits.
        is_closed: Whether it has ended.
    """

    __slots__ = (
        "_ends",
        "_flow",
        "_owner",
        "_parent_context",
        "_span_context",
        "_written",
        "is_closed",
        "parent",
        "run",
        "span",
        "span_id",
    )

    def __init__(  # noqa: PLR0913 - every part is needed at the start, where samplers look
        self,
        run: Run,
        parent: Activation | None,
        name: str,
        attributes: dict[str, Value],
        edges: Sequence[Edge],
        context: Context | None,
        ends: tuple[str, str],
    ) -> None:
        if context is None and parent is not None:
            context = parent.context
        links: list[Link] = []
        if edges:
            items: list[str] = []
            for kind, mark in edges:
                items.append(f"{kind}:{mark.event_id}")
                links.append(Link(mark.context, _LINK_ATTRIBUTES[kind]))
            attributes[a.EDGES] = items
        self.span = span = run.tracing.tracer.start_span(
            name, context=context, attributes=attributes, links=links, start_time=run.now()
        )
        self._span_context = span_context = span.get_span_context()
        self.span_id = f"{span_context.span_id:016x}"
        self.run = run
        self.parent = parent
        self.is_closed = False
        run.open_spans += 1
        self._ends = ends
        self._written = attributes
        self._parent_context = context
        self._flow: Flow | None = None
        self._owner: Unit | None = None

    @property
    def opened(self) -> Mark:
        """The event that began it."""
        return Mark(self.span_id + self._ends[0], self._span_context)

    @property
    def closed(self) -> Mark:
        """The event that ended it; edges may start there once it is closed."""
        return Mark(self.span_id + self._ends[1], self._span_context)

    def set(self, attributes: Attributes) -> None:
        """Set attributes while it is open."""
        self._written.update(attributes)
        self.span.set_attributes(attributes)

    @guarded
    def close(
        self,
        *,
        status: str = "ok",
        edges: Sequence[Edge] = (),
        error: BaseException | None = None,
        attributes: Attributes | None = None,
    ) -> None:
        """End it, once; a second call does nothing.

        Args:
            status: `ok error cancelled paused`; only `error` is an error to OTel.
            edges: Causes that enter its closing.
            error: What it ended with; its class is recorded, its text never.
            attributes: Further attributes, such as a turn's usage.
        """
        self.end(status, edges, error, attributes)

    def end(
        self,
        status: str,
        edges: Sequence[Edge] = (),
        error: BaseException | None = None,
        attributes: Attributes | None = None,
    ) -> None:
        """Do what `close` does, for callers that are guarded themselves."""
        if self.is_closed:
            return
        self.is_closed = True
        span = self.span
        more: dict[str, Value] = dict(attributes) if attributes else {}
        if edges:
            for kind, mark in edges:
                span.add_link(mark.context, _LINK_ATTRIBUTES[kind])
            more[a.EDGES_CLOSE] = [f"{kind}:{mark.event_id}" for kind, mark in edges]
        if status != "ok":
            more[a.STATUS] = status
        if error is not None:
            more[a.ERROR_TYPE] = error_type(error)
        if more:
            span.set_attributes(more)
            self._written.update(more)
        if status == "error":
            span.set_status(Status(StatusCode.ERROR))
        self.write_again()
        self._finish(self.run.now())

    def write_again(self) -> None:
        """Set our attributes again where the host filled the span up: the SDK evicts the oldest."""
        span = self.span
        if isinstance(span, ReadableSpan) and (span.dropped_attributes or span.dropped_links):
            span.set_attributes(self._written)

    def end_at_start(self) -> int:
        """End an instant when it began; return that time, nanoseconds since the epoch."""
        self.is_closed = True
        start = getattr(self.span, "start_time", None) or self.run.now()
        self._finish(start)
        return start

    def _finish(self, end: int) -> None:
        self.span.end(end)
        run = self.run
        run.open_spans -= 1
        if run.followed is not None:
            run.followed.ended(self, end)
        elif run.is_closed and run.is_recording and "given_up" not in run.flags:
            observer = run.tracing.observer
            if observer is not None:
                observer.lose("late_spans")


class Scope(Interval):
    """An interval in which plain code runs: an activation, or a tool call.

    """

    __slots__ = ()

    @property
    def activation(self) -> Activation:
        """The activation it is, or belongs to."""
        parent = self.parent
        assert parent is not None, "only a root has no parent, and a root is an activation"  # noqa: S101 - for the type checkers
        return parent

    @property
    def context(self) -> Context:
        """OTel context with its span and itself current.

        Made anew each time: a scope that held its context, which holds the scope, would
        wait for the garbage collector, and so would its span.
        """
        return Context({**(self._parent_context or {}), _SPAN: self.span, _SCOPE: self})

    @property
    def flow(self) -> Flow:
        """Implicit causes of what is called in it; made when something is."""
        flow = self._flow
        if flow is None:
            flow = self._flow = Flow(self.opened, self._owner or unit())
        return flow

    def attach(self) -> Token[Context]:
        """Make it current for the task or thread that asks; never across a yield."""
        self._owner = unit()
        if self._flow is not None:
            self._flow.owner = self._owner
        return otel_context.attach(self.context)

    @staticmethod
    def detach(token: Token[Context]) -> None:
        """Undo `attach`, in the context in which it was called."""
        otel_context.detach(token)

    def end(
        self,
        status: str,
        edges: Sequence[Edge] = (),
        error: BaseException | None = None,
        attributes: Attributes | None = None,
    ) -> None:
        """End it; what its flow did last and what came back to it enter the closing."""
        flow = self._flow
        if flow is not None and not self.is_closed:
            causes = flow.drain()
            if flow.last.event_id != self.opened.event_id:
                causes.insert(0, ("causal", flow.last))
            edges = [*causes, *edges]
        super().end(status, edges, error, attributes)


class Activation(Scope):
    """One stretch of work by an agent.

    Attributes:
        agent: Name of the agent.
        instance: Which life of the agent inside the run.
        role: Its role, if it has one.
        idle: Instances of agents called from here that may be used again, by name.
        announced: Spawns and delegations that were recorded ahead of the call.
        results: Closes of callees that no aggregate has merged yet.
        owner: The object whose entry method this is, while it is open.
    """

    __slots__ = (
        "__weakref__",
        "agent",
        "announced",
        "idle",
        "instance",
        "owner",
        "results",
        "role",
    )

    def __init__(  # noqa: PLR0913 - see Interval
        self,
        run: Run,
        parent: Activation | None,
        name: str,
        attributes: dict[str, Value],
        edges: Sequence[Edge],
        context: Context | None,
        agent: str,
        instance: str,
        role: str | None,
    ) -> None:
        super().__init__(run, parent, name, attributes, edges, context, _ENDS)
        self.agent = agent
        self.instance = instance
        self.role = role
        self.idle: dict[str, list[str]] | None = None
        self.announced: dict[str, deque[Edge]] | None = None
        self.results: deque[tuple[Mark, int, str]] | None = None
        self.owner: object = None

    @property
    def activation(self) -> Activation:
        """Itself."""
        return self

    def busy(self, agent: str) -> tuple[str, bool]:
        """Return an instance of `agent` for a call from here, and whether it is a new life."""
        idle = self.idle.get(agent) if self.idle else None
        if idle:
            return idle.pop(), False
        return self.run.instance(agent), True

    def of_object(self, agent: str, owner: object) -> tuple[str, bool]:
        """Return the instance that `owner` is in this run, and whether it is a new life."""
        known = self.run.objects.get(id(owner))
        if known is not None and known[0]() is owner:
            return known[1], False
        instance = self.run.instance(agent)
        try:
            self.run.objects[id(owner)] = (weakref.ref(owner), instance)
        except TypeError:
            self.run.flag("objects_not_told_apart")
        return instance, True

    def announce(self, agent: str, edge: Edge) -> None:
        """Remember that a spawn or a delegation was recorded ahead of a call of `agent`."""
        if self.announced is None:
            self.announced = {}
        announced = self.announced.setdefault(agent, deque(maxlen=_MOST_WAITING))
        if len(announced) == _MOST_WAITING:
            self.run.flag("announcements_forgotten")
        announced.append(edge)

    def expected(self, agent: str) -> Edge | None:
        """Return what announced the call of `agent` that begins now, the oldest one first."""
        waiting = self.announced.get(agent) if self.announced else None
        return waiting.popleft() if waiting else None

    def release(self, agent: str, instance: str) -> None:
        """Give an instance back: the next call of that name from here uses it again."""
        if self.idle is None:
            self.idle = {}
        self.idle.setdefault(agent, []).append(instance)

    def remember(self, mark: Mark, result: object, agent: str) -> None:
        """Remember what a callee gave back, by identity, for an aggregate that merges it."""
        if self.results is None:
            self.results = deque(maxlen=_MOST_WAITING)
        self.results.append((mark, id(result), agent))


_ENDS: Final = (".open", ".close")
_POINT: Final = ("", "")


class Run:
    """One execution of a team, from a task to a stop.

    Attributes:
        id: `<OTel trace id>-<span id of the root>`.
        trace_id: The OTel trace id, 32 hexadecimal digits.
        name: Name of the team.
        is_remote: Whether its root lives in another process.
        is_recording: Whether the sampler lets it be recorded.
        is_closed: Whether it has stopped.
        rewards: What users gave so far.
        flags: What is known to be lost.
        inbox: Messages that nobody has read yet, by recipient.
        objects: Objects that are agents, by identity, and the instance each one is.
        stopping: Reason and detail that the host gave for the stop to come.
        stop_id: Id of the stop's event, once there is one; later runs link to it.
        followed: Who follows it, while somebody does.
        open_spans: How many of its spans are open, the root among them.
    """

    __slots__ = (
        "_instances",
        "_last",
        "_monotonic",
        "_root",
        "_wall",
        "_where",
        "flags",
        "followed",
        "id",
        "inbox",
        "is_closed",
        "is_recording",
        "is_remote",
        "name",
        "objects",
        "open_spans",
        "rewards",
        "stop_id",
        "stopping",
        "trace_id",
        "tracing",
    )

    def __init__(self, tracing: Tracing, name: str) -> None:
        self.tracing = tracing
        self.name = name
        self.id = ""
        self.trace_id = ""
        self._root: Activation | weakref.ref[Activation]
        self.is_remote = False
        self.is_recording = True
        self.is_closed = False
        self.rewards: list[Reward] = []
        self.flags: set[str] = set()
        self.inbox: dict[str, list[Mark]] = {}
        self.objects: dict[int, tuple[weakref.ref[Any], str]] = {}
        self.stopping: tuple[str, str | None] | None = None
        self.stop_id = ""
        self.followed: Follower | None = None
        self.open_spans = 0
        self._instances: dict[str, int] = {}
        self._where = ""
        self._wall = time.time_ns()
        self._monotonic = time.perf_counter_ns()
        self._last = 0

    @property
    def root(self) -> Activation:
        """Activation of the orchestrator; of a run that is closed, while somebody holds it.

        Raises:
            ReferenceError: If nobody does.
        """
        root = self._root
        if isinstance(root, Activation):
            return root
        held = root()
        if held is None:
            msg = f"the root of a closed run must be held by who needs it, run {self.id} has none"
            raise ReferenceError(msg)
        return held

    @root.setter
    def root(self, root: Activation) -> None:
        self._root = root

    def now(self) -> int:
        """Nanoseconds since the epoch; later than every time given before in this run.

        One reading of the wall clock a run, carried on by the monotonic one: a clock
        that is set back while a run is open must not put effects before their causes.
        """
        clock = self.tracing.clock
        if clock is not None:
            now = int(clock())
        else:
            now = self._wall + time.perf_counter_ns() - self._monotonic
        if now <= self._last:
            now = self._last + 1
        self._last = now
        return now

    def instance(self, agent: str) -> str:
        """Return the id of a new life of `agent` in this run, such as `critic#2`."""
        number = self._instances.get(agent, 0) + 1
        self._instances[agent] = number
        return f"{agent}#{self._where}{number}"

    def flag(self, name: str) -> None:
        """Say that something of the run was lost."""
        self.flags.add(name)

    def record(self, reward: Reward) -> None:
        """Take a reward that a user gave while the run is open."""
        self.rewards.append(reward)

    def post(self, recipient: str, mark: Mark) -> None:
        """Leave a message for the next activation of `recipient`."""
        waiting = self.inbox.setdefault(recipient, [])
        if len(waiting) < _MOST_WAITING:
            waiting.append(mark)
        else:
            self.flag("messages_forgotten")

    def collect(self, recipient: str) -> list[Edge]:
        """Return the messages that wait for `recipient`, which now reads them."""
        return [("message", mark) for mark in self.inbox.pop(recipient, ())]

    @guarded
    def close(  # noqa: PLR0913 - one keyword a fact of the stop
        self,
        *,
        stop_reason: str = "information_complete",
        stop_detail: str | None = None,
        status: str = "ok",
        error: BaseException | None = None,
        edges: Sequence[Edge] = (),
    ) -> None:
        """Stop the run, once: record the stop, score the run, and end its root.

        Args:
            stop_reason: One of `model.STOP_REASONS`; `orchtrace.stop(...)` in the
                host's code goes before it, unless the run did not end well.
            stop_detail: The framework's words; a class name while content is off.
            status: `ok error cancelled paused`.
            error: What the run ended with; its class is recorded.
            edges: Causes of the stop beside those that the root's flow knows.
        """
        if self.is_closed or self.is_remote:
            return
        self.is_closed = True
        root = self.root
        if self.stopping is not None and status == "ok":
            stop_reason, stop_detail = self.stopping
        end = self._stop(stop_reason, stop_detail, status, error, edges)
        if error is not None:
            root.set({a.ERROR_TYPE: error_type(error)})
        if status != "ok":
            root.set({a.STATUS: status})
        if status == "error":
            root.span.set_status(Status(StatusCode.ERROR))
        root.write_again()
        observer = self.tracing.observer
        results = observer.closing(self, end) if observer is not None else None
        if results:
            root.span.set_attributes(results)
            root.write_again()
        root.is_closed = True
        root.span.end(end)
        # The two hold each other, and would wait for the garbage collector.
        self._root = weakref.ref(root)

    def _stop(
        self,
        reason: str,
        detail: str | None,
        status: str,
        error: BaseException | None,
        edges: Sequence[Edge],
    ) -> int:
        flow = self.root.flow
        causes = flow.drain()
        causes += edges
        if not causes or flow.last.event_id != self.root.opened.event_id:
            causes.insert(0, ("causal", flow.last))
        facts: dict[str, Value] = {a.STOP_REASON: reason}
        if detail is not None:
            facts[a.STOP_DETAIL] = detail
        if status != "ok":
            facts[a.STATUS] = status
        if error is not None:
            facts[a.ERROR_TYPE] = error_type(error)
        stop = _open_point(self.root, "stop", "stop", causes, facts)
        self.stop_id = stop.span_id
        return stop.end_at_start()


def current() -> Activation | None:
    """Return the activation that is current in this OTel context, if any."""
    return of(otel_context.get_current())


def of(context: Context) -> Activation | None:
    """Return the activation that is current in `context`, if any."""
    scope = scope_of(context)
    return None if scope is None else scope.activation


def scope_of(context: Context) -> Scope | None:
    """Return the activation or tool call in which code runs under `context`, if any."""
    found = context.get(_SCOPE)
    return found if isinstance(found, Scope) else None


def is_suppressed(context: Context) -> bool:
    """Whether instrumentation is suppressed in `context`."""
    return bool(context.get(_SUPPRESSED))


@guarded
def start_run(  # noqa: PLR0913 - one keyword a fact of the run
    name: str,
    *,
    agent: str | None = None,
    system: str = "python",
    task_id: str | None = None,
    tags: Mapping[str, str] | None = None,
    links: Sequence[str] = (),
    attributes: Attributes | None = None,
) -> Run | None:
    """Open a run below whatever span is current; None while nobody listens.

    Args:
        name: Name of the team; low in cardinality.
        agent: Name of the orchestrator's agent; the team's name unless given.
        system: `langgraph`, `autogen` or `python`.
        task_id: What was asked, if the user has a name for it.
        tags: The user's own keys and values.
        links: Causes in other runs, each `<run id>:<event id>`.
        attributes: Further attributes of the root.
    """
    where = tracing()
    context = otel_context.get_current()
    if where is None or is_suppressed(context):
        return None
    run = Run(where, name)
    agent = agent or name
    facts: dict[str, Value] = {
        a.OPERATION: a.INVOKE_WORKFLOW,
        a.WORKFLOW_NAME: name,
        a.AGENT_NAME: agent,
        a.OPENS: "begin",
        a.INSTANCE: run.instance(agent),
        a.SYSTEM: system,
    }
    if task_id is not None:
        facts[a.TASK_ID] = task_id
    if tags:
        facts.update({a.TAG_PREFIX + key: value for key, value in tags.items()})
    if links:
        facts[a.RUN_LINKS] = list(links)
    if attributes:
        facts.update(attributes)
    root = Activation(
        run,
        None,
        f"{a.INVOKE_WORKFLOW} {name}",
        facts,
        (),
        context,
        agent,
        str(facts[a.INSTANCE]),
        None,
    )
    run.root = root
    span_context = root.span.get_span_context()
    run.trace_id = format(span_context.trace_id, "032x")
    run.id = f"{run.trace_id}-{root.span_id}"
    run.is_recording = root.span.is_recording()
    link_runs(root, links)
    _carry(root)
    if run.is_recording:
        root.set({a.RUN_ID: run.id})
        if where.observer is not None:
            run.followed = where.observer.opened(run)
    return run


_LINKED: Final = re.compile("([0-9a-f]{32})-[0-9a-f]{16}:([0-9a-f]{16})")


def link_runs(interval: Interval, links: Sequence[str]) -> None:
    """Point OTel links at causes in other runs, each `<run id>:<event id>`."""
    for item in links:
        found = _LINKED.match(item)
        if found is not None:
            trace_id, span_id = int(found[1], 16), int(found[2], 16)
            interval.span.add_link(SpanContext(trace_id, span_id, is_remote=True))


def _carry(root: Activation) -> None:
    """Put the run into the tracestate of its root.

    Samplers hand a parent's tracestate on to its children, so everything below,
    the host's own HTTP spans included, takes the run along to another process. The
    root's id is known only when its span has started, and then the SDK offers no
    public way: a span of another make is left alone, and carries nothing.
    """
    span: Any = root.span
    own = root.span.get_span_context()
    if isinstance(span, (ReadableSpan, trace.NonRecordingSpan)):
        state = own.trace_state.update(a.TRACESTATE_KEY, root.span_id)
        carrying = SpanContext(own.trace_id, own.span_id, own.is_remote, own.trace_flags, state)
        span._context = root._span_context = carrying  # noqa: SLF001 - see above


@guarded
def join_run() -> Activation | None:
    """Return the activation of another process that the current context comes from, if any.

    With the run id in tracestate, what is called here belongs to the caller's run:
    it gets no root, and its first cause is the span that called.
    """
    context = otel_context.get_current()
    span = trace.get_current_span(context)
    remote = span.get_span_context()
    if not remote.is_valid:
        return None
    root_id = remote.trace_state.get(a.TRACESTATE_KEY)
    where = tracing() if root_id is not None and _SPAN_ID.fullmatch(root_id) else None
    if where is None or is_suppressed(context):
        return None
    run = Run(where, "")
    run.is_remote = True
    run.trace_id = format(remote.trace_id, "032x")
    run.id = f"{run.trace_id}-{root_id}"
    # Two processes, or two calls from one span, must not mint one instance id.
    ids = getattr(where.tracer, "id_generator", None) or _IDS
    run._where = f"{ids.generate_span_id():016x}."  # noqa: SLF001 - our own
    caller = Activation.__new__(Activation)
    caller.run = run
    caller.parent = None
    caller.span = span
    caller.span_id = format(remote.span_id, "016x")
    caller._ends = _POINT  # noqa: SLF001 - our own, made without a span
    caller._span_context = remote  # noqa: SLF001 - see above
    caller.is_closed = False
    caller.agent = caller.instance = ""
    caller.role = None
    caller._parent_context = context  # noqa: SLF001 - see above
    caller._flow = None  # noqa: SLF001 - see above
    caller._owner = unit()  # noqa: SLF001 - see above
    caller.idle = caller.announced = caller.results = caller.owner = None
    run.root = caller
    run.is_recording = remote.trace_flags.sampled
    return caller


def open_activation(  # noqa: PLR0913 - one keyword a fact of the opening
    parent: Activation,
    agent: str,
    *,
    opens: str = "spawn",
    instance: str | None = None,
    role: str | None = None,
    by: str | None = None,
    edges: Sequence[Edge] = (),
    attributes: Attributes | None = None,
    context: Context | None = None,
) -> Activation:
    """Open a stretch of work by `agent` below `parent`.

    Args:
        parent: The activation that contains it.
        agent: Name of the agent.
        opens: `spawn` when it begins the instance's life, `delegate` when the
            instance is used again, `begin` when an instant recorded either already.
        instance: The instance, from `Run.instance`; a new one unless given.
        role: The agent's role.
        by: Agent that caused it, where it is not the parent's.
        edges: Causes of the opening.
        attributes: Further attributes.
        context: OTel context of its span where that is not right below `parent`.
    """
    run = parent.run
    if instance is None:
        instance = run.instance(agent)
    facts: dict[str, Value] = {
        a.OPERATION: a.INVOKE_AGENT,
        a.AGENT_NAME: agent,
        a.RUN_ID: run.id,
        a.OPENS: opens,
        a.INSTANCE: instance,
    }
    if role is not None:
        facts[a.ROLE] = role
    if by is not None:
        facts[a.BY] = by
    if attributes:
        facts.update(attributes)
    _name_parent(parent, context, facts)
    return Activation(
        run,
        parent,
        f"{a.INVOKE_AGENT} {agent}",
        facts,
        edges,
        context,
        agent,
        instance,
        role,
    )


def _name_parent(parent: Activation, context: Context | None, facts: dict[str, Value]) -> None:
    """Name the activation on a span whose OTel parent is another span, such as a user's."""
    if context is not None and trace.get_current_span(context) is not parent.span:
        facts[a.ACTIVATION] = parent.span_id


def open_tool(  # noqa: PLR0913 - one keyword a fact of the call
    parent: Activation,
    tool: str,
    *,
    call_id: str | None = None,
    edges: Sequence[Edge] = (),
    attributes: Attributes | None = None,
    context: Context | None = None,
) -> Scope:
    """Open a call of `tool` by the agent of `parent`."""
    facts: dict[str, Value] = {
        a.OPERATION: a.EXECUTE_TOOL,
        a.TOOL_NAME: tool,
        a.AGENT_NAME: parent.agent,
        a.RUN_ID: parent.run.id,
    }
    if call_id is not None:
        facts[a.TOOL_CALL_ID] = call_id
    if attributes:
        facts.update(attributes)
    _name_parent(parent, context, facts)
    return Scope(parent.run, parent, f"{a.EXECUTE_TOOL} {tool}", facts, edges, context, _ENDS)


def open_turn(
    parent: Activation,
    model: str | None,
    *,
    provider: str | None = None,
    attributes: Attributes | None = None,
    context: Context | None = None,
) -> Interval:
    """Open an LLM call by the agent of `parent`; its usage is set when it closes."""
    facts: dict[str, Value] = {a.OPERATION: a.CHAT, a.VERB: a.TURN}
    if model is not None:
        facts[a.REQUEST_MODEL] = model
    if provider is not None:
        facts[a.PROVIDER] = provider
    if attributes:
        facts.update(attributes)
    _name_parent(parent, context, facts)
    name = a.CHAT if model is None else f"{a.CHAT} {model}"
    return Interval(parent.run, parent, name, facts, (), context, _POINT)


def open_interval(  # noqa: PLR0913 - one keyword a fact of the event
    parent: Activation,
    verb: str,
    *,
    name: str | None = None,
    edges: Sequence[Edge] = (),
    attributes: Attributes | None = None,
    context: Context | None = None,
) -> Interval:
    """Open an event that takes time: an aggregate, a decision, a human's intervention."""
    facts: dict[str, Value] = dict(attributes) if attributes else {}
    _name_parent(parent, context, facts)
    return _open_point(parent, verb, f"{verb} {name or parent.agent}", edges, facts, context)


def instant(
    parent: Activation,
    verb: str,
    *,
    to: str | None = None,
    edges: Sequence[Edge] = (),
    attributes: Attributes | None = None,
) -> Mark:
    """Record an event without length by the agent of `parent`, and return its mark."""
    facts: dict[str, Value] = dict(attributes) if attributes else {}
    if to is not None:
        facts[a.TO] = to
    point = _open_point(parent, verb, f"{_SPAN_VERB.get(verb, verb)} {to or parent.agent}", edges, facts)
    point.end_at_start()
    return point.opened


_SPAN_VERB: Final = {"message": "send"}


def _open_point(
    parent: Activation,
    verb: str,
    name: str,
    edges: Sequence[Edge],
    facts: dict[str, Value],
    context: Context | None = None,
) -> Interval:
    facts[a.VERB] = verb
    facts[a.RUN_ID] = parent.run.id
    facts.setdefault(a.AGENT_NAME, parent.agent)
    return Interval(parent.run, parent, name, facts, edges, context, _POINT)


outcomes: Final[dict[type[BaseException], tuple[str, str]]] = {
    Exception: ("error", "error"),
    GeneratorExit: ("cancelled", "consumer_closed"),
    KeyboardInterrupt: ("cancelled", "cancelled"),
    BaseException: ("cancelled", "external"),
}
"""Status and stop reason of what ends with an exception; adapters add their
framework's own ways of pausing and handing over, which are no errors."""


def outcome(error: BaseException | None) -> tuple[str, str]:
    """Return the status and the stop reason of what ended with `error`.

    Example:
        >>> outcome(None), outcome(ValueError()), outcome(GeneratorExit())
        (('ok', 'information_complete'), ('error', 'error'), ('cancelled', 'consumer_closed'))
    """
    if error is None:
        return ("ok", "information_complete")
    kinds = type(error).__mro__
    if any(kind.__name__ == "CancelledError" for kind in kinds):
        return ("cancelled", "cancelled")  # asyncio's, without importing asyncio
    return next(outcomes[kind] for kind in kinds if kind in outcomes)


def error_type(error: BaseException) -> str:
    """Return the class of an error as the conventions write it, never its text."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
