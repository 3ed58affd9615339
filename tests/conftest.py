"""What every test gets: hypothesis profiles, no error swallowed unnoticed, nothing left behind."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from opentelemetry import trace

import orchtrace_otel as orchtrace
from orchtrace_otel import _guard, adapter, configuration

# A machine that is busy is slow, which is no fault of the code: no deadlines.
_SLOW_IS_FINE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=50, **_SLOW_IS_FINE)
settings.register_profile("ci", max_examples=300, derandomize=True, **_SLOW_IS_FINE)
settings.register_profile("nightly", max_examples=5_000, **_SLOW_IS_FINE)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.fixture(autouse=True)
def nothing_swallowed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which the guard swallowed an error, unless it is marked `swallows_errors`."""
    before = dict(_guard.swallowed)
    yield
    if request.node.get_closest_marker("swallows_errors") is None:
        now = {site: n for site, n in _guard.swallowed.items() if n != before.get(site, 0)}
        assert now == {}, "the guard swallowed errors at these sites"


@pytest.fixture(autouse=True)
def process_left_as_found(nothing_swallowed: None) -> Iterator[None]:
    """End with the test what it configured, put in, and set for the whole process.

    OpenTelemetry lets a process set its provider once, so the next test would run
    with that of the last, or not, as the order has it. A decorated object of a
    framework puts its adapter in for good, which is right in a program.
    """
    provider, once = trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE
    was_set = once._done
    users = {name: held.users for name, held in adapter._active.items()}
    yield
    orchtrace.shutdown()
    configuration._lost.clear()
    trace._TRACER_PROVIDER, once._done = provider, was_set
    for name, held in list(adapter._active.items()):
        for _ in range(held.users - users.get(name, 0)):
            adapter._release(name)
