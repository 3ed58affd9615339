"""Stretches of time with a span of their own: the one place that starts and ends spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Token
from typing import TYPE_CHECKING, Any, ClassVar, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded, note
from orchtrace_otel.content import gate
from orchtrace_otel.flow import NOBODY, Edge, Flow, Mark, Unit, unit
from orchtrace_otel.spans._carrying import carrying
from orchtrace_otel.spans._outcome import error_type
from orchtrace_otel.spans._text import all_writable, is_writable, writable
from orchtrace_otel.spans._tracing import Attributes, Value

if TYPE_CHECKING:
    from orchtrace_otel.spans._activation import Activation
    from orchtrace_otel.spans._run import Run

_CONTEXT: Final = "_context"
"""Where the SDK's spans keep their context; see `Interval.become`."""
_SCOPE: Final = otel_context.create_key("orchtrace-scope")
_SPAN: Final = next(iter(trace.set_span_in_context(trace.INVALID_SPAN, Context())))
"""Key of the current span; one new context is made instead of two, on the hot path."""


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
        "_flow",
        "_link",
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

    ends: ClassVar[tuple[str, str]] = ("", "")
    """What its first and its last event are called behind its span's id."""

    def __init__(  # noqa: PLR0913 - every part is needed at the start, where samplers look
        self,
        run: Run,
        parent: Activation | None,
        name: str,
        attributes: dict[str, Value],
        edges: Sequence[Edge],
        context: Context | None,
    ) -> None:
        if context is None and parent is not None:
            context = parent.context
        links: list[Link] = []
        if not is_writable(attributes):
            attributes = all_writable(attributes)
        if not name.isascii():
            name = writable(name)
        if edges:
            attributes[a.EDGES] = [f"{kind}:{event_id}" for kind, (event_id, _) in edges]
            links = [link for _, (_, link) in edges]
        is_apart = a.ACTIVATION in attributes
        if parent is not None and is_apart:
            context = _in_one_trace(parent, context, attributes, links)
        run.open_spans += 1  # first of all: the run may end meanwhile, in another thread
        span: Span | None = None
        try:
            self.span = span = run.tracing.tracer.start_span(
                name, context=context, attributes=attributes, links=links, start_time=run.now()
            )
            self._span_context = span_context = span.get_span_context()
            self.span_id = span_context.span_id.to_bytes(8, "big").hex()  # faster than a format
            self.run = run
            self.parent = parent
            self.is_closed = False
            self._written = attributes
            self._parent_context = context
            self._link: Link | None = None
            self._flow: Flow | None = None
            self._owner: Unit | None = None
            if is_apart or run.is_remote or run.is_bare or run.watcher is not None:
                self._tell(run, is_apart=is_apart)
        except BaseException:  # an interrupt, or a processor of the host's
            _break_off(run, span)
            raise

    @property
    def opened(self) -> Mark:
        """The event that began it."""
        return Mark(self.span_id + self.ends[0], self._link or self._linked())

    @property
    def closed(self) -> Mark:
        """The event that ended it; edges may start there once it is closed."""
        return Mark(self.span_id + self.ends[1], self._link or self._linked())

    def _linked(self) -> Link:
        self._link = Link(self._span_context)
        return self._link

    def become(self, span_context: SpanContext) -> None:
        """Give its span another context of the same ids.

        Once a span has started the SDK offers no public way: a span of another make
        is left alone.
        """
        span: Any = self.span
        if isinstance(span, (ReadableSpan, trace.NonRecordingSpan)):
            setattr(span, _CONTEXT, span_context)
            self._span_context = span_context
            self._link = None

    def _tell(self, run: Run, *, is_apart: bool) -> None:
        """Tell of a beginning who must hear of it."""
        if is_apart or run.is_remote or run.is_bare:
            self._carry_own(run)
        if run.watcher is not None:
            run.watcher.began(self)

    def _carry_own(self, run: Run) -> None:
        """Name its run in its tracestate, where the span around it names none, or another.

        So does the host's sampler that hands no tracestate on: a run's root tells what is below
        it all the same, but one in another process may never come to who reads the spans. Of one
        that hands no attributes on, these are set again.
        """
        if run.is_bare:
            self.span.set_attributes(self._written)
        own, root_id = self._span_context, run.id.rpartition("-")[2]
        if own.trace_state.get(a.TRACESTATE_KEY) != root_id:
            self.become(carrying(own, root_id))

    @property
    def written(self) -> Attributes:
        """The attributes that it has from us so far."""
        return self._written

    def set(self, attributes: Attributes) -> None:
        """Set attributes while it is open."""
        if not is_writable(attributes):
            attributes = all_writable(attributes)
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
        try:
            if edges or attributes or status != "ok" or error is not None:
                self._write_close(status, edges, error, attributes)
            self.write_again()
        finally:  # whatever comes in between, such as an interrupt
            self._finish(self.run, self.run.now())

    def _write_close(
        self,
        status: str,
        edges: Sequence[Edge],
        error: BaseException | None,
        attributes: Attributes | None,
    ) -> None:
        more: dict[str, Value] = dict(attributes) if attributes else {}
        if edges:
            for _, mark in edges:
                self.span.add_link(mark.link.context)
            more[a.EDGES_CLOSE] = [f"{kind}:{mark.event_id}" for kind, mark in edges]
        if status != "ok":
            more[a.STATUS] = status
        if error is not None:
            more[a.ERROR_TYPE] = error_type(error)
            if gate.recorder is not None:
                more.update(gate.recorder.error(self.run, error) or {})
        if status == "error":
            self.span.set_status(Status(StatusCode.ERROR))
        self.set(more)

    def write_again(self) -> None:
        """Set our attributes again where the host filled the span up: the SDK evicts the oldest."""
        if getattr(self.span, "dropped_attributes", 0):
            self.span.set_attributes(self._written)

    @property
    def began(self) -> int:
        """When it began, nanoseconds since the epoch; now, of a span that does not tell."""
        return getattr(self.span, "start_time", None) or self.run.now()

    def end_at(self, end: int) -> None:
        """End an instant, which is when it began."""
        self.is_closed = True
        self._finish(self.run, end)

    def _finish(self, run: Run, end: int) -> None:
        try:
            if run.watcher is not None:
                run.watcher.ends(self, end)
        finally:  # it may ask the host's code, and an interrupt may come there
            span = self.span
            end_span(span, end)
            followed = run.followed
            if followed is not None:
                followed.ended(span)
                run.open_spans -= 1  # not before: the run may end meanwhile, without it
            elif run.is_closed and run.is_recording and "given_up" not in run.flags:
                observer = run.tracing.observer
                if observer is not None:
                    observer.lose("late_spans")


def _break_off(run: Run, span: Span | None) -> None:
    """End a span, if it has begun, of which nobody gets to know who could end it."""
    run.open_spans -= 1
    if span is not None:
        end_span(span, run.now())
        run.flag("open_spans")


def end_span(span: Span, end: int) -> None:
    """End a span, whatever the host's processors, which the SDK asks then, do about it."""
    try:
        span.end(end)
    except Exception as error:  # noqa: BLE001 - not ours, and the run goes on
        note("the end of a span", error, "a span processor of the application", "cost its own work")


class Scope(Interval):
    """An interval in which plain code runs: an activation, or a tool call.

    Attributes:
        source: The flow of control that it was called from and returns to, of a call of
            a decorated function; None of a tool call that an adapter opened, until such a call
            shows that it is the same.
        inside: Agents' work and tool calls right below an activation that are open, as it is.
    """

    __slots__ = ("inside", "source")

    ends = (".open", ".close")
    inside: set[Scope] | None
    source: Flow | None

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
    def outside(self) -> Scope | None:
        """The scope that was current where it began; None where there was none."""
        around = self._parent_context
        found = None if around is None else around.get(_SCOPE)
        return found if isinstance(found, Scope) else None

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
            if flow.has_moved:
                causes.insert(0, ("causal", flow.last))
            edges = [*causes, *edges]
        Interval.end(self, status, edges, error, attributes)
        around = None if self.parent is None else self.parent.inside
        if around:
            around.discard(self)
        if self.inside:
            self.inside.clear()  # what goes on holds its parent, and would wait for the collector

    def let_go(self) -> None:
        """Forget the task that worked in it: one that failed keeps its error, and all frames."""
        self._owner = None
        if self._flow is not None:
            self._flow.owner = NOBODY


keepers: Final[list[Callable[[Scope | None], Scope | None]]] = []
"""Adapters that know the scope where others put contexts of their own in place of ours."""


def _in_one_trace(
    parent: Activation, context: Context | None, attributes: dict[str, Value], links: list[Link]
) -> Context | None:
    """Return where a span begins that has another span around it than its activation's.

    A run lies in one OTel trace. Where the host's span around is of another one, what is of
    the run begins right below its activation, with a link to the host's span.
    """
    around = trace.get_current_span(context).get_span_context()
    if around.trace_id == parent.span.get_span_context().trace_id:
        return context
    del attributes[a.ACTIVATION]
    if around.is_valid:
        links.append(Link(around))
    return Context({**(context or {}), _SPAN: parent.span})


def lies_below(span: Span, context: Context | None) -> bool:
    """Whether what begins under `context` has `span` as its OTel parent; None stands for it."""
    return context is None or context.get(_SPAN) is span


def scope_of(context: Context) -> Scope | None:
    """Return the activation or tool call in which code runs under `context`, if any."""
    found = context.get(_SCOPE)
    scope = found if isinstance(found, Scope) else None
    if keepers:
        for keeper in keepers:
            scope = keeper(scope)
    return scope
