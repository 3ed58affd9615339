"""What tests of the exporter to a URL share: a server on loopback, and nothing told before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchtrace_otel import _guard
from tests.exporters.http.receiver import Receiver, receiver


@pytest.fixture(autouse=True)
def needs_httpx() -> None:
    """Where the extra is not installed there is nothing to test."""
    pytest.importorskip("httpx")


@pytest.fixture
def server() -> Iterator[Receiver]:
    """A server that takes everything."""
    with receiver() as running:
        yield running


@pytest.fixture(autouse=True)
def told_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was warned of before may be warned of again; no proxy stands before loopback."""
    monkeypatch.setattr(_guard, "_told", set[str]())
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
