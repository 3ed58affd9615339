"""Runs of teams and of agents on their own: what opens them and how they end."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextvars import Token
from typing import Any

from opentelemetry.context import Context, attach, get_current

from orchtrace_autogen import _framework as f
from orchtrace_autogen._calls import Call, drive, follow
from orchtrace_autogen._labels import Label, Labels
from orchtrace_autogen._resume import Resumed
from orchtrace_autogen._stops import IDLE, UNKNOWN, Stop
from orchtrace_autogen._team import TeamRun
from orchtrace_autogen._work import Work, team_of, work_of
from orchtrace_otel import attributes as a
from orchtrace_otel import content
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Edge, Flow, unit
from orchtrace_otel.spans import (
    Activation,
    Run,
    Value,
    error_type,
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
            # The container that speaks for a team closes the turn.
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


class _Entered(Call):
    """An agent or a team that is entered, current while it works."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry, work: Work) -> None:
        super().__init__(work.context)
        self.entry = entry

    def attach(self) -> Token[Context]:
        self.entry.activation.flow.owner = unit()
        return attach(self.context)


class AgentCall(_Entered):
    """An agent that runs on its own."""

    __slots__ = ("work",)

    def __init__(self, entry: Entry) -> None:
        self.work = Work(entry.activation, team_of(entry.activation.run, get_current()))
        super().__init__(entry, self.work)

    @guarded
    def close(self, result: Any, error: BaseException | None, /) -> None:
        """End the agent's work, and the run that it was."""
        team = self.work.team
        if team is not None and isinstance(result, f.TaskResult) and result.messages:
            # A team whose agent asked another by a tool hands its answer on to others.
            team.messages.note(result.messages[-1].id, self.work.activation.closed)
        stop = Stop(outcome(error)[1], None if error is None else error_type(error))
        self.entry.close(stop, error, self.work.rest())


class TeamCall(_Entered):
    """A team that runs, until its result is out or its stream is closed."""

    __slots__ = ("_is_over", "_leave", "team")

    def __init__(self, entry: Entry, team: TeamRun, leave: Callable[[Entry], None]) -> None:
        super().__init__(entry, team.work)
        self.team = team
        self._leave = leave
        self._is_over = False

    @guarded
    def seen(self, item: Any, /) -> None:
        """End the team with its result: what its consumer does afterwards is not its work."""
        if isinstance(item, f.TaskResult) and not self.team.turns:
            self._end(None)

    @guarded
    def close(self, _result: Any, error: BaseException | None, /) -> None:
        """End the team, whichever way its stream ended."""
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        team = self.team
        stop = team.stopped or (IDLE if team.is_embedded else UNKNOWN)
        if error is not None:
            status, reason = outcome(error)
            detail = team.stopped.detail if team.stopped is not None and status == "error" else None
            stop = Stop(reason, detail or error_type(error))
        edge_type = "causal" if self.entry.run is not None else "return"
        edges = team.ending(edge_type) + team.work.rest()
        self.entry.close(stop, error, edges)
        self._leave(self.entry)


class RunHooks:
    """Wrappers of the entries of teams and agents.

    Args:
        teams: The teams that run, by id; the runtime's hooks look them up.
        labels: The names that the host gave to its objects.
        resumed: What runs of teams go on from.
    """

    def __init__(
        self, teams: MutableMapping[str, TeamRun], labels: Labels, resumed: Resumed
    ) -> None:
        self._teams = teams
        self._labels = labels
        self._resumed = resumed

    def team_stream(self, wrapped: Any, team: f.BaseGroupChat, args: Any, kwargs: Any) -> Any:
        """Trace `BaseGroupChat.run_stream`, which `run` consumes too."""
        return drive(lambda: self._open_team(team, args, kwargs), wrapped(*args, **kwargs))

    def agent_run(self, wrapped: Any, agent: f.BaseChatAgent, args: Any, kwargs: Any) -> Any:
        """Trace `BaseChatAgent.run`."""
        return follow(lambda: self._open_agent(agent, args, kwargs), wrapped(*args, **kwargs))

    def agent_stream(self, wrapped: Any, agent: f.BaseChatAgent, args: Any, kwargs: Any) -> Any:
        """Trace `BaseChatAgent.run_stream`."""
        return drive(lambda: self._open_agent(agent, args, kwargs), wrapped(*args, **kwargs))

    @guarded
    def _open_team(
        self, team: f.BaseGroupChat, args: Any, kwargs: Mapping[str, Any]
    ) -> Call | None:
        label = self._labels.of(team) or Label(f.team_name(team))
        link = self._resumed.link(team)
        entry = enter(
            team,
            label,
            is_team=True,
            task=_task(args, kwargs),
            links=() if link is None else (link,),
        )
        if entry is None:
            return None
        activation = entry.activation
        running = TeamRun(activation, team_of(activation.run, get_current()), self._labels)
        running.is_embedded = f.is_embedded(team)
        team_id = f.team_id(team)
        # A team that runs already refuses to run again; the one that runs keeps its place.
        before = self._teams.get(team_id)
        if before is not None and before.on_stop is not None:
            before.on_stop()
            before = None
        if before is None and activation.run.is_recording:
            self._teams[team_id] = running
        return TeamCall(entry, running, functools.partial(self._leave, team, running))

    def _leave(self, team: f.BaseGroupChat, running: TeamRun, entry: Entry) -> None:
        """Follow a team no more, unless its caller left it to a runtime that goes on."""
        team_id = f.team_id(team)
        if self._teams.get(team_id) is not running:
            return
        link = entry.link
        if link is not None:
            self._resumed.ended(team, link)
        if running.is_embedded or running.stopped is not None:
            del self._teams[team_id]
            return
        teams = self._teams

        def forget(_: object = None) -> None:
            if teams.get(team_id) is running:
                del teams[team_id]
            # They hold each other, and would wait for the garbage collector.
            running.on_stop = running.host = None

        # Until its manager ends it, it runs again, or it is gone.
        running.on_stop = forget
        running.host = weakref.ref(team, forget)

    @guarded
    def _open_agent(
        self, agent: f.BaseChatAgent, args: Any, kwargs: Mapping[str, Any]
    ) -> Call | None:
        label = self._labels.of(agent) or Label(agent.name)
        entry = enter(agent, label, is_team=False, task=_task(args, kwargs))
        return None if entry is None else AgentCall(entry)


def _task(args: Any, kwargs: Mapping[str, Any]) -> object:
    return args[0] if args else kwargs.get("task")
