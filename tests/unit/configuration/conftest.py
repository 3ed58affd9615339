"""What tests of configuring share: a process that is not configured, and a provider."""

import os
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import spans


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a process that is not configured and whose environment says nothing."""
    for name in list(os.environ):
        if name.startswith(("OTEL_", "ORCHTRACE_")):
            monkeypatch.delenv(name)
    yield
    orchtrace.shutdown()
    assert not spans.is_configured()


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    provider = TracerProvider(shutdown_on_exit=False)
    yield provider
    provider.shutdown()
