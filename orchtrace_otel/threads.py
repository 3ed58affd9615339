"""Causes handed on to threads and pools, through OpenTelemetry's own instrumentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from opentelemetry import context as otel_context

from orchtrace_otel import spans
from orchtrace_otel._guard import guarded
from orchtrace_otel.flow import Job
from orchtrace_otel.patches import Patches


class Threads:
    """Hooks into the standard library, held like those of an adapter."""

    name: ClassVar[str] = "threads"

    def __init__(self) -> None:
        self._ours = False
        self._patches = Patches()

    def instrument(self) -> None:
        """Put the hooks in; OpenTelemetry's own too, unless the host did."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as below

        instrumentor = _instrumentor()
        self._ours = not instrumentor.is_instrumented_by_opentelemetry
        if self._ours:
            instrumentor.instrument()
        self._patches = Patches()
        self._patches.wrap(ThreadPoolExecutor, "submit", _submit)

    def uninstrument(self) -> None:
        """Take out what was put in."""
        self._patches.undo()
        if self._ours:
            _instrumentor().uninstrument()
            self._ours = False


def _instrumentor() -> Any:
    # Only setting up needs it, and with what it imports it costs more than the SDK does.
    # It comes without type information.
    from opentelemetry.instrumentation.threading import (  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]
        ThreadingInstrumentor,
    )

    return ThreadingInstrumentor()


def _submit(
    wrapped: Callable[..., Any],
    pool: Any,  # noqa: ARG001 - wrapt's signature
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Submit work to a pool with the causes that it has now; later its thread cannot know them."""
    job = _hand_over()
    if job is None or not args:
        return wrapped(*args, **kwargs)
    return wrapped(job.run, *args, **kwargs)


@guarded
def _hand_over() -> Job | None:
    scope = spans.scope_of(otel_context.get_current())
    if scope is None or not scope.run.is_recording or scope.run.is_closed:
        return None
    return Job(scope.flow)
