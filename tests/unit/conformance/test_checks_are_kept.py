"""No check of the adapter kit is dropped in silence, nor passes for nothing to check."""

from __future__ import annotations

from typing import Any

import pytest

from orchtrace_otel.testing.conformance import ConformanceError
from tests.unit.conformance.crew import Crew
from tests.unit.conformance.crew_kit import CrewConformance


def test_a_check_cannot_be_dropped_or_replaced() -> None:
    """A class that deletes or overrides a check, itself or by a mixin, cannot be made."""

    class Mixin:
        def test_traces_are_valid(self) -> None:
            pass

    silent: list[tuple[tuple[type, ...], dict[str, Any]]] = [
        ((CrewConformance,), {"test_traces_are_valid": None}),
        ((CrewConformance,), {"test_traces_are_valid": Mixin.test_traces_are_valid}),
        ((Mixin, CrewConformance), {}),
    ]
    for bases, names in silent:
        with pytest.raises(TypeError, match="must leave the check test_traces_are_valid"):
            type("Silent", bases, names)


def test_a_check_may_be_expected_to_fail_for_a_reason() -> None:
    """An override that is marked xfail with a reason is seen in every report, and allowed."""

    class Known(CrewConformance):
        @pytest.mark.xfail(reason="the framework hides the branches, issue 7")
        def test_traces_are_valid(self) -> None:
            super().test_traces_are_valid()

    with pytest.raises(TypeError, match="must leave the check"):

        class Silent(CrewConformance):  # pyright: ignore[reportUnusedClass] - it cannot be made
            @pytest.mark.xfail
            def test_traces_are_valid(self) -> None:
                super().test_traces_are_valid()

    Known().test_traces_are_valid()


def test_what_is_not_declared_is_skipped_in_plain_sight() -> None:
    """A capability that a class does not declare is a skip that names it."""

    class Plain(CrewConformance):
        can_fan_out = False

    with pytest.raises(pytest.skip.Exception, match="does not declare can_fan_out"):
        Plain().test_branches_do_not_cause_each_other()


def test_a_kit_without_a_way_to_run_fails() -> None:
    """A class that declares no way to run a team fails instead of skipping everything."""

    class Idle(CrewConformance):
        can_invoke = can_ainvoke = can_stream = can_astream = False

    with pytest.raises(ConformanceError, match="a way to run a team must be declared"):
        Idle().test_traces_are_valid()


def test_a_team_without_the_canary_fails() -> None:
    """The check of content is worth nothing for teams that say nothing."""

    class Silent(CrewConformance):
        def invoke(self, team: Crew) -> list[str]:
            return team.run("hush")

    with pytest.raises(ConformanceError, match="must put CANARY"):
        Silent().test_content_stays_inside()


def test_a_team_that_does_not_run_untraced_fails() -> None:
    """A scenario that is at fault itself is told, instead of being compared with itself."""

    class Faulty(CrewConformance):
        def invoke(self, team: Crew) -> list[str]:
            raise LookupError

    with pytest.raises(ConformanceError, match=r"'single' must run untraced by invoke\(\)"):
        Faulty().test_traces_are_valid()


def test_a_team_that_was_to_fail_and_does_not_is_told() -> None:
    """A failing team that raises nothing would prove nothing."""

    class Calm(CrewConformance):
        def failing(self, error: Exception) -> Crew:
            return self.single(lambda: None)

    with pytest.raises(ConformanceError, match=r"'failing' must raise untraced by invoke\(\)"):
        Calm().test_traces_are_valid()
