"""What tests of data sets share: a thousand runs, made once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchtrace_otel.model import Trace
from tests.recorded import Recorder, many


@pytest.fixture(scope="session")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sequence[Trace]]:
    """A thousand runs of a hundred tasks, three calls each, and the store of their content."""
    recorder = Recorder(tmp_path_factory.mktemp("thousand"))
    return recorder.store, many(recorder, 1_000, tasks=100)
