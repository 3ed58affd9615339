"""The reward kit: the built-in measures pass, each broken function is caught."""

import itertools
import math
import statistics
from dataclasses import replace

import pytest

from orchtrace_otel.model import Reward
from orchtrace_otel.rewards import MEASURES, Facts, contract_of, measure, reward
from orchtrace_otel.rewards.builtin import COMPONENTS
from orchtrace_otel.rewards.component import Findings
from orchtrace_otel.rewards.credit import assign, by_unit
from orchtrace_otel.rewards.online import Online
from orchtrace_otel.testing.conformance_rewards import ConformanceError, RewardConformance


class TestMeasures(RewardConformance):
    """Everything that is measured in a trace, at once."""

    has_online = True

    def reward(self, trace):
        return measure(trace)[0]

    def online(self):
        return Measuring()


class Measuring(Online):
    """The measures' twin, without the flags."""

    def finish(self, trace):
        return super().finish(trace)[0]


class TestCredit(RewardConformance):
    """What each agent gets by flow, as a reward of each agent."""

    @reward(family="R2", unit="agent", estimator="structural", range=(0, 1))
    def reward(self, trace):
        facts = Facts(replace(trace, rewards={"task": 1.0}))
        credit = assign(facts)
        return None if credit is None else by_unit(facts, credit, "flow", "agent").targets


@reward(family="R7", unit="orchestrator", estimator="structural", range=(0, 1))
def messages(trace):
    return sum(event.type == "message" for event in trace.events) / max(len(trace.events), 1)


class Counting:
    """The twin of `messages`."""

    def __init__(self):
        self.types = []

    def add(self, event, causes=()):
        self.types.append(event.type)

    def finish(self, trace):
        return self.types.count("message") / max(len(self.types), 1)


class TestCalled(RewardConformance):
    """Bare numbers, of the function and of its twin, are what the contract says."""

    has_online = True

    def reward(self, trace):
        return messages(trace)

    def contract(self):
        return contract_of(messages)

    def online(self):
        return Counting()


class TestDecorated(TestCalled):
    """The same where the kit's own method is decorated, and the twin is not."""

    contract = RewardConformance.contract

    @reward(family="R7", unit="orchestrator", estimator="structural", range=(0, 1))
    def reward(self, trace):
        return messages(trace)


@pytest.mark.parametrize("one", COMPONENTS, ids=lambda one: one.name)
def test_each_builtin_keeps_its_contract(one) -> None:
    """Every built-in reward holds what is asked of users' functions, and its own range."""

    class Kit(RewardConformance):
        def contract(self):
            return one.contract

        def reward(self, trace):
            findings = Findings()
            findings.take((one,), Facts(trace))
            assert not findings.failed
            values = [*findings.metrics.items(), *findings.team.items()]
            values += [
                (f"{name}@{trace.events[place].id}", number)
                for place, found in findings.events.items()
                for name, number in found.items()
            ]
            values += [
                (record["component"] + str(record.get("target")), record["value"])
                for record in findings.records
            ]
            return [
                Reward(
                    id=name,
                    component=name,
                    value=value,
                    family=one.contract.family,
                    unit=one.contract.unit,
                    target=name,
                    estimator=one.contract.estimator,
                )
                for name, value in sorted(values)
            ]

    kit = Kit()
    for check in set(Kit._checks) - {"test_it_says_something", "test_online_is_offline"}:
        getattr(kit, check)()


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_each_measure_is_pure_and_keeps_to_its_order(name) -> None:
    """Each built-in measure holds alone what all of them hold together."""

    class Kit(RewardConformance):
        def reward(self, trace):
            return {name: measure(trace)[0].get(name)}

    kit = Kit()
    for check in set(Kit._checks) - {"test_it_says_something", "test_online_is_offline"}:
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


def adds_floats(trace):
    total = 0.0
    for event in trace.events:  # sum() makes up for what is rounded, from Python 3.12 on
        total += event.t * 0.1
    return total


def names_nobody(trace):
    return Reward(id="r", component="tone", value=1.0, unit="agent")


def errs_without_end(trace):
    return Reward(id=trace.trace_id, component="odd", value=1.0, se=math.inf)


def expects_our_keys(trace):
    return statistics.mean(len(event["verb"]) for event in trace.events)


def has_no_limit(trace):
    return math.inf if trace.trace_id == "bare" else 1.0


@reward(range=(0, 1))
def grows_out_of_its_range(trace):
    return len(trace.events) / 10


@reward(family="R2", unit="agent")
def says_another_unit(trace):
    return Reward(id="r", component="odd", value=1.0)


def trusts_every_trace(trace):
    if any(event.t > trace.stop.t for event in trace.events):
        raise RuntimeError
    return 1.0


class Forgetful:
    """A twin that only knows what came last."""

    def add(self, event, causes=()):
        self.last = event

    def finish(self, trace):
        return self.last.t if trace.events else None


def knows_the_stop(trace):
    return trace.events[-1].t if trace.events else None


BROKEN = [
    ("test_it_says_something", says_nothing, "one of the traces must have a reward"),
    ("test_rewards_are_whole", divides_by_nothing, "must be finite, came nan"),
    ("test_rewards_are_whole", invents_families, "('R9', 'team', 'outcome')"),
    ("test_rewards_are_whole", names_nobody, "'tone' must say whose it is"),
    ("test_rewards_are_whole", errs_without_end, "must hold its types in all fields"),
    ("test_it_is_pure", counts_calls, "the same rewards again"),
    ("test_it_is_pure", leaves_marks, "must stay as it was"),
    ("test_order_does_not_matter", sums_as_it_comes, "in any order"),
    ("test_order_does_not_matter", adds_floats, "in any order"),
    ("test_foreign_traces_are_tolerated", expects_our_keys, "StatisticsError"),
    ("test_foreign_traces_are_tolerated", has_no_limit, "'bare' must give finite rewards"),
    ("test_odd_traces_are_tolerated", trusts_every_trace, "'skew' must raise nothing"),
    ("test_numbers_keep_to_what_is_declared", grows_out_of_its_range, "be between 0 and 1, came"),
    ("test_numbers_keep_to_what_is_declared", says_another_unit, "as declared, came ('R1', 'team'"),
    ("test_online_is_offline", knows_the_stop, "events coming backwards"),
]


@pytest.mark.parametrize(
    ("check", "function", "told"), BROKEN, ids=[f"{check}-{f.__name__}" for check, f, _ in BROKEN]
)
def test_each_check_bites(check, function, told) -> None:
    """A function that breaks one promise fails the check of that promise, which says why."""

    class Kit(RewardConformance):
        has_online = True

        def reward(self, trace):
            return function(trace)

        def contract(self):
            return contract_of(function)

        def online(self):
            return Forgetful()

    with pytest.raises(ConformanceError) as failure:
        getattr(Kit(), check)()
    assert told in str(failure.value)
    assert "\nlook at: " in str(failure.value)


def test_every_check_has_a_broken_function() -> None:
    """No check of the kit goes without a proof that it bites."""
    assert {check for check, _, _ in BROKEN} == set(RewardConformance._checks)
