"""Runs are followed within bounds; what a bound costs is flagged and counted."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import otlp, pipeline, schema, spans
from orchtrace_otel.model import Reward
from orchtrace_otel.settings import Settings
from orchtrace_otel.spans import _activation, _run
from orchtrace_otel.testing import capture
from tests.unit.pipeline.following import configured, critic, foreign, lead


def test_more_open_runs_than_allowed_give_up_the_oldest() -> None:
    """What there is of it is exported and flagged; the loss is counted."""
    with capture(settings=Settings(max_open_runs=2)) as captured:
        runs = [spans.start_run(f"run{number}") for number in range(4)]
        for run in runs:
            assert run is not None
            run.close()
    names = {trace.trace_id: trace.flags for trace in captured.traces}
    assert [names[run.id] for run in runs if run is not None] == [
        ("given_up", "no_stop"),
        ("given_up", "no_stop"),
        (),
        (),
    ]
    assert len(captured.traces) == 4
    assert captured.pipeline.losses == {"runs_given_up": 2}


def test_a_run_that_is_too_old_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its age is looked at when another one opens; its rewards so far are kept."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    with capture(settings=Settings(max_run_seconds=60)) as captured:
        monkeypatch.setattr(pipeline, "time", clock)
        old = spans.start_run("old")
        assert old is not None
        old.record(Reward(id="r", component="style", value=1.0))
        now[0] = 59.0
        lead()
        assert captured.pipeline.losses == {}
        now[0] = 60.0
        lead()
        assert captured.pipeline.losses == {"runs_given_up": 1}
        old.close()
    given_up = next(trace for trace in captured.traces if trace.trace_id == old.id)
    assert {"given_up", "no_stop"} <= set(given_up.flags)
    assert given_up.rewards["style"] == 1.0
    assert len(captured.traces) == 3


def test_a_run_that_is_given_up_ends_by_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was set back meanwhile had the run end before what was done in it."""
    real = time.time_ns
    with capture(deterministic=False) as captured:
        run = spans.start_run("run")
        assert run is not None
        with monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda: real() - 3_600 * 10**9)
            opened = spans.open_activation(run.root, "critic")
            opened.close()
            captured.pipeline.broken_off(run)
        run.close()
    (trace,) = captured.traces
    assert trace.flags == ("given_up", "no_stop")


def test_a_run_that_was_given_up_tells_a_collector_so() -> None:
    """Its root carries the flag and the rewards; built from OTLP it is whole, and flagged."""
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    with capture(settings=Settings(max_open_runs=1)) as captured:
        old = spans.start_run("old")
        assert old is not None
        lead()
        old.record(Reward(id="r", component="style", value=1.0))
        old.close()
    data = encoder.encode_spans(captured.spans).SerializeToString()
    received = {trace.trace_id: trace for trace in otlp.traces(otlp.read_protobuf(data))}
    assert received[old.id].flags == ("given_up",)
    assert received[old.id].rewards["style"] == 1.0


def test_more_spans_than_allowed_are_not_kept() -> None:
    """The run is built of those that came first, flagged, and the rest counted."""

    @orchtrace.team
    def busy() -> None:
        for _ in range(20):
            critic()
        for _ in range(20):
            with foreign().start_as_current_span("other"):
                pass

    with capture(settings=Settings(max_spans=10)) as captured:
        busy()
    assert "truncated" in captured.trace.flags
    assert captured.pipeline.losses == {"spans_over_limit": 20 + 20 + 20 + 1 - 10}
    assert list(schema.check(captured.trace.to_dict())) == []


def test_spans_of_others_that_stay_open_are_bounded() -> None:
    """A host that opens spans and never ends them fills no table of ours."""

    @orchtrace.team
    def leaking() -> None:
        left.extend(foreign().start_span("left open") for _ in range(50))
        sizes.append(len(captured.pipeline._owners))

    left: list[Any] = []
    sizes: list[int] = []
    with capture(settings=Settings(max_spans=10)) as captured:
        leaking()
        for span in left:
            span.end()
    assert sizes == [10]
    assert captured.pipeline.losses == {"spans_over_limit": 40}


@pytest.mark.parametrize("limit", ["shutdown", "runs"])
def test_a_run_that_closes_while_it_is_given_up_is_exported(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another thread, which finds that nobody follows it any more, and lets go of its root."""
    with capture(settings=Settings(max_open_runs=1)) as captured:
        run = spans.start_run("cut")
        assert run is not None
        give_up = captured.pipeline._give_up

        def meanwhile(old: Any) -> None:
            run.close()
            give_up(old)

        monkeypatch.setattr(captured.pipeline, "_give_up", meanwhile)
        if limit == "runs":
            other = spans.start_run("other")
            assert other is not None
            other.close()
        else:
            captured.pipeline.shutdown()
    flags = {trace.trace_id: trace.flags for trace in captured.traces}
    assert flags[run.id] == ("given_up",)


def test_what_is_open_at_the_shutdown_is_given_up() -> None:
    """A process that ends in the middle of a run delivers what there is of it."""
    with configured() as (_, exporter):
        run = spans.start_run("cut")
        assert run is not None
        orchtrace.shutdown()
        run.close()
    (trace,) = exporter.traces
    assert (trace.trace_id, trace.flags) == (run.id, ("given_up", "no_stop"))


def test_what_an_activation_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, announcements and messages that wait too long are forgotten and flagged."""

    @orchtrace.agent
    def nobody() -> None: ...

    @orchtrace.team
    def forgetful() -> None:
        for _ in range(4):
            nobody()
            orchtrace.spawn("somebody")
            orchtrace.message("somebody", "hello")
        with orchtrace.aggregate():
            pass

    monkeypatch.setattr(_activation, "MOST_WAITING", 3)
    monkeypatch.setattr(_run, "MOST_WAITING", 3)
    with capture() as captured:
        forgetful()
    assert captured.trace.flags == (
        "announcements_forgotten",
        "messages_forgotten",
        "results_forgotten",
    )
