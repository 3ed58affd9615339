"""Magentic-One's orchestrator decides by a ledger, which its model fills in each round.

The answers that are yes or no are features of the decision; its reasons and its
instruction are content, and stay out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from opentelemetry.context import get_current

from orchtrace_autogen import _framework as f
from orchtrace_autogen._team import TeamRun
from orchtrace_autogen._work import recording, team_of
from orchtrace_otel._guard import guarded

FINAL_ANSWER: Final = "final_answer"
REPLAN: Final = "replan"

_ASKED: Final = ("is_request_satisfied", "is_in_loop", "is_progress_being_made")


class Ledger:
    """The ledger of one round, once its model has filled it in.

    Attributes:
        topics: The topic by which each participant is asked, by name.
        answers: What the model said, as the orchestrator reads it.
    """

    __slots__ = ("answers", "topics")

    def __init__(self, topics: Mapping[str, str]) -> None:
        self.topics = topics
        self.answers: Mapping[str, Any] | None = None

    @property
    def next_speaker(self) -> str | None:
        """Whom it names, if that is a participant."""
        name = self._answer("next_speaker")
        return name if isinstance(name, str) and name in self.topics else None

    @property
    def features(self) -> list[str]:
        """Its answers of yes and no, taken as the orchestrator takes them."""
        return [f"{asked}={int(bool(self._answer(asked)))}" for asked in _ASKED]

    def _answer(self, asked: str) -> object:
        entry: object = (self.answers or {}).get(asked)
        return (
            cast("Mapping[str, object]", entry).get("answer") if isinstance(entry, dict) else None
        )


class LedgerHooks:
    """Wrappers of the orchestrator's steps.

    Args:
        teams: The teams that run, by id, which is the key of their managers.
    """

    def __init__(self, teams: Mapping[str, TeamRun]) -> None:
        self._teams = teams

    def step(self, wrapped: Any, manager: f.MagenticOneOrchestrator, args: Any, kwargs: Any) -> Any:
        """Begin a round: its ledger is still empty."""
        self._begin(manager)
        return wrapped(*args, **kwargs)

    @guarded
    def _begin(self, manager: f.MagenticOneOrchestrator) -> None:
        team = self._teams.get(manager.id.key)
        if team is not None:
            team.ledger = Ledger(f.topics(manager))

    def parse(self, wrapped: Any, _module: Any, args: Any, kwargs: Any) -> Any:
        """Keep what the model filled in; one that it fills in anew takes its place."""
        found = wrapped(*args, **kwargs)
        self._keep(found)
        return found

    @guarded
    def _keep(self, found: Any) -> None:
        context = get_current()
        scope = recording(context)
        team = None if scope is None else team_of(scope.run, context)
        if team is not None and team.ledger is not None and len(found) == 1:
            team.ledger.answers = found[0]

    def replan(
        self, wrapped: Any, manager: f.MagenticOneOrchestrator, args: Any, kwargs: Any
    ) -> Any:
        """Record that the ledger sends the orchestrator back to its plan."""
        self._decide(manager, REPLAN)
        return wrapped(*args, **kwargs)

    def answer(
        self, wrapped: Any, manager: f.MagenticOneOrchestrator, args: Any, kwargs: Any
    ) -> Any:
        """Record that the ledger finds the request satisfied."""
        self._decide(manager, FINAL_ANSWER)
        return wrapped(*args, **kwargs)

    @guarded
    def _decide(self, manager: f.MagenticOneOrchestrator, chosen: str) -> None:
        team = self._teams.get(manager.id.key)
        ledger = None if team is None else team.ledger
        # At the limit of rounds the orchestrator answers without a ledger.
        if team is not None and ledger is not None and ledger.answers is not None:
            team.ledger = None
            team.conclude(chosen, ledger.features)
