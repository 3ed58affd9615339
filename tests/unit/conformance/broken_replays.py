"""Adapters whose replays touch what they must not, with the check that each must fail."""

from __future__ import annotations

from typing import Any

from orchtrace_otel import spans
from orchtrace_otel.adapter import Adapter
from orchtrace_otel.model import Trace
from orchtrace_otel.replay import Change, Replayer, Score
from orchtrace_otel.testing.conformance import CANARY
from tests.unit.conformance.crew import Agent, Crew
from tests.unit.conformance.crew_adapter import CrewAdapter, CrewReplayer
from tests.unit.conformance.crew_kit import Broken, say


class RunsAllAgain(CrewAdapter):
    """Calls those before the change once more."""

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        target[0].run(CANARY)
        return super().replayer(target, trace, score)


class ReplaysInPlace(CrewAdapter):
    """Takes agents out of the host's own crew."""

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        crew, said = target
        crew.stages = ((), *crew.stages[1:])
        return super().replayer((Crew(*[(Agent("second", say),)]), said[1:]), trace, score)


class TracesReplays(CrewAdapter):
    """Opens a run for a replay, in a context in which nothing is suppressed."""

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        run = spans.start_run("replay")
        assert run is not None
        run.close()
        return super().replayer(target, trace, score)


class ReplaysNothing(CrewAdapter):
    """Does not know its own teams."""

    replayer = Adapter.replayer


class FailsReplays(CrewAdapter):
    """Makes replays that raise."""

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        return super().replayer((target[0], []), trace, score)


class _Unmoved(CrewReplayer):
    def value(self, change: Change, seed: int) -> float:
        return self.score(self.said)


class ReplaysTheRecord(CrewAdapter):
    """Gives what the run gave, whoever is left out."""

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        return _Unmoved(target, score)


class ReplaysOthers(CrewAdapter):
    """Hands the last words to the score, not what the crew gives."""

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        return super().replayer(target, trace, lambda said: score(said[-1:]))


BROKEN: list[Broken] = [
    ("test_a_replay_leaves_the_host_alone", RunsAllAgain, "must not be called, came ['first'"),
    ("test_a_replay_leaves_the_host_alone", ReplaysInPlace, "must be as it was"),
    ("test_a_replay_leaves_the_host_alone", TracesReplays, "no span must come of replays"),
    ("test_a_replay_leaves_the_host_alone", ReplaysNothing, "must know what it is given"),
    ("test_a_replay_leaves_the_host_alone", FailsReplays, "must come to their end"),
    ("test_a_replay_runs_the_team_that_ran", ReplaysTheRecord, "the one that leaves `second` in"),
    ("test_a_replay_runs_the_team_that_ran", ReplaysOthers, "the one that leaves `second` in"),
]
