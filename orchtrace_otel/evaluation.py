"""Rewards as `gen_ai.evaluation.result` log events of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry._logs import LoggerProvider, get_logger_provider
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

from orchtrace_otel import attributes as a
from orchtrace_otel._guard import guarded
from orchtrace_otel.model import Reward, Trace

if TYPE_CHECKING:
    from orchtrace_otel.provider import Counted

Values: TypeAlias = dict[str, str | float]


class Evaluations:
    """Emits one log event a reward or structural measure, in the context of what it rates.

    Args:
        provider: Where the events go; the global logger provider unless given.
        exporters: What it exports to, where it was made here; it ends with us then.
    """

    def __init__(
        self, provider: LoggerProvider | None = None, exporters: Sequence[Counted] = ()
    ) -> None:
        self._provider = provider
        self._exporters = exporters
        self._logger = (provider or get_logger_provider()).get_logger(a.SCOPE)

    @property
    def is_heard(self) -> bool:
        """Whether the events go anywhere: the API's own providers drop them."""
        provider = self._provider or get_logger_provider()
        return not type(provider).__module__.startswith("opentelemetry._logs")

    @property
    def lost(self) -> int:
        """How many events did not arrive, of a provider that was made here."""
        return sum(exporter.lost for exporter in self._exporters)

    def flush(self, timeout_s: float) -> bool:
        """Wait until what was told is with the exporters; False where some of it is lost or waits.

        Args:
            timeout_s: Seconds to wait at most.
        """
        before = self.lost
        flush: Callable[[int], bool] | None = getattr(self._provider, "force_flush", None)
        in_time = flush is None or flush(int(timeout_s * 1_000)) is not False
        return in_time and self.lost == before

    def shutdown(self) -> None:
        """Deliver what was told, where the provider is ours."""
        end: Callable[[], None] | None = getattr(self._provider, "shutdown", None)
        if self._exporters and end is not None:
            end()

    @guarded
    def emit(self, trace: Trace, root: Span) -> None:
        """Tell the rewards and measures of a finished run, on its root."""
        context = set_span_in_context(root)
        for reward in trace.reward_records:
            # What anybody can compute again is told of the run as a whole, not event by event.
            if reward.estimator != "structural" or reward.target is None:
                self._tell(context, _of_reward(trace.trace_id, reward))
        for name, value in (trace.metrics or {}).items():
            facts: Values = {
                a.EVALUATION_NAME: name,
                a.EVALUATION_VALUE: float(value),
                a.RUN_ID: trace.trace_id,
                a.REWARD_ESTIMATOR: "structural",
            }
            self._tell(context, facts)

    @guarded
    def emit_late(self, run_id: str, reward: Reward) -> None:
        """Tell a reward that came after its run, or from elsewhere."""
        self._tell(_context_of(run_id, reward.target), _of_reward(run_id, reward))

    def _tell(self, context: Context, facts: Mapping[str, str | float]) -> None:
        self._logger.emit(event_name=a.EVALUATION_EVENT, context=context, attributes=facts)


def _of_reward(run_id: str, reward: Reward) -> Values:
    facts: Values = {
        a.EVALUATION_NAME: reward.component,
        a.EVALUATION_VALUE: reward.value,
        a.RUN_ID: run_id,
        a.REWARD_ID: reward.id,
        a.REWARD_FAMILY: reward.family,
        a.REWARD_UNIT: reward.unit,
        a.REWARD_ESTIMATOR: reward.estimator,
    }
    more = {
        a.REWARD_TARGET: reward.target,
        a.REWARD_PROVISIONAL: reward.provisional or None,
        a.REWARD_N: reward.n,
        a.REWARD_SE: reward.se,
        a.REWARD_VERSION: reward.version,
    }
    facts.update({key: value for key, value in more.items() if value is not None})
    return facts


def _context_of(run_id: str, target: str | None) -> Context:
    """Return the context of the span that a late reward rates: the event's, else the root's."""
    trace_id, _, root_id = run_id.partition("-")
    span_id = target.partition(".")[0] if target else ""
    try:
        span = int(span_id, 16) if len(span_id) == len(root_id) else int(root_id, 16)
        context = SpanContext(int(trace_id, 16), span, is_remote=True, trace_flags=TraceFlags(1))
    except ValueError:
        return Context()
    return set_span_in_context(NonRecordingSpan(context))
