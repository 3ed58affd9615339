"""Sampling does not decide what is learned from.

Where we make the provider, a span of ours that the sampler drops is recorded all the
same: built and scored here, never sent to a collector. Where the host made it, what its
sampler drops is no run, and those that are kept say how many they stand for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanContext, SpanKind, TraceState
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
        ours = attributes is not None and (a.OPENS in attributes or a.VERB in attributes)
        if result.decision is not Decision.DROP or not ours:
            return result
        return SamplingResult(Decision.RECORD_ONLY, attributes, result.trace_state)

    def get_description(self) -> str:
        """Return the inner sampler's description, and ours."""
        return f"RecordOurs({self._inner.get_description()})"


_RATIO: Final = re.compile(
    r"(ParentBased\{root:)?TraceIdRatioBased\{(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\}", re.ASCII
)
_THRESHOLD: Final = re.compile(r"(?:^|;)th:([0-9a-f]{1,14})(?:;|$)")
_DIGITS: Final = 14


@guarded
def weight_of(sampler: object, parent: SpanContext, own: SpanContext) -> float | None:
    """Return how many runs a recorded one stands for; None where it is one, or nobody knows.

    The threshold in tracestate tells it (OpenTelemetry's consistent probability sampling:
    of 2**56 values those below it are dropped), else the ratio that the sampler names in
    its description. Of a parent in another process only a threshold tells.

    Args:
        sampler: Of the tracer that made the root.
        parent: What the root is below; invalid where there is nothing.
        own: The root.
    """
    if not isinstance(sampler, Sampler) or isinstance(sampler, RecordOurs):
        return None
    told = _THRESHOLD.search(own.trace_state.get("ot", ""))
    if told is not None:
        kept = 1 - int(told[1].ljust(_DIGITS, "0"), 16) / 16**_DIGITS
        return 1 / kept
    follows_parent, ratio = _ratio(sampler.get_description())
    if ratio is None or (follows_parent and parent.is_valid and parent.is_remote):
        return None
    return 1 / ratio


@lru_cache
def _ratio(description: str) -> tuple[bool, float | None]:
    found = _RATIO.match(description)
    ratio = 0.0 if found is None else float(found[2])
    return found is not None and found[1] is not None, ratio if 0 < ratio < 1 else None
