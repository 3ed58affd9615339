"""Adapters that the host notices, with the check that each must fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from orchtrace_otel._guard import guarded
from orchtrace_otel.spans import Scope
from tests.unit.conformance.broken_records import RecordsExceptions
from tests.unit.conformance.crew import Agent, Crew, Tool
from tests.unit.conformance.crew_adapter import CrewAdapter, Opened, Playing, Token
from tests.unit.conformance.crew_kit import Broken


class ChangesResults(CrewAdapter):
    """Hands something else on than what it was given."""

    def hand_on(self, said: str) -> str:
        return said.upper()


class WrapsExceptions(CrewAdapter):
    """Raises a new exception for the host's."""

    def work(self, wrapped: Callable[..., str], agent: Agent, args: Any, kwargs: Any) -> str:
        try:
            return super().work(wrapped, agent, args, kwargs)
        except ValueError as error:
            raise ValueError(str(error)) from None


class NotesExceptions(CrewAdapter):
    """Adds a note to the host's exception."""

    @guarded
    def close_agent(self, opened: Any, error: BaseException | None) -> None:
        super().close_agent(opened, error)
        if error is not None:
            error.add_note("traced")


class HidesErrors(CrewAdapter):
    """Takes every end for a good one."""

    def outcome(self, error: BaseException | None) -> tuple[str, str]:
        return ("ok", "information_complete")


class AlwaysFails(CrewAdapter):
    """Takes a good end for a failure."""

    @guarded
    def close_agent(self, opened: Any, error: BaseException | None) -> None:
        opened[1].close(status="error")
        super().close_agent(opened, error)


class LeavesOpen(CrewAdapter):
    """Closes no agent that failed."""

    @guarded
    def close_agent(self, opened: Any, error: BaseException | None) -> None:
        if error is None:
            super().close_agent(opened, error)


class EndsTwice(CrewAdapter):
    """Ends a span behind the back of what keeps it."""

    @guarded
    def close_agent(self, opened: Any, error: BaseException | None) -> None:
        super().close_agent(opened, error)
        span: Any = opened[1].span
        for processor in span._span_processor._span_processors[:1]:
            processor.on_end(span)


class LeavesContext(CrewAdapter):
    """Detaches nothing."""

    def detach(self, token: Token | None) -> None:
        pass


class FailsInside(CrewAdapter):
    """Fails behind the guard after its work is done."""

    @guarded
    def close_tool(self, scope: Scope | None, error: BaseException | None) -> None:
        super().close_tool(scope, error)
        raise LookupError


class KeepsTeams(CrewAdapter):
    """Remembers every crew that ever played."""

    def __init__(self) -> None:
        super().__init__()
        self.crews: list[Crew] = []

    def open_crew(self, crew: Crew) -> Playing | None:
        self.crews.append(crew)
        return super().open_crew(crew)


class RaisesIntoHost(CrewAdapter):
    """Opens agents outside of the guard."""

    def open_agent(self, agent: Agent) -> Opened | None:
        unguarded: Callable[..., Opened | None] = inspect.unwrap(CrewAdapter.open_agent)
        return unguarded(self, agent)


class NeedsSpans(CrewAdapter):
    """Cannot do without a run that records."""

    def play(
        self, wrapped: Callable[..., Iterator[str]], crew: Crew, args: Any, kwargs: Any
    ) -> Iterator[str]:
        playing = self.open_crew(crew)
        if playing is None:
            return
        self.close_crew(playing, None)
        yield from wrapped(*args, **kwargs)


class HidesToolErrors(CrewAdapter):
    """Closes the call of a tool that fails as if it had not."""

    def close_tool(self, scope: Scope | None, error: BaseException | None) -> None:
        super().close_tool(scope, None)


class AnswersForTools(CrewAdapter):
    """Gives an agent an answer where its tool raises."""

    def call(self, wrapped: Callable[..., str], tool: Tool, args: Any, kwargs: Any) -> str:
        try:
            return super().call(wrapped, tool, args, kwargs)
        except ValueError:
            return ""


class LeavesCallsOpen(CrewAdapter):
    """Ends the call of a tool only where it gives something back."""

    def close_tool(self, scope: Scope | None, error: BaseException | None) -> None:
        if error is None:
            super().close_tool(scope, None)


BROKEN: list[Broken] = [
    ("test_results_are_the_same", ChangesResults, "must give the host"),
    ("test_the_hosts_exception_goes_through", WrapsExceptions, "the very object"),
    ("test_the_hosts_exception_goes_through", NotesExceptions, "must stay as it was"),
    ("test_a_tool_that_fails_fails_as_untraced", HidesToolErrors, "of status error, came ['ok']"),
    ("test_a_tool_that_fails_fails_as_untraced", AnswersForTools, "must give the host"),
    ("test_a_tool_that_fails_fails_as_untraced", LeavesCallsOpen, "every span ended"),
    ("test_nothing_of_the_host_is_kept", KeepsTeams, "came a team that is alive"),
    ("test_an_error_marks_the_agent_and_the_run", RecordsExceptions, "no exception event"),
    ("test_an_error_marks_the_agent_and_the_run", HidesErrors, "status ERROR, came UNSET"),
    ("test_only_failures_are_errors", AlwaysFails, "no span of status ERROR"),
    ("test_every_span_ends_once", LeavesOpen, "came an open 'invoke_agent worker'"),
    ("test_every_span_ends_once", EndsTwice, "a second end of 'invoke_agent worker'"),
    ("test_the_callers_context_is_left_alone", LeavesContext, "came other values of"),
    ("test_nothing_fails_behind_the_guard", FailsInside, "close_tool"),
    ("test_a_failing_tracer_never_reaches_the_host", RaisesIntoHost, "must not raise"),
    ("test_unsampled_runs_are_the_same", NeedsSpans, "unsampled, must give the host"),
]
