"""What tests of answers share: one collector with small bounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collecting import Collecting, collecting


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    """A collector with small bounds, for all tests that look at answers only."""
    folder = tmp_path_factory.mktemp("store")
    with collecting(folder, "--grace", "0.1", "--fsync", "never", "--max-request-mib", "4") as made:
        yield made
