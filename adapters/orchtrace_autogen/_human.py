"""People: the input that a user proxy waits for, and a team that is paused from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.context import Context, get_current
from opentelemetry.trace import set_span_in_context

from orchtrace_autogen import _framework as f
from orchtrace_autogen._calls import Call, follow
from orchtrace_autogen._content import interval_answers
from orchtrace_autogen._team import TeamRun
from orchtrace_autogen._work import recording
from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Flow
from orchtrace_otel.spans import Interval, instant, is_suppressed, open_interval, outcome


class _Waiting(Call):
    """An agent that waits for a human; how long is the event's duration."""

    __slots__ = ("_flow", "_interval")

    def __init__(self, interval: Interval, flow: Flow, context: Context) -> None:
        super().__init__(set_span_in_context(interval.span, context))
        self._interval = interval
        self._flow = flow

    @guarded
    def close(self, result: Any, error: BaseException | None, /) -> None:
        """End the wait; what the agent says next follows from it."""
        status, _ = outcome(error)
        if error is None:
            interval_answers(self._interval, result)
        self._interval.close(status=status, error=error if status == "error" else None)
        self._flow.last = self._interval.closed


def user_input(wrapped: Any, _agent: Any, args: Any, kwargs: Any) -> Any:
    """Trace `UserProxyAgent._get_input`."""
    return follow(_open_input, wrapped(*args, **kwargs))


@guarded
def _open_input() -> Call | None:
    context = get_current()
    scope = recording(context)
    if scope is None or is_suppressed(context):
        return None
    flow = scope.flow.here()
    interval = open_interval(
        scope.activation,
        "human_intervention",
        edges=flow.take(),
        attributes={a.DECISION_NAME: "user_input"},
        context=context,
    )
    return _Waiting(interval, flow, context)


class PauseHooks:
    """Wrappers of a team's `pause` and `resume`, which no message of the team causes.

    Args:
        teams: The teams that run, by id.
    """

    def __init__(self, teams: Mapping[str, TeamRun]) -> None:
        self._teams = teams

    def pause(self, wrapped: Any, team: f.BaseGroupChat, args: Any, kwargs: Any) -> Any:
        """Record that a running team was paused."""
        self._note(team, "pause")
        return wrapped(*args, **kwargs)

    def resume(self, wrapped: Any, team: f.BaseGroupChat, args: Any, kwargs: Any) -> Any:
        """Record that it was told to go on."""
        self._note(team, "resume")
        return wrapped(*args, **kwargs)

    @guarded
    def _note(self, team: f.BaseGroupChat, name: str) -> None:
        running = self._teams.get(f.team_id(team))
        if running is None:
            return
        paused, running.paused = running.paused, None
        mark = instant(
            running.activation,
            "human_intervention",
            edges=[("causal", paused)] if name == "resume" and paused is not None else (),
            attributes={a.DECISION_NAME: name},
        )
        if name == "pause":
            running.paused = mark
