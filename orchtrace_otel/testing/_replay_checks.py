"""Checks of what runs a recorded team again, for adapters that can."""

from __future__ import annotations

from abc import ABC

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
