"""A group chat's manager: whom it chooses, which branches of a flow met, why it stops."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from orchtrace_autogen import _framework as f
from orchtrace_autogen._content import stopping
from orchtrace_autogen._stops import Stop, stop_of
from orchtrace_autogen._team import FlowState, TeamRun
from orchtrace_otel._guard import guarded


class Awaited(NamedTuple):
    """An edge group of a flow before an answer counts for it.

    Attributes:
        is_first: Whether nothing has counted for it so far.
    """

    target: str
    group: str
    is_any: bool
    state: int
    is_first: bool


class ManagerHooks:
    """Wrappers of the managers' methods.

    Args:
        teams: The teams that run, by id, which is the key of their managers.
    """

    def __init__(self, teams: Mapping[str, TeamRun]) -> None:
        self._teams = teams
        self._flows: MutableMapping[Any, FlowState] = weakref.WeakKeyDictionary()

    def chosen(self, wrapped: Any, manager: f.BaseGroupChatManager, args: Any, kwargs: Any) -> Any:
        """Record the choice that a manager logs before it asks the speakers."""
        self._choose(manager, args[0] if args else kwargs.get("speaker_names"))
        return wrapped(*args, **kwargs)

    @guarded
    def _choose(self, manager: f.BaseGroupChatManager, names: Any) -> None:
        team = self._teams.get(manager.id.key)
        if team is None:
            return
        if isinstance(manager, f.GraphFlowManager):
            self._follow(manager, team)
        topics = f.topics(manager)
        candidates, team.candidates = team.candidates, None
        if candidates is None:
            candidates = _candidates(manager, names, topics)
        team.decide(names, topics, candidates)

    def selecting(
        self, wrapped: Any, manager: f.SelectorGroupChatManager, args: Any, kwargs: Any
    ) -> Any:
        """Remember whom a selector's model may choose from."""
        self._offer(manager, args[1] if len(args) > 1 else kwargs.get("participants"))
        return wrapped(*args, **kwargs)

    @guarded
    def _offer(self, manager: f.SelectorGroupChatManager, participants: Any) -> None:
        team = self._teams.get(manager.id.key)
        if team is not None:
            team.candidates = list(participants)

    def _follow(self, manager: f.GraphFlowManager, team: TeamRun) -> None:
        """Find what a flow waits for, which outlasts the call that a limit cut off."""
        if team.flow is not None:
            return
        run = team.activation.run.id
        known = self._flows.get(manager)
        if known is not None and known.run == run:
            team.go_on(known)
        else:
            team.flow = self._flows[manager] = FlowState(run)

    def anew(self, wrapped: Any, manager: f.GraphFlowManager, args: Any, kwargs: Any) -> Any:
        """Forget what a flow waits for: it is over, was reset, or has the state of another time."""
        self._forget(manager)
        return wrapped(*args, **kwargs)

    @guarded
    def _forget(self, manager: f.GraphFlowManager) -> None:
        self._flows.pop(manager, None)

    async def arrived(
        self, wrapped: Any, manager: f.GraphFlowManager, args: Any, kwargs: Any
    ) -> Any:
        """Record for which groups of a flow an answer counts."""
        before = self._awaited(manager, args[0] if args else kwargs.get("messages"))
        result = await wrapped(*args, **kwargs)
        if before:
            self._arrive(manager, before)
        return result

    @guarded
    def _awaited(self, manager: f.GraphFlowManager, messages: Any) -> list[Awaited]:
        team = self._teams.get(manager.id.key)
        if team is None:
            return []
        self._follow(manager, team)
        edges, kinds, origin, remaining, enqueued = f.graph_tables(manager)
        source = messages[-1].source if messages else None
        # In the order of the edges, by which AutoGen asks a target that is due for two groups.
        groups = dict.fromkeys((e.target, e.activation_group) for e in edges.get(source, ()))
        awaited: list[Awaited] = []
        for target, group in groups:
            is_any = kinds[target][group] == "any"
            state = int(enqueued[target][group] if is_any else remaining[target][group])
            is_first = is_any or state == origin[target][group]
            awaited.append(Awaited(target, group, is_any, state, is_first))
        return awaited

    @guarded
    def _arrive(self, manager: f.GraphFlowManager, before: list[Awaited]) -> None:
        team = self._teams[manager.id.key]
        *_, remaining, enqueued = f.graph_tables(manager)
        for target, group, is_any, state, is_first in before:
            now = int(enqueued[target][group] if is_any else remaining[target][group])
            # At zero the group was complete before it came: AutoGen forgets it. Where several edges
            # lead from one agent to another, it may fall below.
            if now != state and (is_any or state > 0):
                is_complete = is_any or now <= 0
                team.arrive(target, group, is_first=is_first, is_complete=is_complete)

    def stops(self, wrapped: Any, manager: f.BaseGroupChatManager, args: Any, kwargs: Any) -> Any:
        """Record the condition that ended a team."""
        self._stop(manager, args[0] if args else kwargs.get("message"))
        return wrapped(*args, **kwargs)

    @guarded
    def _stop(self, manager: f.BaseGroupChatManager, message: Any) -> None:
        team = self._teams.get(manager.id.key)
        if team is not None and team.stopped is None:
            team.stopped = stop_of(manager, message.source, message.content)
            stopping(team.activation, message.content)
        _is_over(team)

    def fails(self, wrapped: Any, manager: f.BaseGroupChatManager, args: Any, kwargs: Any) -> Any:
        """Record the class of the error that ended a team; AutoGen raises another one."""
        self._fail(manager, args[0] if args else kwargs.get("error"))
        return wrapped(*args, **kwargs)

    @guarded
    def _fail(self, manager: f.BaseGroupChatManager, error: Any) -> None:
        team = self._teams.get(manager.id.key)
        if team is not None:
            team.stopped = Stop("error", str(error.error_type))
        _is_over(team)


def _candidates(
    manager: f.BaseGroupChatManager, names: Sequence[str], topics: Mapping[str, str]
) -> list[str] | None:
    """Return who could have been chosen, where the manager asked no model; None where unknown."""
    if isinstance(manager, f.GraphFlowManager):
        return None
    if isinstance(manager, f.SelectorGroupChatManager) and len(names) == 1:
        is_only = f.chose_the_only_one(manager, names[0])
        if is_only is not False:
            return [*names] if is_only else None
    return list(topics)


def _is_over(team: TeamRun | None) -> None:
    if team is not None and team.on_stop is not None:
        team.on_stop()
