"""Runs a recorded team again from the turn before a change, as a fresh team of its own."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from autogen_agentchat.base import TaskResult
from autogen_agentchat.teams import BaseGroupChat
from opentelemetry import context as otel_context

from orchtrace_autogen._replay_record import Record, of_content, of_messages
from orchtrace_autogen._replay_target import Recorded
from orchtrace_autogen._replay_team import KINDS, TURNS, Before, Replay, as_it_was
from orchtrace_autogen._replay_tools import held_tools
from orchtrace_otel.errors import ConfigError, ReplayBlockedError
from orchtrace_otel.playback import play_back, playback
from orchtrace_otel.replay import Change, Player, describe, is_replaying

if TYPE_CHECKING:
    from orchtrace_otel.model import Trace
    from orchtrace_otel.replay import Score


def find_recorded(target: Any) -> Recorded | None:
    """Return where the recorded run of a target is; None where it is neither team nor factory."""
    if isinstance(target, Recorded):
        return target
    if isinstance(target, BaseGroupChat):
        return Recorded(team=target)
    return Recorded(team=target) if _is_factory(target) else None


def _is_factory(target: Any) -> bool:
    """Whether a function says of itself that it builds a team."""
    if not callable(target):
        return False
    try:
        told = inspect.get_annotations(target, eval_str=True).get("return")
    except (NameError, TypeError):
        told = None
    return inspect.isclass(told) and issubclass(told, BaseGroupChat)


class TeamReplayer:
    """Runs a team again.

    Args:
        recorded: The team and its run.
        trace: The trace of it.
        score: From the `TaskResult` to the outcome.

    Raises:
        ConfigError: If the team cannot be built, or its messages are not known.
    """

    def __init__(self, recorded: Recorded, trace: Trace, score: Score) -> None:
        self._score = score
        self._state = recorded.state
        self._builds = _builder(recorded.team)
        self._names = [str(one) for one in _names(recorded.team, trace)]
        self._record = _record(recorded, trace, self._names)
        self._by_function = _by_function(trace)
        self._roles = {e.agent: str(e["role"]) for e in trace.events if e.get("role")}

    def value(self, change: Change, seed: int) -> float | Awaitable[float]:  # noqa: ARG002 - a team takes no seed
        """Run a team with a change; see `orchtrace_otel.replay.Replayer`."""
        return self._value(change)

    async def _value(self, change: Change) -> float:
        before = self._before(change)
        team = await self._fresh()
        token = None
        if not is_replaying():
            token = otel_context.attach(play_back(None, otel_context.get_current()))
        played = playback()
        if played is not None and before.turns:
            played.go_on_from(self._record.turns[before.turns - 1].said_at)
        replay: Replay | None = None
        try:
            with held_tools():
                replay = Replay(team, self._record, change, self._roles, before, self._by_function)
                if self._state is not None:
                    await team.load_state(self._state)
                result = await team.run(task=[*self._record.task])
        except Exception as error:
            # A team makes a text of what its participants raise.
            if replay is not None and replay.blocked is not None:
                raise ReplayBlockedError(replay.blocked) from error
            raise
        finally:
            if token is not None:
                otel_context.detach(token)
        return float(self._score(result))

    def _before(self, change: Change) -> Before:
        """Return how much of the run is as it was."""
        turns = choices = len(self._record.turns)
        for player in change.touched:
            found = as_it_was(self._record, player, self._roles)
            if found is None or (player == TURNS and player in change.without):
                raise ReplayBlockedError(_unknown(player))
            turns, choices = min(turns, found.turns), min(choices, found.choices)
        return Before(turns, choices)

    async def _fresh(self) -> Any:
        built = self._builds()
        team: Any = await built if inspect.isawaitable(built) else built
        if not isinstance(team, BaseGroupChat):
            msg = f"the function must build a team, it gave a {type(team).__name__}"
            raise ConfigError(msg)
        if not isinstance(team, KINDS):
            known = ", ".join(kind.__name__ for kind in KINDS)
            msg = f"a team must be one of {known} to be rebuilt, got a {type(team).__name__}"
            raise ReplayBlockedError(msg)
        if getattr(team, "_initialized", False):
            msg = "the function must build a fresh team each time, it gave one that has run"
            raise ReplayBlockedError(msg)
        return team


def _unknown(player: Player) -> str:
    return (
        f"{describe(player)} must be of the turns of the team that was recorded, it is not: "
        "the team itself, and what runs inside of a participant, cannot be taken out"
    )


def _builder(team: Any) -> Callable[[], Any]:
    if not isinstance(team, BaseGroupChat):
        build: Callable[[], Any] = team
        return build
    kind: Any = type(team)
    try:
        config = team.dump_component()
    except Exception as error:
        msg = (
            f"a {kind.__name__} must be a component to be built again, it is not: {error}; "
            "give a function that builds it"
        )
        raise ConfigError(msg) from error
    return lambda: kind.load_component(config)


def _names(team: Any, trace: Trace) -> Sequence[str]:
    """Return the names of the participants."""
    if isinstance(team, BaseGroupChat):
        host: Any = team
        return [agent.name for agent in host._participants]  # noqa: SLF001 - no public name
    root = trace.events[0].get("activation")
    opened = (e for e in trace.events if e.get("parent") == root and e.id.endswith(".open"))
    return list(dict.fromkeys(str(e["to"]) for e in opened if e.verb != "tool_call"))


def _by_function(trace: Trace) -> set[int]:
    """Return the choices of speakers, by number, that a selector's function made.

    Where it is not known whether that or the manager did, it comes to the same.
    """
    root = trace.events[0].get("activation")
    decisions = [e for e in trace.events if e.verb == "decide" and e.get("activation") == root]
    return {
        at
        for at, one in enumerate(decisions)
        if not one.get("turns") and len(one.get("candidates", ())) > 1
    }


def _record(recorded: Recorded, trace: Trace, names: Sequence[str]) -> Record:
    given = recorded.messages
    if given is None:
        return of_content(trace, names, recorded.store)
    messages = given.messages if isinstance(given, TaskResult) else given
    return of_messages(messages, trace, names)
