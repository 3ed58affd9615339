"""Each check of the adapter kit bites: a right adapter passes, each broken one is caught."""

# pyright: reportPrivateUsage=false
# The kit keeps the list of its checks to itself; here it must be seen whole.

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import context as otel_context

from orchtrace_otel.adapter import Adapter
from orchtrace_otel.testing.conformance import AdapterConformance, ConformanceError
from tests.unit.conformance import (
    broken_hooks,
    broken_hosts,
    broken_records,
    broken_replays,
    broken_trees,
    broken_ways,
)
from tests.unit.conformance.crew import SEAMS, Crew
from tests.unit.conformance.crew_kit import CrewConformance


class TestCrew(CrewConformance):
    """The right adapter passes every check."""


BROKEN = [
    *broken_trees.BROKEN,
    *broken_records.BROKEN,
    *broken_hosts.BROKEN,
    *broken_ways.BROKEN,
    *broken_hooks.BROKEN,
    *broken_replays.BROKEN,
]


@pytest.fixture
def restored() -> Iterator[None]:
    """The tiny framework is as it was, whatever an adapter left in it."""
    seams = [*SEAMS, (Crew, "run"), (Crew, "arun")]
    before = [(owner, name, vars(owner)[name]) for owner, name in seams]
    context = otel_context.get_current()
    yield
    otel_context.attach(context)
    for owner, name, original in before:
        setattr(owner, name, original)


@pytest.mark.swallows_errors
@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("check", "broken", "told"), BROKEN, ids=[f"{check}-{b.__name__}" for check, b, _ in BROKEN]
)
def test_each_check_bites(check: str, broken: type[Adapter], told: str) -> None:
    """An adapter that breaks one promise fails the check of that promise, which says why."""
    kit = type(f"{broken.__name__}Conformance", (CrewConformance,), {"adapter": broken})()
    with pytest.raises(ConformanceError) as failure:
        getattr(kit, check)()
    assert told in str(failure.value)
    assert "\nlook at: " in str(failure.value)


def test_every_check_has_a_broken_adapter() -> None:
    """No check of the kit goes without a proof that it bites."""
    assert {check for check, _, _ in BROKEN} == set(AdapterConformance._checks)


def test_every_check_says_what_to_look_at() -> None:
    """The docstring of each check has a line for who sees it fail."""
    checks = AdapterConformance._checks.items()
    assert [name for name, check in checks if "Troubleshooting:" not in check.__doc__] == []
