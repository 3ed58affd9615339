"""What every reward function must do: subclass `RewardConformance`."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from orchtrace_otel.model import ESTIMATORS, FAMILIES, UNITS, Reward, Trace
from orchtrace_otel.rewards.functions import RewardResult, call
from orchtrace_otel.testing._kit import ConformanceError, Kit, check
from orchtrace_otel.testing._samples import foreign_traces, own_traces

__all__ = ["ConformanceError", "RewardConformance"]


class RewardConformance(Kit, ABC, kit=True):
    """The checks that a reward function inherits."""

    @abstractmethod
    def reward(self, trace: Trace) -> RewardResult | None:
        """Call the function."""

    def traces(self) -> Sequence[Trace]:
        """Return the traces that it is tried on; at least one must have a reward."""
        return own_traces()

    @check
    def test_it_says_something(self) -> None:
        """At least one of the traces has a reward.

        Troubleshooting: give `traces` that the function is made for.
        """
        found = [self._rewards(trace) for trace in self.traces()]
        self.must(any(found), "one of the traces must have a reward", "none")

    @check
    def test_rewards_are_whole(self) -> None:
        """Every number is finite, and family, unit and estimator are known words.

        Troubleshooting: leave out what is unknown (None, or no such key): no NaN, no 0.
        """
        for trace in self.traces():
            for reward in self._rewards(trace):
                what = f"the reward {reward.component!r}"
                is_finite = math.isfinite(reward.value)
                self.must(is_finite, f"{what} must be finite", reward.value)
                words = (reward.family, reward.unit, reward.estimator)
                known = zip(words, (FAMILIES, UNITS, ESTIMATORS), strict=True)
                is_known = all(word in table for word, table in known)
                self.must(is_known, f"{what} must say family, unit and estimator", words)
                self.must(reward.is_sound, f"{what} must hold its types in all fields", reward)

    @check
    def test_it_is_pure(self) -> None:
        """The same trace gives the same rewards, and is left as it was.

        Troubleshooting: no clock, no chance, no state, no network; copy before changing.
        """
        for trace in self.traces():
            before = trace.to_json()
            first, second = self._rewards(trace), self._rewards(trace)
            must = f"the trace {trace.trace_id} must have the same rewards again"
            self.must(first == second, must, (first, second))
            must = f"the trace {trace.trace_id} must stay as it was"
            self.must(trace.to_json() == before, must, "a change")

    @check
    def test_order_does_not_matter(self) -> None:
        """Events and edges in another order, the stop last, give the same rewards.

        Troubleshooting: sort by `t` and id, count in integers, and divide once: a sum of
        floats depends on its order.
        """
        shuffled = random.Random(0)  # noqa: S311 - an order, no secret
        for trace in self.traces():
            events, edges = list(trace.events[:-1]), list(trace.edges)
            shuffled.shuffle(events)
            shuffled.shuffle(edges)
            other = replace(trace, events=(*events, *trace.events[-1:]), edges=tuple(edges))
            wanted, came = self._rewards(trace), self._rewards(other)
            must = f"the trace {trace.trace_id} must have its rewards in any order: {wanted}"
            self.must(came == wanted, must, came)

    @check
    def test_foreign_traces_are_tolerated(self) -> None:
        """A trace of others, that knows none of our keys, raises nothing.

        Troubleshooting: `event.get(key)` for everything beyond id, t, type and agent; a
        trace may be empty, have no stop, a cycle, or edges to nowhere.
        """
        for trace in foreign_traces():
            try:
                rewards = self._rewards(trace)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                must = f"the foreign trace {trace.trace_id!r} must raise nothing"
                self.fail(must, repr(error))
            bad = [reward for reward in rewards if not math.isfinite(reward.value)]
            must = f"the foreign trace {trace.trace_id!r} must give finite rewards"
            self.must(not bad, must, bad)

    def _rewards(self, trace: Trace) -> list[Reward]:
        return call(type(self).__name__, self.reward, trace)
