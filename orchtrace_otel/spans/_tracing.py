"""Where spans go, and who follows the runs that they make up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry import trace

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import warn_once

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

    from orchtrace_otel.model import Reward, Trace
    from orchtrace_otel.spans._interval import Interval
    from orchtrace_otel.spans._run import Run

Value: TypeAlias = str | bool | int | float | Sequence[str] | Sequence[int]
Attributes: TypeAlias = Mapping[str, Value]


class Follower(Protocol):
    """Who follows one run while it is open."""

    def ended(self, span: trace.Span) -> None:
        """Take a span of the run that has ended."""


class Watcher(Protocol):
    """Who is told of one run's spans while it goes on; it must not raise."""

    def began(self, interval: Interval) -> None:
        """Take an interval that has begun; its attributes are `written`."""

    def ends(self, interval: Interval, end: int) -> None:
        """Take an interval whose span is about to end, and may still be written to."""

    def spent(self, attributes: Attributes) -> None:
        """Take what another instrumentation says of an LLM call in the run."""


watchers: Final[list[Callable[[Run], Watcher]]] = []
"""Makers of watchers for runs that begin in this process; the last one counts."""


class Observer(Protocol):
    """Who follows runs from their opening to their close: the pipeline."""

    def opened(self, run: Run) -> Follower:
        """Follow a run from now on."""
        ...

    def closing(self, run: Run, end: int) -> Attributes:
        """Build and score a run that ends at `end`; what is returned is set on its root."""
        ...

    def broken_off(self, run: Run) -> None:
        """Take a run that is still followed, and whose end failed or was interrupted."""

    def so_far(self, run: Run) -> Trace | None:
        """Build and score a run that goes on; None where it is not followed."""
        ...

    def find(self, run_id: str) -> Run | None:
        """Return a run that is open in this process."""
        ...

    def late(self, run_id: str, reward: Reward) -> None:
        """Take a reward for a run that is closed or runs elsewhere."""

    def lose(self, what: str) -> None:
        """Count what was lost."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Where spans go, and who follows the runs."""

    tracer: Tracer
    observer: Observer | None = None
    clock: Callable[[], int] | None = None
    """Nanoseconds since the epoch, for tests; None for the system's clocks."""
    provider: trace.TracerProvider | None = None
    """Where `tracer` comes from; a framework's own spans inside our runs go there too."""


_configured: Tracing | None = None
_global: tuple[object, Tracing | None] = (None, None)


def use(tracing: Tracing | None) -> Tracing | None:
    """Make `tracing` the one that new runs use; return the one before."""
    global _configured
    before, _configured = _configured, tracing
    return before


def is_configured() -> bool:
    """Whether somebody said where spans go, be it `configure` or a test."""
    return _configured is not None


def tracing() -> Tracing | None:
    """Return where new runs go; None while nobody listens."""
    if _configured is not None:
        return _configured
    global _global  # noqa: PLW0603 - remembers the tracer of the provider seen last
    provider = trace.get_tracer_provider()
    if provider is not _global[0]:
        _global = (provider, _of_provider(provider))
    return _global[1]


def record_late(run_id: str | None, reward: Reward) -> None:
    """Give a reward for a run that is not open here to who follows runs; lost where nobody does."""
    where = tracing()
    observer = None if where is None else where.observer
    if observer is not None and run_id is not None:
        observer.late(run_id, reward)
        return
    warn_once(
        "reward",
        "record_reward() needs a current run, or a run_id after configure(); the reward is lost",
    )


def ignore(provider: trace.TracerProvider) -> None:
    """Begin no runs through a global provider: whoever set it for us has shut down."""
    global _global  # noqa: PLW0603 - see tracing
    _global = (provider, None)


def _of_provider(provider: trace.TracerProvider) -> Tracing | None:
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    tracer = provider.get_tracer(a.SCOPE)
    return None if isinstance(tracer, trace.NoOpTracer) else Tracing(tracer, provider=provider)


# The SDK's own switch has no public name.
_SUPPRESSED = otel_context._SUPPRESS_INSTRUMENTATION_KEY  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def is_suppressed(context: Context) -> bool:
    """Whether instrumentation is suppressed in `context`."""
    return bool(context.get(_SUPPRESSED))
