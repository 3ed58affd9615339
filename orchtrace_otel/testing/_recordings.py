"""A team run in one of its ways, under watch: what an adapter's checks look at."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from opentelemetry import context as otel_context
from opentelemetry import trace

from orchtrace_otel import builder
from orchtrace_otel.testing.strict import Problem, Watched, context_problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from opentelemetry.sdk.trace import ReadableSpan

    from orchtrace_otel.model import Trace
    from orchtrace_otel.testing.recorder import Captured

WAYS: Final = ("invoke", "ainvoke", "stream", "astream")
"""Ways to run a team: each is a method of the kit, and `can_<way>` declares it."""

USER_SPAN: Final = "a span of the user's"


class Drivable(Protocol):
    """What knows how to run a team in each of the ways."""

    def invoke(self, team: Any) -> Any: ...

    async def ainvoke(self, team: Any) -> Any: ...

    def stream(self, team: Any) -> Iterator[Any]: ...

    def astream(self, team: Any) -> AsyncIterator[Any]: ...


@dataclass(slots=True)
class Outcome:
    """What the host saw of a run.

    Attributes:
        result: What came back.
        items: What a stream gave; None of what is no stream.
        error: What was raised instead.
        problems: Of the context that the caller's code ran in, between items too.
    """

    result: Any = None
    items: list[Any] | None = None
    error: BaseException | None = None
    problems: list[Problem] = field(default_factory=list[Problem])


@dataclass(slots=True)
class Recording:
    """What the host saw of a run, and what was recorded.

    Attributes:
        scenario: Which team it was.
        way: How it was run.
        watched: What was recorded, and what did not hold.
        outcome: What the host saw.
        inside: Span ids that were current in the code of agents and tools.
    """

    scenario: str
    way: str
    watched: Watched
    outcome: Outcome
    inside: list[str]

    @property
    def name(self) -> str:
        """Scenario and way, for messages."""
        return f"{self.scenario} by {self.way}()"

    @property
    def captured(self) -> Captured:
        """What was recorded."""
        return self.watched.captured

    @property
    def trace(self) -> Trace | None:
        """The trace, where there is exactly one."""
        traces = self.captured.traces
        return traces[0] if len(traces) == 1 else None

    def problems(self, *kinds: str) -> list[str]:
        """What did not hold, of some kinds."""
        found = [*self.watched.problems, *self.outcome.problems]
        return [str(problem) for problem in found if problem.kind in kinds]

    def span(self, span_id: str) -> ReadableSpan | None:
        """The span of an id."""
        return next((s for s in self.captured.spans if span_id_of(s) == span_id), None)


def span_id_of(span: ReadableSpan) -> str:
    """Return a span's id as traces write it."""
    context = span.get_span_context()
    return "" if context is None else f"{context.span_id:016x}"


def is_ours(span: ReadableSpan) -> bool:
    """Whether a span was made by this project."""
    return builder.is_ours(span.attributes or {})


def names_of_ours(spans: Iterable[ReadableSpan]) -> list[str]:
    """Return the names of those spans that are ours."""
    return [span.name for span in spans if is_ours(span)]


def looking(seen: list[str]) -> Callable[[], None]:
    """Return code for agents and tools to call: notes the current span, opens a user's."""

    def look() -> None:
        context = trace.get_current_span().get_span_context()
        seen.append(f"{context.span_id:016x}" if context.is_valid else "")
        with trace.get_tracer("the user's own").start_as_current_span(USER_SPAN):
            pass

    return look


def drive(host: Drivable, way: str, team: Any) -> Outcome:
    """Run a team to its end."""
    if way in ("ainvoke", "astream"):
        return asyncio.run(adrive(host, way, team))
    outcome = Outcome()
    before = otel_context.get_current()
    try:
        if way == "invoke":
            outcome.result = host.invoke(team)
        else:
            items = outcome.items = list[Any]()
            for item in host.stream(team):
                compare(outcome, before, "between the items of a stream")
                items.append(item)
    except Exception as error:  # noqa: BLE001 - what a team raises is what is looked at
        outcome.error = error
    compare(outcome, before, "after the run")
    return outcome


async def adrive(host: Drivable, way: str, team: Any) -> Outcome:
    """Run a team to its end, in a running loop."""
    outcome = Outcome()
    before = otel_context.get_current()
    try:
        if way == "ainvoke":
            outcome.result = await host.ainvoke(team)
        else:
            items = outcome.items = list[Any]()
            async for item in host.astream(team):
                compare(outcome, before, "between the items of a stream")
                items.append(item)
    except Exception as error:  # noqa: BLE001 - see drive
        outcome.error = error
    compare(outcome, before, "after the run")
    return outcome


def compare(outcome: Outcome, before: otel_context.Context, where: str) -> None:
    """Note a problem where the context of the caller's code is not what it was."""
    text = context_problem(before, otel_context.get_current())
    if text is not None:
        outcome.problems.append(Problem("context", f"{where}: {text}"))


def drive_to_first(host: Drivable, way: str, team: Any) -> Outcome:
    """Take the first item of a team's stream, and close it."""
    outcome = Outcome()
    before = otel_context.get_current()
    if way == "stream":
        stream: Any = host.stream(team)
        outcome.items = [next(stream)]
        compare(outcome, before, "between the items of a stream")
        stream.close()
        compare(outcome, before, "after the stream was closed")
        return outcome

    async def take() -> None:
        inner = otel_context.get_current()
        astream: Any = host.astream(team)
        outcome.items = [await anext(astream)]
        compare(outcome, inner, "between the items of a stream")
        await astream.aclose()
        compare(outcome, inner, "after the stream was closed")

    asyncio.run(take())
    return outcome


def drive_and_cancel(host: Drivable, build: Callable[[Callable[[], Awaitable[None]]], Any]) -> bool:
    """Cancel a team whose agent waits; return whether the caller got the cancellation."""

    async def cancel() -> bool:
        is_waiting, may_end = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            is_waiting.set()
            await may_end.wait()

        running = asyncio.ensure_future(host.ainvoke(build(wait)))
        arrived = asyncio.ensure_future(is_waiting.wait())
        await asyncio.wait({running, arrived}, return_when=asyncio.FIRST_COMPLETED)
        arrived.cancel()
        running.cancel()
        # Some frameworks let agents finish what they do before the cancellation goes on.
        may_end.set()
        try:
            await running
        except asyncio.CancelledError:
            return True
        return False

    return asyncio.run(cancel())
