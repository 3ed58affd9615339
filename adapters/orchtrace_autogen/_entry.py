"""Where teams and agents are entered: in a run of their own, or inside the one that is current."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context, get_current

from orchtrace_autogen._content import task_of
from orchtrace_autogen._labels import Label
from orchtrace_autogen._stops import Stop
from orchtrace_autogen._work import Work, work_of
from orchtrace_otel import attributes as a
from orchtrace_otel import content
from orchtrace_otel.flow import Edge, Flow
from orchtrace_otel.spans import (
    Activation,
    Run,
    Value,
    is_suppressed,
    join_run,
    link_runs,
    open_activation,
    outcome,
    scope_of,
    start_run,
)

ORCHESTRATOR = "orchestrator"


class Entry:
    """Where a team or an agent is entered: its activation, and what is to end with it."""

    __slots__ = ("_flow", "activation", "host", "run")

    def __init__(
        self,
        activation: Activation,
        *,
        run: Run | None = None,
        host: Work | None = None,
        back: Flow | None = None,
    ) -> None:
        self.activation = activation
        self.run = run
        self.host = host
        self._flow = back

    @property
    def link(self) -> str | None:
        """What a later run goes on from, `<run id>:<event id>`, once it is closed."""
        activation, run = self.activation, self.activation.run
        if self.host is not None or not run.is_recording:
            return None
        event = run.stop_id if self.run is not None else activation.closed.event_id
        return f"{run.id}:{event}" if event else None

    def close(self, stop: Stop, error: BaseException | None, edges: list[Edge]) -> None:
        """End the activation and, if it was begun here, the run."""
        activation, run = self.activation, self.run
        status, _ = outcome(error)
        failure = error if status == "error" else None
        if run is None or activation is not run.root:
            self._close_activation(stop, status, failure, edges)
            edges = []
        if run is not None:
            run.close(
                stop_reason=stop.reason,
                stop_detail=stop.detail,
                status=status,
                error=failure,
                edges=edges,
            )
            run.root.owner = None

    def _close_activation(
        self, stop: Stop, status: str, error: BaseException | None, edges: list[Edge]
    ) -> None:
        activation = self.activation
        facts: dict[str, Value] = {a.STOP_REASON: stop.reason}
        if stop.detail is not None:
            facts[a.STOP_DETAIL] = stop.detail
        if self.host is not None:
            # The container that speaks for a team closes the turn; one that failed leaves the
            # team's stream behind it, which ends when Python gets around to it.
            if not activation.is_closed:
                activation.set(facts)
            self.host.closing += edges
            return
        activation.close(
            status=status, error=error, edges=edges, attributes=None if self.run else facts
        )
        activation.owner = None
        if self._flow is not None:
            self._flow.returned(activation.closed)


def enter(
    owner: object, label: Label, *, is_team: bool, task: object, links: Sequence[str] = ()
) -> Entry | None:
    """Open an activation for `owner`, below the current one or in a run of its own."""
    context = get_current()
    scope = scope_of(context)
    if scope is None or (scope.run.is_closed and not scope.run.is_remote):
        scope = join_run()
    if scope is None:
        return _enter_run(owner, label, is_team=is_team, task=task, links=links)
    if not scope.run.is_recording or is_suppressed(context):
        return None
    caller = scope.activation
    if caller.owner is owner:
        return Entry(caller, host=work_of(caller, context)) if is_team else None
    flow = scope.flow.here()
    activation = _open(caller, owner, label, flow, context)
    others = [link for link in links if not link.startswith(caller.run.id)]
    if others:
        activation.set({a.RUN_LINKS: others})
        link_runs(activation, others)
    return Entry(activation, back=flow)


def _enter_run(
    owner: object, label: Label, *, is_team: bool, task: object, links: Sequence[str]
) -> Entry | None:
    name, role = label
    run = start_run(
        name,
        agent=name if is_team else ORCHESTRATOR,
        system="autogen",
        task_id=content.task_id((_text(task),), {}),
        links=links,
        attributes={a.ROLE: role} if is_team and role else None,
    )
    if run is None:
        return None
    task_of(run, task)
    root = run.root
    if is_team or not run.is_recording:
        root.owner = owner
        return Entry(root, run=run)
    activation = _open(root, owner, label, root.flow, root.context)
    return Entry(activation, run=run, back=root.flow)


def _open(
    caller: Activation, owner: object, label: Label, flow: Flow, context: Context
) -> Activation:
    name, role = label
    instance, is_new = caller.of_object(name, owner)
    announced = caller.expected(name)
    if announced is not None:
        opens, edges = "begin", [announced, *flow.drain()]
    elif is_new:
        opens, edges = "spawn", flow.take("spawn")
    else:
        opens, edges = "delegate", flow.take()
    if caller.run.inbox:
        edges += caller.run.collect(name)
    activation = open_activation(
        caller, name, opens=opens, instance=instance, role=role, edges=edges, context=context
    )
    activation.owner = owner
    return activation


def _text(task: object) -> object:
    """Return the words of a task, where it is one text."""
    return getattr(task, "content", task)
