"""Rewards, stops and measures of finished runs as OpenTelemetry metrics.

`configure(meter_provider=...)` puts `Metrics` among the exporters of finished traces, so
that it works on their thread, away from the host. Attributes are few and of few values:
what a run ran on, its shape, why it stopped, and a reward's component, family, unit and
estimator; never an id, a task, an agent or anything that people wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import get_meter_provider

from orchtrace_otel import attributes as a
from orchtrace_otel.model import STOP_REASONS, TOPOLOGIES
from orchtrace_otel.rewards.records import is_credit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.metrics import Histogram, Meter, MeterProvider

    from orchtrace_otel.model import Reward, Trace

OTHER: Final = "other"
"""Stands for what is beyond the most values that an attribute may have."""

MOST_COMPONENTS: Final = 100
MOST_SYSTEMS: Final = 20

_SHARES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FACTORS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)
_COUNTS: Final = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)

MEASURED: Final[Mapping[str, tuple[str, Sequence[float], str]]] = {
    "makespan": ("s", _SECONDS, "From the first event of a run to the end of its last."),
    "speed_up": ("1", _FACTORS, "Work by makespan."),
    "parallelism": ("1", _FACTORS, "Work by the longest chain of causes."),
    "peak_concurrency": ("{agent}", _COUNTS, "Pieces of own work at once, at most."),
    "parallelism_efficiency": ("1", _SHARES, "How busy as many workers as worked at once were."),
    "critical_steps": ("{turn}", _COUNTS, "LLM calls along the longest chain of causes."),
    "balance": ("1", _SHARES, "Mean by greatest own work of sub-agents."),
    "protocol_overhead": ("1", _SHARES, "Share of tokens on deciding and talking."),
    "waste": ("1", _SHARES, "Share of tokens on what led to no answer."),
    "error_amplification": ("1", _FACTORS, "Failures by those that came first, - 1."),
}
"""The measures that become histograms `orchtrace.run.<name>`: unit, buckets and meaning."""


class Metrics:
    """Counts finished runs; an exporter of finished traces.

    Args:
        provider: Where the metrics go; the global meter provider unless given.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = (provider or get_meter_provider()).get_meter(a.SCOPE)
        self._runs = meter.create_counter(a.METRIC_RUNS, "{run}", "Runs that ended, by why.")
        self._flags = meter.create_counter(
            a.METRIC_FLAGGED, "{run}", "Runs whose trace says that it lacks something."
        )
        # A histogram takes nothing below 0, as rewards may be; a sum and a count give the mean,
        # of which only the count can be exported as deltas.
        self._rewards = meter.create_counter(
            a.METRIC_REWARDS, "{reward}", "Rewards that runs were given, by component."
        )
        self._sums = meter.create_up_down_counter(
            a.METRIC_REWARD_SUM, "1", "Sum of these rewards: by their count, it is the mean."
        )
        self._measures = {name: _histogram(meter, name) for name in MEASURED}
        self._components = _Words(MOST_COMPONENTS)
        self._systems = _Words(MOST_SYSTEMS)

    def export(self, trace: Trace) -> None:
        """Count a finished run: its stop, its measures and its rewards."""
        about = self._about(trace)
        stop = trace.stop
        reason = "unknown" if stop is None else stop.get("stop_reason")
        reason = reason if reason in STOP_REASONS else "unknown"
        self._runs.add(1, {**about, a.STOP_REASON: reason})
        if trace.flags:
            self._flags.add(1, about)
        metrics = trace.metrics or {}
        for name, histogram in self._measures.items():
            value = metrics.get(name)
            if value is not None and value >= 0:
                histogram.record(value, about)
        for reward in trace.reward_records:
            if not is_credit(reward, trace.trace_id):
                self._count(reward, about)

    def amend(self, run_id: str, reward: Reward) -> None:
        """Count a reward that came after its run had ended."""
        del run_id  # as many values as there are runs
        self._count(reward, {})

    def flush(self, timeout_s: float) -> None:
        """Keep nothing back: the meter provider's readers collect when they want to."""

    def shutdown(self) -> None:
        """Leave the meter provider to whoever made it."""

    def _count(self, reward: Reward, about: Mapping[str, str]) -> None:
        kind = {
            **about,
            a.REWARD_COMPONENT: self._components.take(reward.component),
            a.REWARD_FAMILY: reward.family,
            a.REWARD_UNIT: reward.unit,
            a.REWARD_ESTIMATOR: reward.estimator,
        }
        self._rewards.add(1, kind)
        self._sums.add(reward.value, kind)

    def _about(self, trace: Trace) -> dict[str, str]:
        """What a run ran on, and its shape."""
        topology = trace.topology if trace.topology in TOPOLOGIES else None
        system = self._systems.take(trace.system or "unknown")
        return {a.SYSTEM: system, a.TOPOLOGY: topology or "unknown"}


def global_metrics() -> Metrics | None:
    """Return metrics of the global meter provider; None where the application set none by now."""
    provider = get_meter_provider()
    # The API's own providers are those of an application that wants no metrics.
    is_set = not type(provider).__module__.startswith("opentelemetry.metrics")
    return Metrics(provider) if is_set else None


class _Words:
    """The first so many words, for an attribute that must not have more values."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def take(self, word: str) -> str:
        if word not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(word)
        return word


def _histogram(meter: Meter, name: str) -> Histogram:
    unit, buckets, meaning = MEASURED[name]
    return meter.create_histogram(
        a.METRIC_RUN_PREFIX + name,
        unit,
        meaning,
        explicit_bucket_boundaries_advisory=buckets,
    )
