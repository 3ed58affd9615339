"""Checks across the ways to run: sync and async, streams, many at once, left early."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC
from concurrent.futures import ThreadPoolExecutor

from opentelemetry.trace import StatusCode

from orchtrace_otel import adapter as adapters
from orchtrace_otel.testing._kit import check
from orchtrace_otel.testing._recordings import (
    Outcome,
    Recording,
    adrive,
    drive,
    drive_and_cancel,
    drive_to_first,
)
from orchtrace_otel.testing._shapes import Shape, difference, openings, shape
from orchtrace_otel.testing._teams import CONCURRENT, AdapterTeams
from orchtrace_otel.testing.strict import watch


class WayChecks(AdapterTeams, ABC, kit=True):
    """What holds however a team is run."""

    @check
    def test_sync_and_async_give_one_tree(self) -> None:
        """A team gives the same events and edges with asyncio and without.

        Troubleshooting: the twins of a hook must do the same; look for the one that is
        missing, or wraps a function that the other twin calls too.
        """
        self.skip_unless("can_invoke", "teams do not run without asyncio")
        self.skip_unless("can_ainvoke", "teams do not run under asyncio")
        self._same("invoke", "ainvoke")
        if self.can_stream and self.can_astream:
            self._same("stream", "astream")

    @check
    def test_a_stream_gives_the_tree_of_a_run(self) -> None:
        """A team gives the same events and edges whether it is streamed or run to its end.

        Troubleshooting: if run() consumes the framework's own stream, hook the stream alone.
        """
        pairs = [("stream", "invoke"), ("astream", "ainvoke")]
        fit = [pair for pair in pairs if all(getattr(self, f"can_{way}") for way in pair)]
        if not fit:
            capability = "can_stream" if not self.can_stream else "can_invoke"
            self.skip_unless(capability, "no way to run a team has a streaming twin")
        for streamed, run in fit:
            self._same(run, streamed)

    def _same(self, one_way: str, other_way: str) -> None:
        shapes: dict[tuple[str, str], Shape] = {
            (one.scenario, one.way): shape(trace) for one, trace in self._traces()
        }
        for scenario in self._scenarios():
            came = difference(shapes[scenario, one_way], shapes[scenario, other_way])
            must = f"{scenario} must give one tree by {one_way}() and by {other_way}()"
            self.must(not came, must, f"\n{came}")

    @check
    def test_concurrent_runs_do_not_mix(self) -> None:
        """Twenty runs at once give twenty traces, each like that of one run alone.

        Troubleshooting: state of a run belongs to its activation or its context, never to
        the adapter, the module or the team's class.
        """
        scenario = self._richest()
        ways = [way for way in ("invoke", "ainvoke") if getattr(self, f"can_{way}")]
        for way in ways or self._ways():
            alone = {shape(t) for one, t in self._traces(scenario) if one.way == way}
            with watch() as watched, adapters.alone(self.make_adapter()):
                self._at_once(scenario, way)
            found = watched.captured.traces
            must = f"{CONCURRENT} runs of {scenario} by {way}() must give as many traces"
            self.must(len({t.trace_id for t in found}) == CONCURRENT, must, len(found))
            for trace in found:
                if shape(trace) not in alone:
                    came = difference(min(alone), shape(trace))
                    must = f"each of them must be like {scenario} alone"
                    self.fail(must, f"\n{came}")
            problems = "; ".join(map(str, watched.problems))
            self.must(not problems, f"{CONCURRENT} runs must leave no trace of their own", problems)

    def _at_once(self, scenario: str, way: str) -> None:
        """Run teams at once; each has begun before any of them may end."""
        if way in ("invoke", "stream"):
            together = threading.Barrier(CONCURRENT)

            def one(_: int) -> Outcome:
                together.wait(timeout=30)
                return drive(self, way, self._team(scenario, self._look_away))

            with ThreadPoolExecutor(CONCURRENT) as pool:
                list(pool.map(one, range(CONCURRENT)))
            return

        async def all_of_them() -> None:
            teams = [self._team(scenario, self._look_away) for _ in range(CONCURRENT)]
            await asyncio.gather(*(adrive(self, way, team) for team in teams))

        asyncio.run(all_of_them())

    @check
    def test_waiting_runs_do_not_mix(self) -> None:
        """Runs that are all open at one moment keep their agents to themselves.

        Troubleshooting: see test_concurrent_runs_do_not_mix.
        """
        self.skip_unless("can_wait", "an agent cannot await there")

        async def all_of_them() -> None:
            arrived = 0
            everyone = asyncio.Event()

            async def wait() -> None:
                nonlocal arrived
                arrived += 1
                if arrived == CONCURRENT:
                    everyone.set()
                await everyone.wait()

            teams = [self.waiting(wait) for _ in range(CONCURRENT)]
            await asyncio.wait_for(asyncio.gather(*(self.ainvoke(team) for team in teams)), 60)

        with watch() as watched, adapters.alone(self.make_adapter()):
            asyncio.run(all_of_them())
        found = watched.captured.traces
        must = f"{CONCURRENT} open runs must give as many traces"
        self.must(len({t.trace_id for t in found}) == CONCURRENT, must, len(found))
        counts = [len(openings(trace, "worker")) for trace in found]
        must = "each must have its own agent, once"
        self.must(counts == [1] * CONCURRENT, must, counts)

    @check
    def test_a_stream_closed_early_is_no_error(self) -> None:
        """A consumer that leaves ends the run: every span, no error, consumer_closed.

        Troubleshooting: GeneratorExit arrives at the yield of the wrapped stream; close what
        is open there, with spans.outcome(error).
        """
        ways = [way for way in ("stream", "astream") if getattr(self, f"can_{way}")]
        if not ways:
            self.skip_unless("can_stream", "the framework does not stream")
        scenario = "handing_off" if self.can_hand_off else self._richest()
        for way in ways:
            with watch() as watched, adapters.alone(self.make_adapter()):
                outcome = drive_to_first(self, way, self._team(scenario, self._look_away))
            one = Recording(scenario, way, watched, outcome, [])
            self._left_well(one, "consumer_closed")

    @check
    def test_a_cancelled_run_says_so(self) -> None:
        """A run that is cancelled ends every span, is no error, and says cancelled.

        Troubleshooting: catch BaseException around the wrapped call, close with
        spans.outcome(error), and raise it again.
        """
        self.skip_unless("can_wait", "an agent cannot await there")
        with watch() as watched, adapters.alone(self.make_adapter()):
            is_told = drive_and_cancel(self, self.waiting)
        self.must(is_told, "the caller must get the CancelledError", "none")
        self._left_well(Recording("waiting", "ainvoke", watched, Outcome(), []), "cancelled")

    def _left_well(self, one: Recording, reason: str) -> None:
        trace = one.trace
        if trace is None or trace.stop is None:
            self.fail(f"{one.name} must give one trace with a stop", len(one.captured.traces))
        came = (trace.stop.get("stop_reason"), trace.stop.get("status"))
        must = f"{one.name} must stop as cancelled, because of {reason}"
        self.must(came == (reason, "cancelled"), must, came)
        bad = [s.name for s in one.captured.spans if s.status.status_code is StatusCode.ERROR]
        self.must(not bad, f"{one.name} must have no span of status ERROR", bad)
        problems = "; ".join([*map(str, one.watched.problems), *one.problems("context")])
        self.must(not problems, f"{one.name} must leave no trace of its own", problems)
