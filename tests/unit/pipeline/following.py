"""A small run, and pipelines that follow what happens in a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from tests.keeping import Kept


@contextmanager
def configured(**more: Any) -> Iterator[tuple[TracerProvider, Kept]]:
    """Configure with a provider and an exporter of traces, and clean up."""
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = Kept()
    try:
        orchtrace.configure(tracer_provider=provider, exporters=[exporter], **more)
        yield provider, exporter
    finally:
        orchtrace.shutdown()
        provider.shutdown()


@contextmanager
def observed(observer: Any, several: Any = None) -> Iterator[TracerProvider]:
    """Let a pipeline follow what happens in the block, as one of `several` processors."""
    provider = TracerProvider(shutdown_on_exit=False, active_span_processor=several)
    provider.add_span_processor(observer)
    before = spans.use(spans.Tracing(provider.get_tracer(a.SCOPE), observer))
    try:
        yield provider
    finally:
        spans.use(before)
        provider.shutdown()


@orchtrace.tool
def search() -> str:
    """A tool."""
    return "found"


@orchtrace.agent
def critic() -> str:
    """An agent with a tool."""
    return search()


@orchtrace.team
def lead() -> str:
    """A team of one agent."""
    return critic()


def foreign(name: str = "other") -> Any:
    """A tracer of another instrumentation."""
    return otel.get_tracer(name)
