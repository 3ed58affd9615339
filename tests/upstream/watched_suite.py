"""A pytest plugin that notes how each test of a framework's own suite ends, traced or not.

`compare.py` loads it in both of its runs. What it finds wrong with a trace fails no test: the
suite is the framework's, and its tests say only whether the framework does what it did.
"""

from __future__ import annotations

import gc
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import context as otel_context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from orchtrace_otel import otlp, schema
from orchtrace_otel.testing import Captured, capture

_REPORT = Path(os.environ["SUITE_REPORT"])
_FRAMEWORK = os.environ.get("SUITE_TRACED")
"""The framework that is traced; None in the run without us."""
_OURS = ("orchtrace", "opentelemetry")


class _Logged(logging.Handler):
    """What is logged above INFO by us and by OpenTelemetry."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_OURS):
            self.texts.append(f"logged: {record.getMessage()}")


_LOGGED = _Logged()
_OUTCOMES: dict[str, str] = {}


def pytest_configure(config: pytest.Config) -> None:
    if _FRAMEWORK is not None:
        logging.getLogger().addHandler(_LOGGED)
        orchtrace.instrument(_FRAMEWORK)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _OUTCOMES[report.nodeid] = report.outcome


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if _FRAMEWORK is None:
        yield
        _note(item.nodeid, None, [])
        return
    _LOGGED.texts.clear()
    before = otel_context.get_current()
    with capture(deterministic=False) as captured:
        yield
        if captured.open:  # of a stream that a test walked away from, which is a cycle
            gc.collect()
    faults = [*_LOGGED.texts, *_faults(captured)]
    if otel_context.get_current() != before:
        faults.append("the context is another one")
    _note(item.nodeid, captured, faults)


def _note(test: str, captured: Captured | None, faults: list[str]) -> None:
    spans, traces = (0, 0) if captured is None else (captured.started, len(captured.traces))
    row = {
        "test": test,
        "outcome": _OUTCOMES.get(test, "unknown"),
        "spans": spans,
        "traces": traces,
        "faults": faults,
    }
    # One write a line: workers of pytest-xdist share the file.
    with _REPORT.open("a") as report:
        report.write(json.dumps(row) + "\n")


def _faults(captured: Captured) -> Iterator[str]:
    """Say what does not hold of all that was recorded in one test."""
    yield from (f"open: {name}" for name in captured.open.values())
    yield from (f"ended twice: {name}" for name in captured.ended_twice)
    for trace in captured.traces:
        yield from (f"schema: {fault}" for fault in schema.check(trace.to_dict()))
    inline = {trace.trace_id: trace for trace in captured.traces}
    data = encode_spans(captured.spans).SerializeToString()
    for received in otlp.traces(otlp.read_protobuf(data)):
        # What ended after the stop is in no inline trace.
        is_late = "late_spans" in received.flags
        if received != inline.get(received.trace_id) and not is_late:
            yield f"inline and OTLP differ: {received.trace_id}"
