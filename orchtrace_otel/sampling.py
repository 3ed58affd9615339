"""Sampling does not decide what is learned from.

Where we make the provider, a span of ours that the sampler drops is recorded all the
same: built and scored here, never sent to a collector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

from orchtrace_otel import attributes as a

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, TraceState
    from opentelemetry.util.types import Attributes


class RecordOurs(Sampler):
    """Asks another sampler, and keeps what is ours recorded where that one drops it."""

    def __init__(self, inner: Sampler) -> None:
        self._inner = inner

    def should_sample(  # noqa: PLR0913 - the SDK's signature
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decide as the inner sampler does; a dropped span of ours is RECORD_ONLY."""
        result = self._inner.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )
        ours = attributes is not None and (
            a.OPENS in attributes or a.VERB in attributes or a.RUN_ID in attributes
        )
        if result.decision is not Decision.DROP or not ours:
            return result
        return SamplingResult(Decision.RECORD_ONLY, attributes, result.trace_state)

    def get_description(self) -> str:
        """Return the inner sampler's description, and ours."""
        return f"RecordOurs({self._inner.get_description()})"
