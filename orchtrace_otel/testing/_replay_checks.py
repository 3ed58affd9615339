"""Checks of what runs a recorded team again, for adapters that can."""

from __future__ import annotations

from abc import ABC
from typing import Any

from orchtrace_otel import adapter as adapters
from orchtrace_otel.replay import Part
from orchtrace_otel.replay.counterfactual import counterfactual
from orchtrace_otel.testing._kit import check
from orchtrace_otel.testing._teams import AdapterTeams
from orchtrace_otel.testing.strict import watch


class ReplayChecks(AdapterTeams, ABC, kit=True):
    """What the host must never notice of a replay."""

    @check
    def test_a_replay_leaves_the_host_alone(self) -> None:
        """Replays change nothing that the host keeps, call nobody upstream, and leave no span.

        Troubleshooting: fork into a saver of your own, build a fresh team, take what is
        upstream from the record; let the host's own objects only be read.
        """
        self.skip_unless("can_replay", "its teams cannot be run again")
        called: list[str] = []
        team, adapter = self.replayed(called.append), self.make_adapter()
        with watch() as watched, adapters.alone(adapter):
            result = team.run()
            (trace,) = watched.captured.traces
            must = "a recorded run must have called `first` and `second`"
            self.must(called == ["first", "second"], must, called)
            before, spans = team.kept(), watched.captured.started
            called.clear()
            player = Part("agent", "second")
            replayer = adapter.replayer(team.target(result), trace, lambda _: 1.0)
            self.must(replayer, "the adapter must know what it is given", "None")
            found = counterfactual(trace, replayer, [player], replays=4)
            must = "replays without `second` and with it must come to their end"
            self.must(found[player].value == 0.0 and not found.lost, must, found.lost)
            must = "what the host keeps must be as it was"
            self.must(team.kept() == before, must, "something else")
            must = "who worked before the change must not be called"
            self.must("first" not in called, must, called)
            more = watched.captured.started - spans
            self.must(not more, "no span must come of replays", more)

    @check
    def test_a_replay_runs_the_team_that_ran(self) -> None:
        """With an agent left in a replay gives what the run gave, without it something else.

        Troubleshooting: give `score` what running the team gives; an agent of `change.without`
        says nothing, one of `change.anew` works again on what it had, and so do those after it.
        """
        self.skip_unless("can_replay", "its teams cannot be run again")
        team, adapter = self.replayed(lambda _: None), self.make_adapter()
        scored: list[Any] = []

        def score(result: Any) -> float:
            scored.append(self.plain(result))
            return 1.0

        with watch() as watched, adapters.alone(adapter):
            result = team.run()
            (trace,) = watched.captured.traces
            replayer = adapter.replayer(team.target(result), trace, score)
            counterfactual(trace, replayer, [Part("agent", "second")], replays=1)
        wanted = self.plain(result)
        must = f"of two replays the one that leaves `second` in must give {wanted!r}"
        self.must(scored.count(wanted) == 1, must, scored)
        self.must(len(scored) == len((1, 2)), "both must be scored", scored)
