"""One stretch of work by an agent, and what it remembers of the agents it calls."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel_context
from opentelemetry import trace

from orchtrace_otel.flow import Edge, Mark, unit
from orchtrace_otel.spans._interval import Scope, scope_of
from orchtrace_otel.spans._tracing import Value

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from orchtrace_otel.spans._run import Run

MOST_WAITING: Final = 10_000
"""Results and messages that one activation or run remembers until they are used."""


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
        Scope.__init__(self, run, parent, name, attributes, edges, context)
        self.agent = agent
        self.instance = instance
        self.role = role
        self.idle: dict[str, list[str]] | None = None
        self.announced: dict[str, deque[Edge]] | None = None
        self.results: deque[tuple[Mark, int, str]] | None = None
        self.owner: object = None
        self.inside = set()
        if parent is not None:
            parent.hold(self)

    @property
    def activation(self) -> Activation:
        """Itself."""
        return self

    def hold(self, scope: Scope) -> None:
        """Know of work that begins right below it, unless it is over itself."""
        if self.inside is not None and not self.is_closed:
            self.inside.add(scope)

    def leave_inside(self, but: Collection[Scope | None] = ()) -> None:
        """End what is open below it, the innermost first: nobody waits for that any more.

        Args:
            but: What somebody else ends, with all that is below.
        """
        for scope in [*(self.inside or ())]:
            if scope not in but:
                if isinstance(scope, Activation):
                    scope.leave_inside(but)
                scope.end("cancelled")

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
        announced = self.announced.setdefault(agent, deque(maxlen=MOST_WAITING))
        if len(announced) == MOST_WAITING:
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
        idle = self.idle.get(agent)
        if idle is None:
            self.idle[agent] = [instance]
        else:
            idle.append(instance)

    def remember(self, mark: Mark, result: object, agent: str) -> None:
        """Remember what a callee gave back, by identity, for an aggregate that merges it."""
        if self.results is None:
            self.results = deque(maxlen=MOST_WAITING)
        self.results.append((mark, id(result), agent))


class Elsewhere(Activation):
    """What stands for the activation that a span from elsewhere comes from; no event of ours."""

    __slots__ = ()

    ends = ("", "")

    def __init__(self, run: Run, span: trace.Span, context: Context) -> None:
        self.run = run
        self.parent = None
        self.span = span
        self._span_context = span.get_span_context()
        self.span_id = f"{self._span_context.span_id:016x}"
        self.is_closed = False
        self._parent_context = context
        self._link = None
        self._flow = None
        self._owner = unit()
        self.agent = self.instance = ""
        self.role = None
        self.idle = self.announced = self.results = self.owner = self.inside = None


def current() -> Activation | None:
    """Return the activation that is current in this OTel context, if any."""
    return of(otel_context.get_current())


def of(context: Context) -> Activation | None:
    """Return the activation that is current in `context`, if any."""
    scope = scope_of(context)
    return None if scope is None else scope.activation
