"""Messages through the runtime: what is sent carries its cause, what handles it looks it up."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchtrace_autogen import _framework as f
from orchtrace_autogen._calls import Call, follow
from orchtrace_autogen._core import CoreHooks, handled
from orchtrace_autogen._stops import STOPPED
from orchtrace_autogen._team import Cause, TeamRun
from orchtrace_autogen._work import Work
from orchtrace_otel._guard import guarded
from orchtrace_otel.spans import outcome

if TYPE_CHECKING:
    from opentelemetry.context import Context


class Turn(Call):
    """A participant that handles the request to speak."""

    __slots__ = ("_key", "_team", "_work")

    def __init__(self, team: TeamRun, work: Work, key: str) -> None:
        super().__init__(work.context)
        self._team = team
        self._work = work
        self._key = key

    @guarded
    def close(self, _result: Any, error: BaseException | None, /) -> None:
        """End the turn."""
        if self._team.turns.get(self._key) is self._work:
            del self._team.turns[self._key]
        status, _ = outcome(error)
        if status == "cancelled":
            self._work.leave()
        self._work.activation.owner = None
        self._work.activation.close(
            status=status,
            error=error if status == "error" else None,
            edges=self._work.rest(),
        )


class Handling(Call):
    """A manager that handles a message: what its conditions and selectors call follows from it."""

    __slots__ = ("_before", "_flow")

    def __init__(self, team: TeamRun, cause: Cause) -> None:
        super().__init__(team.work.context)
        self._flow = team.activation.flow
        self._before = self._flow.last
        self._flow.last = cause.mark

    def close(self, _result: Any, _error: BaseException | None, /) -> None:
        """Leave the flow as it was: decisions and the stop know their causes themselves."""
        self._flow.last = self._before


class RuntimeHooks:
    """Wrappers of the runtime's sending and of its agents' handling.

    Args:
        teams: The teams that run, by id, which is the key of their agents.
        dropped: The contexts of teams in runs that a sampler dropped, and of suppressed ones.
        core: Follows messages that are not a team's.
    """

    def __init__(
        self, teams: Mapping[str, TeamRun], dropped: Mapping[str, Context], core: CoreHooks
    ) -> None:
        self._teams = teams
        self._dropped = dropped
        self._core = core

    def publish(self, wrapped: Any, runtime: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Stamp what is published to a topic."""
        message = args[0] if args else kwargs.get("message")
        if f.is_one(message, f.STAMPED):
            topic = args[1] if len(args) > 1 else kwargs.get("topic_id")
            self._stamp(runtime, message, kwargs, topic, None)
        elif not f.is_one(message, f.GROUP_CHAT):
            return self._core.publish(wrapped, runtime, args, kwargs)
        return wrapped(*args, **kwargs)

    def send(self, wrapped: Any, runtime: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Stamp what is sent to one agent."""
        message = args[0] if args else kwargs.get("message")
        if f.is_one(message, f.STAMPED):
            recipient = args[1] if len(args) > 1 else kwargs.get("recipient")
            self._stamp(runtime, message, kwargs, recipient, recipient)
        elif not f.is_one(message, f.GROUP_CHAT):
            return self._core.send(wrapped, runtime, args, kwargs)
        return wrapped(*args, **kwargs)

    @guarded
    def _stamp(
        self, runtime: Any, message: Any, kwargs: dict[str, Any], receiver: Any, agent: Any
    ) -> None:
        sender = kwargs.get("sender")
        known = agent if sender is None else sender
        team = None if known is None else self._teams.get(known.key)
        if team is None:
            return
        message_id = kwargs.get("message_id")
        if message_id is None:
            # The runtime would mint one just like it.
            message_id = kwargs["message_id"] = str(uuid.uuid4())
        if team.runtime is None:
            team.runtime = weakref.ref(runtime)
        team.send(message, message_id, sender, receiver.type)

    def stop(self, wrapped: Any, runtime: Any, args: Any, kwargs: Any) -> Any:
        """Note that a runtime is stopped at once: its teams, too, end by that."""
        self._stop(runtime)
        return self._core.stop(wrapped, runtime, args, kwargs)

    @guarded
    def _stop(self, runtime: Any) -> None:
        for team in list(self._teams.values()):  # others begin in threads of their own
            if team.runtime is not None and team.runtime() is runtime and team.stopped is None:
                team.stopped = STOPPED

    def handle(self, wrapped: Any, agent: f.RoutedAgent, args: Any, kwargs: Any) -> Any:
        """Trace what an agent of a team that runs does with a message of the team's."""
        if not args or not f.is_one(args[0], f.STAMPED):
            return wrapped(*args, **kwargs)
        team = self._teams.get(agent.id.key)
        if team is None:
            context = self._dropped.get(agent.id.key)
            work = wrapped(*args, **kwargs)
            # What its agents call begins no runs: the host's runtime knows nothing of theirs.
            return work if context is None else follow(lambda: Call(context), work)
        if not isinstance(agent, f.ChatAgentContainer):
            return follow(lambda: _handling(team, agent, args, kwargs), wrapped(*args, **kwargs))
        if type(args[0]) is not f.Request:
            return wrapped(*args, **kwargs)
        return follow(lambda: _turn(team, agent, args, kwargs), wrapped(*args, **kwargs))


@guarded
def _turn(team: TeamRun, container: f.ChatAgentContainer, args: Any, kwargs: Any) -> Call | None:
    cause = team.cause_of(handled(args, kwargs).message_id)
    if cause is None:
        return None
    return Turn(team, team.open_turn(container, cause), container.id.type)


@guarded
def _handling(team: TeamRun, agent: f.RoutedAgent, args: Any, kwargs: Any) -> Call | None:
    if not isinstance(agent, f.BaseGroupChatManager):
        return None
    cause = team.cause_of(handled(args, kwargs).message_id)
    # Nothing is opened: what a manager does is the orchestrator's own work.
    if cause is None:
        return Call(team.work.context)
    team.handle(cause)
    return Handling(team, cause)
