"""Metrics of finished runs: what is counted, with which attributes, and through whose provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import metrics as module
from orchtrace_otel.exporter import TraceExporter
from orchtrace_otel.metrics import MEASURED, MOST_COMPONENTS, OTHER, Metrics, global_metrics
from orchtrace_otel.model import Event, Reward, Trace
from orchtrace_otel.rewards.builtin import COMPONENTS
from orchtrace_otel.rewards.measures import MEASURES

Point = tuple[dict[str, Any], Any]


class Read:
    """A meter provider whose metrics can be read at once."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)

    def points(self) -> dict[str, list[Point]]:
        """Each metric's attributes and values: a sum, or the sum and count of a histogram."""
        found: dict[str, list[Point]] = {}
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "orchtrace_otel"
                for metric in scope.metrics:
                    found[metric.name] = [
                        (dict(point.attributes or {}), _value(point))
                        for point in metric.data.data_points
                    ]
        return found


def _value(point: Any) -> Any:
    return point.value if hasattr(point, "value") else (point.sum, point.count)


@pytest.fixture
def read() -> Iterator[Read]:
    """Metrics that are let go of after the test."""
    one = Read()
    yield one
    one.provider.shutdown()


def trace_of(*rewards: Reward, **changes: Any) -> Trace:
    """A finished run that stopped for `verified`, with rewards."""
    keys = {"verb": "stop", "stop_reason": "verified", "flags": []}
    keys["reward_records"] = [reward.to_dict() for reward in rewards]
    stop = Event("stop", 3, "orchestrator_decision", "lead", keys)
    trace = Trace("run", "task", (stop,), system="python", metrics={"speed_up": 1.5, "waste": 0.25})
    return replace(trace, **changes)


ABOUT = {"orchtrace.system": "python", "orchtrace.topology": "unknown"}


def test_a_run_is_counted_once_with_its_stop_measures_and_rewards(read):
    """Rewards of any sign have a sum and a count; what a trace does not tell is not there."""
    metrics = Metrics(read.provider)
    metrics.export(
        trace_of(
            Reward(id="1", component="task", value=1.0),
            Reward(id="2", component="tone", value=-0.5, family="R6", unit="agent", target="A"),
            Reward(id="run:=3", component="credit_flow", value=1.0, unit="agent", target="A"),
        )
    )
    task = {
        "orchtrace.reward.component": "task",
        "orchtrace.reward.family": "R1",
        "orchtrace.reward.unit": "team",
        "orchtrace.reward.estimator": "outcome",
        **ABOUT,
    }
    tone = task | {
        "orchtrace.reward.component": "tone",
        "orchtrace.reward.family": "R6",
        "orchtrace.reward.unit": "agent",
    }
    assert read.points() == {
        "orchtrace.runs": [({**ABOUT, "orchtrace.stop.reason": "verified"}, 1)],
        "orchtrace.run.speed_up": [(ABOUT, (1.5, 1))],
        "orchtrace.run.waste": [(ABOUT, (0.25, 1))],
        "orchtrace.rewards": [(task, 1), (tone, 1)],
        "orchtrace.rewards.sum": [(task, 1.0), (tone, -0.5)],
    }


def test_a_reward_that_is_called_like_credit_is_counted(read):
    """Shares of the outcome are left out by who computed them, not by their name."""
    Metrics(read.provider).export(trace_of(Reward(id="u", component="credit_check", value=1.0)))
    ((about, count),) = read.points()["orchtrace.rewards"]
    assert (about["orchtrace.reward.component"], count) == ("credit_check", 1)


def test_attributes_stay_few_whatever_traces_hold(read):
    """Names of components and systems are capped; words that are no stop reason are unknown."""
    metrics = Metrics(read.provider)
    for number in range(MOST_COMPONENTS + 20):
        stop = Event("stop", 3, "x", "lead", {"verb": "stop", "stop_reason": f"why {number}"})
        metrics.export(
            Trace(f"run {number}", "task", (stop,), system=f"s{number}", topology=f"t{number}")
        )
        metrics.amend(f"run {number}", Reward(id=f"{number}", component=f"c{number}", value=1))
    found = read.points()
    reasons = {about["orchtrace.stop.reason"] for about, _ in found["orchtrace.runs"]}
    assert reasons == {"unknown"}
    systems = {about["orchtrace.system"] for about, _ in found["orchtrace.runs"]}
    assert len(systems) == module.MOST_SYSTEMS + 1
    assert {about["orchtrace.topology"] for about, _ in found["orchtrace.runs"]} == {"unknown"}
    components = [about["orchtrace.reward.component"] for about, _ in found["orchtrace.rewards"]]
    assert len(components) == MOST_COMPONENTS + 1
    assert OTHER in components
    assert sum(value for _, value in found["orchtrace.rewards.sum"]) == MOST_COMPONENTS + 20


def test_a_run_with_flags_is_counted_as_one(read):
    """How many runs lack something can be watched."""
    stop = Event("stop", 3, "orchestrator_decision", "lead", {"verb": "stop", "flags": ["skewed"]})
    Metrics(read.provider).export(Trace("run", "task", (stop,), system="python"))
    assert read.points()["orchtrace.runs.flagged"] == [(ABOUT, 1)]


def test_a_trace_without_a_stop_is_counted(read):
    """A run of which nothing is known but that it was is still a run."""
    Metrics(read.provider).export(Trace("run", "task", ()))
    about = {"orchtrace.system": "unknown", "orchtrace.topology": "unknown"}
    assert read.points() == {"orchtrace.runs": [(about | {"orchtrace.stop.reason": "unknown"}, 1)]}


def test_every_measure_that_is_a_metric_is_one_that_is_computed():
    """A measure that is renamed must not leave a metric behind that is never recorded."""
    assert set(MEASURED) <= {*MEASURES, *(one.name for one in COMPONENTS if one.is_metric)}


def test_metrics_are_an_exporter_of_traces(read):
    """They work where exporters do: on the pipeline's thread, never the host's."""
    assert isinstance(Metrics(read.provider), TraceExporter)


def test_configure_counts_runs_in_the_given_provider(read):
    """The provider given once stays, and a later configure counts no run twice."""
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    orchtrace.configure(tracer_provider, meter_provider=read.provider, exporters=[])
    try:
        orchtrace.configure(tracer_provider, rewards={"calm": lambda trace: 0.5})

        @orchtrace.team("pair")
        def lead() -> None:
            orchtrace.stop("quality_met")

        lead()
        assert orchtrace.flush()
        found = read.points()
    finally:
        orchtrace.shutdown()
        tracer_provider.shutdown()
    ((about, count),) = found["orchtrace.runs"]
    assert (about["orchtrace.stop.reason"], count) == ("quality_met", 1)
    named = {
        about["orchtrace.reward.component"]: value for about, value in found["orchtrace.rewards"]
    }
    assert named["calm"] == 1


def test_no_global_provider_means_no_metrics():
    """An application that has no metrics gets no work for them either."""
    assert global_metrics() is None


def test_a_global_provider_is_used(read, monkeypatch):
    """What the application set up for all its metrics takes ours too."""
    monkeypatch.setattr(module, "get_meter_provider", lambda: read.provider)
    metrics = global_metrics()
    assert metrics is not None
    metrics.export(Trace("run", "task", ()))
    assert "orchtrace.runs" in read.points()
