"""Adapters that go wrong in one way to run a team, with the check that each must fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry import context as otel_context

from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from tests.unit.conformance.crew import Agent, Crew
from tests.unit.conformance.crew_adapter import PLAYING, CrewAdapter, Opened, Playing, Token
from tests.unit.conformance.crew_kit import Broken


class DiffersUnderAsyncio(CrewAdapter):
    """Traces agents that run without asyncio only."""

    async def awork(
        self, wrapped: Callable[..., Awaitable[str]], agent: Agent, args: Any, kwargs: Any
    ) -> str:
        return await wrapped(*args, **kwargs)


class DiffersInStreams(CrewAdapter):
    """Records a decision where a crew is streamed."""

    def instrument(self) -> None:
        super().instrument()
        self.is_run = False
        self.patches.wrap(Crew, "run", self.note)
        self.patches.wrap(Crew, "arun", self.anote)

    def note(self, wrapped: Any, crew: Crew, args: Any, kwargs: Any) -> Any:
        self.is_run = True
        try:
            return wrapped(*args, **kwargs)
        finally:
            self.is_run = False

    async def anote(self, wrapped: Any, crew: Crew, args: Any, kwargs: Any) -> Any:
        self.is_run = True
        try:
            return await wrapped(*args, **kwargs)
        finally:
            self.is_run = False

    @guarded
    def close_crew(self, playing: Any, error: BaseException | None) -> None:
        if not self.is_run:
            spans.instant(playing.activation, "decide")
        super().close_crew(playing, error)


class MixesRuns(CrewAdapter):
    """Keeps the crew that plays on itself instead of in the context."""

    latest: Any = None

    @guarded
    def open_crew(self, crew: Crew) -> Playing | None:
        opened = super().open_crew(crew)
        self.latest = self.latest or opened
        return opened

    @guarded
    def attach(self, playing: Any) -> Token | None:
        token = super().attach(playing)
        inner = otel_context.set_value(PLAYING, self.latest)
        otel_context.attach(inner)
        return token

    @guarded
    def open_agent(self, agent: Agent) -> Opened | None:
        playing: Any = otel_context.get_value(PLAYING)
        self.latest.crew = playing.crew
        activation = spans.open_activation(self.latest.activation, agent.name)
        return self.latest, activation


class TakesLeavingForFailure(CrewAdapter):
    """Takes a consumer that leaves, and a cancellation, for a failure."""

    def outcome(self, error: BaseException | None) -> tuple[str, str]:
        return ("ok", "information_complete") if error is None else ("error", "error")


BROKEN: list[Broken] = [
    ("test_sync_and_async_give_one_tree", DiffersUnderAsyncio, "one tree by invoke() and"),
    ("test_a_stream_gives_the_tree_of_a_run", DiffersInStreams, "invoke() and by stream()"),
    ("test_concurrent_runs_do_not_mix", MixesRuns, "each of them must be like"),
    ("test_waiting_runs_do_not_mix", MixesRuns, "must have its own agent"),
    ("test_a_stream_closed_early_is_no_error", TakesLeavingForFailure, "consumer_closed"),
    ("test_a_cancelled_run_says_so", TakesLeavingForFailure, "because of cancelled"),
]
