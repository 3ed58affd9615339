"""A store of content, and the format of the tests where formats are looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchtrace_otel.datasets import writer
from tests.recorded import Recorder
from tests.unit.datasets.lines import Entry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lines_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lines` is found by its name."""
    monkeypatch.setattr(writer, "known_writers", lambda: {"lines": Entry()})


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A store of content."""
    return Recorder(tmp_path)
