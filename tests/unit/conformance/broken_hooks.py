"""Adapters whose hooks go in or out wrongly, with the check that each must fail."""

# pyright: reportPrivateUsage=false
# Broken here is what `Patches` takes care of.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from orchtrace_otel.adapter import Patches
from tests.unit.conformance.crew import SEAMS, Tool
from tests.unit.conformance.crew_adapter import CrewAdapter, Playing
from tests.unit.conformance.crew_kit import Broken


class StaysIn(CrewAdapter):
    """Takes nothing out."""

    def uninstrument(self) -> None:
        taken_out.append(self.patches)
        self.patches = Patches()


taken_out: list[Patches] = []


class WrapsObjects(CrewAdapter):
    """Goes on working after its hooks are out."""

    def uninstrument(self) -> None:
        self.patches._undo.clear()
        taken_out.append(self.patches)


class UnwrapsOthers(CrewAdapter):
    """Puts the originals back whatever is there by now."""

    def instrument(self) -> None:
        self.before = {(o, n): vars(o)[n] for o, n in SEAMS}
        super().instrument()

    def uninstrument(self) -> None:
        self.patches._active = False
        for (owner, name), original in self.before.items():
            setattr(owner, name, original)


class HidesSignatures(CrewAdapter):
    """Puts a function of its own face in the place of the host's."""

    def instrument(self) -> None:
        super().instrument()
        ours = vars(Tool)["call"]

        def anything(*args: Any, **kwargs: Any) -> Any:
            return ours(*args, **kwargs)

        self.patches.replace(Tool, "call", anything)


class AsksForMore(CrewAdapter):
    """Was tried with other versions than the extra installs."""

    requires: ClassVar[Mapping[str, str]] = {"langgraph": ">=0.2,<2"}


class LosesHold(CrewAdapter):
    """Ends nothing once it is out."""

    def uninstrument(self) -> None:
        super().uninstrument()
        self.is_out = True

    def close_crew(self, playing: Playing | None, error: BaseException | None) -> None:
        if not getattr(self, "is_out", False):
            super().close_crew(playing, error)


BROKEN: list[Broken] = [
    ("test_a_run_that_is_open_then_ends", LosesHold, "must end every span"),
    ("test_signatures_are_kept", HidesSignatures, "Tool.call must look like ('call',"),
    ("test_instrumenting_twice_is_once", StaysIn, "in once"),
    ("test_uninstrument_restores_the_originals", StaysIn, "must be the original"),
    ("test_nothing_is_traced_after_uninstrument", WrapsObjects, "must not be traced any more"),
    ("test_wrappers_of_others_survive", UnwrapsOthers, "another tool's wrapper must survive"),
    ("test_wrappers_of_others_survive", WrapsObjects, "must do nothing any more"),
    ("test_the_extra_asks_for_the_versions_that_were_tried", AsksForMore, "must ask for"),
]
