"""Fixtures for pytest: `strictly_captured`, and the marker that lets the guard swallow.

Say `pytest_plugins = ["orchtrace_otel.testing.plugin"]` in the `conftest.py` at the
root of the tests, or `-p orchtrace_otel.testing.plugin`. There is no `pytest11` entry
point on purpose: pytest would import OpenTelemetry's SDK at every start, in projects
that use none of this, and before coverage could see it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from orchtrace_otel.testing.strict import strict

if TYPE_CHECKING:
    from collections.abc import Generator

    from orchtrace_otel.testing.recorder import Captured

MARKER = "swallows_errors"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, also where markers are strict."""
    text = f"{MARKER}(*sites): the guard swallows an error on purpose, at these sites or anywhere"
    config.addinivalue_line("markers", text)


@pytest.fixture
def strictly_captured(request: pytest.FixtureRequest) -> Generator[Captured, None, None]:
    """Everything the test records; it fails on what tracing must never do.

    `@pytest.mark.swallows_errors` lets the guard swallow errors, anywhere or at the
    sites that it names. For a leak of context inside an async test use
    `with strict():` there, which runs in the test's own task.
    """
    marker = request.node.get_closest_marker(MARKER)
    swallows: tuple[str, ...] | bool = False
    if marker is not None:
        swallows = tuple(str(site) for site in marker.args) or True
    with strict(swallows=swallows) as captured:
        yield captured
