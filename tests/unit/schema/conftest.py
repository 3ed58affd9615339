"""The ways in which a document is checked."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from orchtrace_otel import schema

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["jsonschema-rs", "without", "too old"])
def validator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check with jsonschema-rs, as where it is not installed, and as where it is too old."""
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    if request.param == "too old":
        monkeypatch.setattr(schema, "version", lambda name: "0.29.1")
    schema._compiled.cache_clear()
    yield
    schema._compiled.cache_clear()
