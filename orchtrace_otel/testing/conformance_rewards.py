"""What every reward function must do: subclass `RewardConformance`."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from orchtrace_otel.model import ESTIMATORS, FAMILIES, UNITS, Reward, Trace
from orchtrace_otel.rewards.contract import PLAIN, Contract, Twin, contract_of
from orchtrace_otel.rewards.functions import RewardResult, call, unaddressed
from orchtrace_otel.testing._kit import ConformanceError, Kit, check
from orchtrace_otel.testing._samples import foreign_traces, odd_traces, own_traces

__all__ = ["ConformanceError", "RewardConformance"]

_ORDERS: Final = 20
"""Orders that are tried: in one alone a sum of floats is often what it was."""


class RewardConformance(Kit, ABC, kit=True):
    """The checks that a reward function inherits.

    Attributes:
        has_online: Whether the function has a twin that follows a run while it is open.
    """

    has_online: ClassVar[bool] = False

    @abstractmethod
    def reward(self, trace: Trace) -> RewardResult | None:
        """Call the function."""

    def contract(self) -> Contract:
        """Return what the function declares; read from `reward` where it is decorated.

        Where `reward` calls the function, and is not decorated itself: `contract_of(function)`.
        """
        return contract_of(self.reward)

    def online(self) -> Twin:
        """Return a new twin of the function that follows a run; needed where `has_online`."""
        raise NotImplementedError

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
                self.must(unaddressed(reward) is None, f"{what} must say whose it is", reward)

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
            wanted = self._rewards(trace)
            must = f"the trace {trace.trace_id} must have its rewards in any order: {wanted}"
            for _ in range(_ORDERS):
                shuffled.shuffle(events)
                shuffled.shuffle(edges)
                other = replace(trace, events=(*events, *trace.events[-1:]), edges=tuple(edges))
                came = self._rewards(other)
                self.must(came == wanted, must, came)

    @check
    def test_foreign_traces_are_tolerated(self) -> None:
        """A trace of others, that knows none of our keys, raises nothing.

        Troubleshooting: `event.get(key)` for everything beyond id, t, type and agent; a
        trace may be empty, have no stop, a cycle, or edges to nowhere.
        """
        for trace in foreign_traces():
            self._tolerate(trace, "the foreign trace")

    @check
    def test_odd_traces_are_tolerated(self) -> None:
        """A trace in which something is missing, twice or wrong raises nothing.

        Troubleshooting: None is the answer where a number cannot be told; ids may repeat,
        causes may go in circles, times may run backwards, the stop may be missing.
        """
        for trace in odd_traces():
            self._tolerate(trace, "the odd trace")

    @check
    def test_numbers_keep_to_what_is_declared(self) -> None:
        """Every number lies in the declared range, and says the declared family and unit.

        Troubleshooting: a number outside is left out of the trace and flagged; declare a
        wider range, or give None where the formula leaves it.
        """
        declared = self.contract()
        for trace in (*self.traces(), *foreign_traces(), *odd_traces()):
            for reward in self._rewards(trace):
                what = f"{reward.component!r} of the trace {trace.trace_id!r}"
                must = f"{what} must be between {declared.low} and {declared.high}"
                self.must(declared.admits(reward.value), must, reward.value)
                words = (reward.family, reward.unit, reward.estimator)
                must = f"{what} must say family, unit and estimator as declared"
                wanted = (declared.family, declared.unit, declared.estimator)
                self.must(declared is PLAIN or words == wanted, must, words)

    @check
    def test_online_is_offline(self) -> None:
        """Followed event by event, in whatever order, a run ends with the very same rewards.

        Troubleshooting: count in integers while events come; where one came before its
        causes, compute from the finished trace once, at the end.
        """
        self.skip_unless("has_online", "a function that has no twin for open runs")
        shuffled = random.Random(0)  # noqa: S311 - an order, no secret
        for trace in (*self.traces(), *odd_traces()):
            events = list(trace.events)
            wanted = self._rewards(trace)
            for how in ("as they happened", "backwards", "shuffled"):
                twin = self.online()
                for event in events:
                    causes = [
                        edge.src
                        for edge in trace.edges
                        if edge.dst == event.id and edge.type != "temporal"
                    ]
                    twin.add(event, causes)
                came = self._called(twin.finish, trace)
                must = f"{trace.trace_id!r} must have its rewards, events coming {how}: {wanted}"
                self.must(came == wanted, must, came)
                events.reverse() if how == "as they happened" else shuffled.shuffle(events)

    def _tolerate(self, trace: Trace, what: str) -> None:
        try:
            rewards = self._rewards(trace)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            self.fail(f"{what} {trace.trace_id!r} must raise nothing", repr(error))
        bad = [reward for reward in rewards if not math.isfinite(reward.value)]
        self.must(not bad, f"{what} {trace.trace_id!r} must give finite rewards", bad)

    def _rewards(self, trace: Trace) -> list[Reward]:
        return self._called(self.reward, trace)

    def _called(
        self, function: Callable[[Trace], RewardResult | None], trace: Trace
    ) -> list[Reward]:
        return call(type(self).__name__, function, trace, self.contract())
