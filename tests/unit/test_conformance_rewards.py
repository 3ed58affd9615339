"""The reward kit: the built-in measures pass, each broken function is caught."""

import itertools
import math
import statistics

import pytest

from orchtrace_otel.model import Reward
from orchtrace_otel.rewards import MEASURES, measure
from orchtrace_otel.testing.conformance_rewards import ConformanceError, RewardConformance


class TestMeasures(RewardConformance):
    """Everything that is measured in a trace, at once."""

    def reward(self, trace):
        return measure(trace)[0]


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_each_measure_is_pure_and_keeps_to_its_order(name) -> None:
    """Each built-in measure holds alone what all of them hold together."""

    class Kit(RewardConformance):
        def reward(self, trace):
            return {name: measure(trace)[0].get(name)}

    kit = Kit()
    for check in set(Kit._checks) - {"test_it_says_something"}:
        getattr(kit, check)()


count = itertools.count()


def says_nothing(trace):
    return None


def divides_by_nothing(trace):
    return math.nan


def invents_families(trace):
    return Reward(id="r", component="mood", value=1.0, family="R9")


def counts_calls(trace):
    return next(count)


def leaves_marks(trace):
    trace.events[0].keys["seen"] = True
    return 1.0


def sums_as_it_comes(trace):
    return sum(event.t * (0.1 + n) for n, event in enumerate(trace.events))


def errs_without_end(trace):
    return Reward(id=trace.trace_id, component="odd", value=1.0, se=math.inf)


def expects_our_keys(trace):
    return statistics.mean(len(event["verb"]) for event in trace.events)


def has_no_limit(trace):
    return math.inf if trace.trace_id == "bare" else 1.0


BROKEN = [
    ("test_it_says_something", says_nothing, "one of the traces must have a reward"),
    ("test_rewards_are_whole", divides_by_nothing, "must be finite, came nan"),
    ("test_rewards_are_whole", invents_families, "('R9', 'team', 'outcome')"),
    ("test_rewards_are_whole", errs_without_end, "must hold its types in all fields"),
    ("test_it_is_pure", counts_calls, "the same rewards again"),
    ("test_it_is_pure", leaves_marks, "must stay as it was"),
    ("test_order_does_not_matter", sums_as_it_comes, "in any order"),
    ("test_foreign_traces_are_tolerated", expects_our_keys, "StatisticsError"),
    ("test_foreign_traces_are_tolerated", has_no_limit, "'bare' must give finite rewards"),
]


@pytest.mark.parametrize(
    ("check", "function", "told"), BROKEN, ids=[f"{check}-{f.__name__}" for check, f, _ in BROKEN]
)
def test_each_check_bites(check, function, told) -> None:
    """A function that breaks one promise fails the check of that promise, which says why."""

    class Kit(RewardConformance):
        def reward(self, trace):
            return function(trace)

    with pytest.raises(ConformanceError) as failure:
        getattr(Kit(), check)()
    assert told in str(failure.value)
    assert "\nlook at: " in str(failure.value)


def test_every_check_has_a_broken_function() -> None:
    """No check of the kit goes without a proof that it bites."""
    assert {check for check, _, _ in BROKEN} == set(RewardConformance._checks)
