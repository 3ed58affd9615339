"""What tests of advice inline share: warnings that come again."""

from __future__ import annotations

import pytest

from orchtrace_otel import _guard


@pytest.fixture(autouse=True)
def warnings_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test see the warnings that a process gives once."""
    monkeypatch.setattr(_guard, "_told", set())
