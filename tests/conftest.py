"""What every test gets: hypothesis profiles, and no error swallowed unnoticed."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from orchtrace_otel import _guard

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
