"""Replays leave no span and no line in the logs of the host."""

from autogen_agentchat.base import TaskResult
from opentelemetry import trace as otel_trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import orchtrace_otel as orchtrace
from orchtrace_autogen import Recorded
from orchtrace_otel.replay import Slot
from tests.adapters.autogen.replay.teams import AGENTS, has_both, priced, ran, round_robin


def test_replays_leave_no_span(traced, cast) -> None:
    """Neither ours, nor AutoGen's own, nor of a host that knows nothing of suppression."""
    build = round_robin(cast)
    trace, result = ran(traced, build)
    spans = traced.started
    taken = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(taken))
    tracer = otel_trace.get_tracer("of the host", tracer_provider=provider)

    def score(result: TaskResult) -> float:
        with tracer.start_as_current_span("own"):
            return has_both(result)

    target = Recorded(team=build, messages=result)
    orchtrace.counterfactual(trace, target, AGENTS, score=score, replays=2)
    assert traced.started == spans
    assert taken.get_finished_spans() == ()
    assert len(traced.traces) == 1


def test_replays_are_not_in_the_hosts_logs(traced, cast, caplog) -> None:
    """Neither what AutoGen says of a replay that is blocked, nor its events."""
    asked: list[str] = []
    build = priced(cast, asked)
    trace, result = ran(traced, build)
    caplog.clear()
    with caplog.at_level("DEBUG"):
        found = orchtrace.counterfactual(
            trace,
            Recorded(team=build, messages=result),
            [Slot("guest", "broadcast", 1)],
            score=lambda _: 1.0,
            replays=2,
        )
    assert found.lost == {"blocked": 2}
    assert [one.name for one in caplog.records if one.name.startswith("autogen")] == []
