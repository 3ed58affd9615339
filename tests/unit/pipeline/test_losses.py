"""What is lost is counted, said once and told at the end; the host is not held up."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import pipeline
from orchtrace_otel.pipeline import Pipeline
from orchtrace_otel.settings import Settings
from orchtrace_otel.testing import capture
from tests.unit.pipeline.following import lead


@pytest.mark.swallows_errors
def test_a_builder_that_fails_costs_the_trace_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host gets its result; the loss is counted."""

    def fail(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(pipeline, "build", fail)
    with capture() as captured:
        assert lead() == "found"
    assert captured.traces == []
    assert captured.pipeline.losses == {"traces_failed": 1}


def test_spans_that_end_after_their_run_are_counted() -> None:
    """A task that outlived its team is left to the collector."""

    @orchtrace.team
    async def host() -> None:
        tasks.append(asyncio.ensure_future(slow()))
        await asyncio.sleep(0)

    @orchtrace.agent
    async def slow() -> None:
        await gate.wait()

    async def main() -> None:
        await host()
        gate.set()
        await tasks[0]

    tasks: list[Any] = []
    gate = asyncio.Event()
    with capture() as captured:
        asyncio.run(main())
    assert captured.trace.flags == ("open_spans",)
    assert captured.pipeline.losses == {"late_spans": 1}


def test_losses_are_said_once_and_told_at_the_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    """One warning a kind while it goes on, and the sums at the end."""
    observer = Pipeline(Settings())
    with caplog.at_level(logging.WARNING, "orchtrace_otel"):
        for _ in range(5):
            observer.lose("a kind of this test")
        observer.lose("another kind of this test", 7)
        observer.shutdown()
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "orchtrace lost data (a kind of this test)",
        "orchtrace lost data (another kind of this test)",
        "orchtrace lost data in this process: a kind of this test: 5, another kind of this test: 7",
    ]


def test_losses_of_many_threads_add_up() -> None:
    """No count is lost between them."""
    observer = Pipeline(Settings())
    threads = [
        threading.Thread(target=lambda: [observer.lose("raced") for _ in range(500)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert observer.losses["raced"] == 4_000


def test_a_collector_that_is_down_costs_the_application_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on and ends in time; one warning says what is wrong."""
    otlp_exporter = pytest.importorskip("orchtrace_otlp")
    import socket
    import time

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    exporter = otlp_exporter.open_http(f"http://127.0.0.1:{port}")
    provider = TracerProvider(shutdown_on_exit=False)
    with caplog.at_level(logging.WARNING):
        try:
            orchtrace.configure(tracer_provider=provider, exporters=[exporter])
            began = time.monotonic()
            for _ in range(50):
                assert lead() == "found"
            took = time.monotonic() - began
            orchtrace.shutdown()
            provider.shutdown()
            closed = time.monotonic() - began - took
        finally:
            orchtrace.shutdown()
    # Generous: fifty small runs take hundredths of a second, and a refusal comes at once.
    assert took < 5
    assert closed < 20
    said = [one.getMessage() for one in caplog.records]
    assert [text for text in said if "takes no spans" in text] == said[:1]
    assert said[1:] == ["200 spans did not reach the OTLP collector"]
