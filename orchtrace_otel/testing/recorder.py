"""`capture()`: everything that happens inside is recorded in memory."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator

from orchtrace_otel import adapter, spans
from orchtrace_otel import attributes as a
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.sampling import RecordOurs
from orchtrace_otel.settings import Settings
from orchtrace_otel.spans import Tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from opentelemetry.context import Context

    from orchtrace_otel.model import Reward, Trace

EPOCH: int = 1_700_000_000_000_000_000
"""Where a deterministic clock begins, nanoseconds since the epoch."""


class Ticks(IdGenerator):
    """Ids and times that count: 1, 2, 3, one millisecond a reading."""

    def __init__(self) -> None:
        self._spans = itertools.count(1)
        self._traces = itertools.count(1)
        self._times = itertools.count(EPOCH, 1_000_000)

    def generate_span_id(self) -> int:
        """Return the next id of a span."""
        return next(self._spans)

    def generate_trace_id(self) -> int:
        """Return the next id of a trace."""
        return next(self._traces)

    def time(self) -> int:
        """Return the next time, nanoseconds since the epoch."""
        return next(self._times)


class Captured(SpanProcessor):
    """What was recorded.

    Attributes:
        spans: Every span that ended, in order of ending.
        traces: Every trace that was finished, in order.
        rewards: Late rewards, each with the id of its run.
        started: How many spans started.
        ended: How many spans ended.
        provider: The provider that all went through.
        pipeline: What followed the runs.
    """

    def __init__(self, *, deterministic: bool = False, settings: Settings | None = None) -> None:
        self.spans: list[ReadableSpan] = []
        self.traces: list[Trace] = []
        self.rewards: list[tuple[str, Reward]] = []
        self.started = 0
        self.ended = 0
        self.open: dict[int, str] = {}
        self.ended_twice: list[str] = []
        self._lock = threading.RLock()
        ticks = Ticks() if deterministic else None
        self.provider = TracerProvider(shutdown_on_exit=False, id_generator=ticks)
        self.provider.sampler = RecordOurs(self.provider.sampler)
        self.pipeline = Pipeline(settings or Settings(), [self], synchronous=True)
        self.provider.add_span_processor(self)
        self.provider.add_span_processor(self.pipeline)
        clock: Callable[[], int] | None = None if ticks is None else ticks.time
        tracer = self.provider.get_tracer(a.SCOPE)
        self.tracing = Tracing(tracer, self.pipeline, clock, self.provider)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's signature
        """Count a span that started."""
        with self._lock:
            self.started += 1
            self.open[span.get_span_context().span_id] = span.name

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span that ended."""
        context = span.get_span_context()
        with self._lock:
            self.ended += 1
            self.spans.append(span)
            if context is not None and self.open.pop(context.span_id, None) is None:
                self.ended_twice.append(span.name)

    def export(self, trace: Trace) -> None:
        """Keep a finished trace."""
        self.traces.append(trace)

    def amend(self, run_id: str, reward: Reward) -> None:
        """Keep a late reward."""
        self.rewards.append((run_id, reward))

    def flush(self, timeout_s: float) -> None:
        """There is nothing to wait for."""

    @property
    def trace(self) -> Trace:
        """The only trace.

        Raises:
            AssertionError: If there is not exactly one.
        """
        assert len(self.traces) == 1, f"expected one trace, got {len(self.traces)}"  # noqa: S101 - a test's own
        return self.traces[0]


_GLOBAL = "_TRACER_PROVIDER"
"""Where the API keeps the global provider; it has no public name."""


@contextmanager
def capture(
    *, deterministic: bool = False, settings: Settings | None = None
) -> Generator[Captured, None, None]:
    """Record all spans and traces of the block in memory, whatever is configured.

    Spans of others come along, as long as they use the global provider. Causes reach
    threads as they do under `instrument()`; frameworks are traced only while they are
    instrumented.

    Args:
        deterministic: Ids and times that count up, so that whole traces can be compared.
        settings: Limits to try.

    Example:
        >>> import orchtrace_otel as orchtrace
        >>> @orchtrace.agent
        ... def critic(text):
        ...     return len(text)
        >>> with capture() as captured:
        ...     critic("fine")
        4
        >>> [event.verb for event in captured.trace.events]
        ['begin', 'spawn', 'return', 'stop']
    """
    captured = Captured(deterministic=deterministic, settings=settings)
    before = spans.use(captured.tracing)
    # The global provider can be set only once by its public function; for the time of
    # the block the host's own spans must come here as well.
    global_before = getattr(trace, _GLOBAL, None)
    setattr(trace, _GLOBAL, captured.provider)
    threads = adapter.hold_threads()
    try:
        yield captured
    finally:
        threads.uninstrument()
        setattr(trace, _GLOBAL, global_before)
        spans.use(before)
