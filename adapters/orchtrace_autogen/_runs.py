"""Runs of teams and of agents on their own: what opens them and how they end."""

from __future__ import annotations

import functools
import weakref
from asyncio import CancelledError
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import Token
from typing import Any

from opentelemetry.context import Context, attach, get_current

from orchtrace_autogen import _framework as f
from orchtrace_autogen._calls import Call, drive, follow
from orchtrace_autogen._entry import Entry, enter
from orchtrace_autogen._labels import Label, Labels
from orchtrace_autogen._resume import Resumed
from orchtrace_autogen._stops import IDLE, STOPPED, UNKNOWN, Stop
from orchtrace_autogen._team import Remembered, TeamRun
from orchtrace_autogen._work import Work, around
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Mark, unit
from orchtrace_otel.spans import Run, error_type, is_suppressed, outcome, scope_of


class _Entered(Call):
    """An agent or a team that is entered, current while it works."""

    __slots__ = ("_caller", "_is_over", "entry")

    def __init__(self, entry: Entry, work: Work, caller: Work | None) -> None:
        super().__init__(work.context)
        self.entry = entry
        self._is_over = False
        self._caller = caller
        if self._caller is not None:
            self._caller.inside[self] = None

    def attach(self) -> Token[Context]:
        activation = self.entry.activation
        if not activation.is_closed:  # what comes after a team's result is its consumer's
            activation.flow.owner = unit()
        return attach(self.context)

    def _is_first_end(self) -> bool:
        """Whether it ends now, and has not yet."""
        if self._caller is not None:
            self._caller.inside.pop(self, None)
        was_over, self._is_over = self._is_over, True
        return not was_over


class AgentCall(_Entered):
    """An agent that runs on its own."""

    __slots__ = ("work",)

    def __init__(self, entry: Entry) -> None:
        caller = around(entry.activation.run, get_current())
        self.work = Work(entry.activation, None if caller is None else caller.team)
        super().__init__(entry, self.work, caller)

    def left(self) -> None:
        """End the work for whoever called the agent; a run is over when its agent is."""
        if self.entry.run is None:
            self.close(None, GeneratorExit())

    @guarded
    def close(self, result: Any, error: BaseException | None, /) -> None:
        """End the agent's work, and the run that it was."""
        if not self._is_first_end():
            return
        if outcome(error)[0] == "cancelled":
            self.work.leave()
        team = self.work.team
        if team is not None and isinstance(result, f.TaskResult) and result.messages:
            # A team whose agent asked another by a tool hands its answer on to others.
            team.messages.note(result.messages[-1].id, self.work.activation.closed)
        stop = Stop(outcome(error)[1], None if error is None else error_type(error))
        self.entry.close(stop, error, self.work.rest())


class TeamCall(_Entered):
    """A team that runs, until its result is out or its stream is closed."""

    __slots__ = ("_leave", "team")

    def __init__(self, entry: Entry, team: TeamRun, leave: Callable[[Entry], None]) -> None:
        super().__init__(entry, team.work, around(entry.activation.run, get_current()))
        self.team = team
        self._leave = leave

    @guarded
    def seen(self, item: Any, /) -> None:
        """End the team with its result: what its consumer does afterwards is not its work."""
        if isinstance(item, f.TaskResult) and not self.team.turns:
            self._end(None)

    @guarded
    def close(self, _result: Any, error: BaseException | None, /) -> None:
        """End the team, whichever way its stream ended."""
        self._end(error)

    @guarded
    def give_up(self) -> None:
        """End the turns that are open, and the team with them."""
        for turn in [*self.team.turns.values()]:
            turn.leave()
            turn.activation.close(status="cancelled", edges=turn.rest())
        self._end(CancelledError())

    def _end(self, error: BaseException | None) -> None:
        if not self._is_first_end():
            return
        team = self.team
        stop = team.stopped or (IDLE if team.is_embedded else UNKNOWN)
        if error is not None:
            status, reason = outcome(error)
            detail = team.stopped.detail if team.stopped is not None and status == "error" else None
            # A team whose runtime was stopped waits for ever: who gives it up is not why.
            is_stopped = status == "cancelled" and team.stopped is STOPPED
            stop = STOPPED if is_stopped else Stop(reason, detail or error_type(error))
        edge_type = "causal" if self.entry.run is not None else "return"
        edges = team.ending(edge_type) + team.work.rest()
        self.entry.close(stop, error, edges)
        self._leave(self.entry)


class DroppedTeam(Call):
    """A team inside a run that a sampler dropped, or where instrumentation is suppressed."""

    __slots__ = ("_leave",)

    def __init__(self, context: Context, leave: Callable[[], object]) -> None:
        super().__init__(context)
        self._leave = leave

    @guarded
    def close(self, _result: Any, _error: BaseException | None, /) -> None:
        """Forget it."""
        self._leave()


class RunHooks:
    """Wrappers of the entries of teams and agents.

    Args:
        teams: The teams that run, by id; the runtime's hooks look them up.
        dropped: The contexts of teams in runs that a sampler dropped, and of suppressed ones.
        labels: The names that the host gave to its objects.
        resumed: What runs of teams go on from.
    """

    def __init__(
        self,
        teams: MutableMapping[str, TeamRun],
        dropped: MutableMapping[str, Context],
        labels: Labels,
        resumed: Resumed,
    ) -> None:
        self._teams = teams
        self._dropped = dropped
        self._labels = labels
        self._resumed = resumed
        self._messages: MutableMapping[Run, Remembered[Mark]] = weakref.WeakKeyDictionary()

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
            return self._unseen(team)
        activation = entry.activation
        running = TeamRun(activation, self._messages_of(activation.run), self._labels)
        running.is_embedded = f.is_embedded(team)
        team_id = f.team_id(team)
        # A team that runs already refuses to run again; the one that runs keeps its place.
        before = self._teams.get(team_id)
        if before is not None and before.on_stop is not None:
            before.on_stop()
            before = None
        if not activation.run.is_recording:
            self._dropped[team_id] = activation.context
        elif before is None:
            self._teams[team_id] = running
        return TeamCall(entry, running, functools.partial(self._leave, team, running))

    def _messages_of(self, run: Run) -> Remembered[Mark]:
        """Return what was said in a run so far: its teams, and their later calls, read on."""
        messages = self._messages.get(run)
        if messages is None:
            messages = self._messages[run] = Remembered(run)
        return messages

    def _unseen(self, team: f.BaseGroupChat) -> Call | None:
        """Have what a team's agents call on a runtime of the host's be seen as little."""
        context = get_current()
        scope = scope_of(context)
        is_dropped = scope is not None and not scope.run.is_recording
        if not is_dropped and not is_suppressed(context):
            return None
        team_id = f.team_id(team)
        self._dropped[team_id] = context
        return DroppedTeam(context, lambda: self._dropped.pop(team_id, None))

    def _leave(self, team: f.BaseGroupChat, running: TeamRun, entry: Entry) -> None:
        """Follow a team no more, unless its caller left it to a runtime that goes on."""
        team_id = f.team_id(team)
        self._dropped.pop(team_id, None)
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
