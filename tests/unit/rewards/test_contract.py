"""What a reward declares, and that its numbers are written and held to it."""

from __future__ import annotations

import math

import pytest

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Reward
from orchtrace_otel.rewards import Component, Facts, component, contract_of, reward, score
from orchtrace_otel.rewards.component import Findings
from orchtrace_otel.rewards.contract import PLAIN


@reward(family="R2", unit="agent", estimator="structural", range=(0, 1), version="2")
def busy(trace):
    return {"A": 0.75, "B": 1, "C": None}


def mine(scored) -> list[Reward]:
    """The records of users' functions."""
    return [one for one in scored.reward_records if not one.id.startswith("fork3:=")]


def test_a_declared_unit_makes_a_mapping_one_reward_for_each_target(fork3):
    """Family, unit, estimator and version come from what is declared, targets from the keys."""
    scored = score(fork3, [("busy", busy)])
    declared = {"family": "R2", "unit": "agent", "estimator": "structural", "version": "2"}
    assert mine(scored) == [
        Reward(id="fork3:busy:A", component="busy", value=0.75, target="A", **declared),
        Reward(id="fork3:busy:B", component="busy", value=1.0, target="B", **declared),
    ]
    assert "busy" not in scored.rewards


def test_a_bare_number_gets_what_is_declared(fork3):
    """A number is a reward under the function's name, and one of the team if that is its unit."""
    calm = reward(family="R7", inputs=("edges",), version="1")(lambda trace: 0.5)
    scored = score(fork3, [("calm", calm)])
    assert scored.rewards["calm"] == 0.5
    assert mine(scored) == [
        Reward(id="fork3:calm:calm", component="calm", value=0.5, family="R7", version="1")
    ]


def test_plain_functions_declare_nothing_and_stay_accepted(fork3):
    """Without a declaration a number is an outcome of the team, of any size."""
    scored = score(fork3, [("huge", lambda trace: -1e300)])
    assert mine(scored) == [Reward(id="fork3:huge:huge", component="huge", value=-1e300)]


def test_without_parentheses_it_declares_what_holds_by_default(fork3):
    """As the other decorators do."""

    @reward
    def plain(trace):
        return 1.0

    assert contract_of(plain) == PLAIN
    assert score(fork3, [("plain", plain)]).rewards["plain"] == 1.0


@pytest.mark.parametrize(
    ("declared", "function", "message"),
    [
        ({}, 5, "a reward must be a function .*, got 5; put @reward"),
        ({}, classmethod(len), "a reward must be a function .*, got <classmethod.*; put @reward"),
        ({}, len, "a reward must be a function .*, got <built-in .* above a function that calls"),
        ({}, [].append, "a reward must be a function .*, got <built-in .* that calls it"),
        ({"range": 5}, busy, r"a reward's range must be two numbers, got 5; write range=\(0, 1\)"),
        ({"range": "ab"}, busy, "a reward's range must be two numbers, got 'ab'; write"),
        ({"range": (0,)}, busy, r"a reward's range must be two numbers, got \(0,\); write"),
        ({"range": (1, 0)}, busy, r"a reward's range must go from low to high, got \(1, 0\)"),
        ({"inputs": "edges"}, busy, "a reward's inputs must be a tuple of texts, got 'edges'"),
        ({"inputs": (1,)}, busy, r"a reward's inputs must be a tuple of texts, got \(1,\)"),
        ({"version": 2}, busy, "a reward's version must be a text, got 2; write version='1'"),
    ],
)
def test_a_declaration_that_says_nothing_is_refused_where_it_stands(declared, function, message):
    """Not at the end of the first run; and what is refused is left as it was."""
    with pytest.raises(ConfigError, match=message):
        reward(**declared)(function)
    assert contract_of(busy).version == "2"


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan, math.inf])
def test_a_number_out_of_its_range_is_absent_and_flagged(fork3, value):
    """It costs itself alone: the other targets of the same function keep theirs."""
    odd = reward(unit="agent", range=(0, 1))(lambda trace: {"A": value, "B": 1.0})
    scored = score(fork3, [("odd", odd)])
    assert [(one.target, one.value) for one in mine(scored)] == [("B", 1.0)]
    assert scored.flags == ("reward_failed:odd",)


def test_a_number_for_one_of_several_that_is_not_named_is_absent_and_flagged(fork3):
    """It would be nobody's, and say so nowhere; the orchestrator and the team need no name."""
    tone = reward(unit="agent", family="R2")(lambda trace: 1.0)
    calm = reward(unit="orchestrator", family="R7")(lambda trace: 0.5)
    scored = score(fork3, [("tone", tone), ("calm", calm)])
    assert [(one.component, one.value) for one in mine(scored)] == [("calm", 0.5)]
    assert scored.flags == ("reward_failed:tone",)


def test_declaring_leaves_the_function_as_it_is():
    """The decorator gives back the function itself, with its contract beside it."""

    def plain(trace):
        return 1.0

    assert reward(family="R5", unit="tool_call")(plain) is plain
    assert contract_of(plain).unit == "tool_call"
    assert contract_of(len).family == "R1"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"family": "R9"}, "family must be one of R1, R2"),
        ({"unit": "planet"}, "unit must be one of token, turn"),
        ({"estimator": "hope"}, "estimator must be one of structural"),
        ({"range": (1, 0)}, "range must go from low to high, got (1, 0)"),
        ({"range": (math.nan, 0)}, "range must go from low to high"),
    ],
)
def test_a_contract_refuses_words_that_are_none(wrong, told):
    """A wrong declaration fails where it is written, not in a run."""
    with pytest.raises(ConfigError) as failure:
        reward(**wrong)
    assert told in str(failure.value)


def found(function, trace, **declared) -> Findings:
    made = component(family="R7", range=(0, 1), **declared)(function)
    findings = Findings()
    findings.take((made,), Facts(trace))
    return findings


def test_a_component_is_a_function_of_a_trace(fork3):
    """A built-in reward reads shared facts inline, and a trace when it is called."""

    @component(family="R7", range=(0, 100))
    def events(facts):
        return len(facts.events)

    assert isinstance(events, Component)
    assert events(fork3) == 13


def test_the_numbers_of_a_component_go_where_they_belong(fork3):
    """The team's are rewards and records, those of events go by position, metrics apart."""

    def half(facts):
        return 0.5

    team = found(half, fork3)
    assert (team.team, team.metrics, team.events) == ({"half": 0.5}, {}, {})
    assert [one["id"] for one in team.records] == ["fork3:=half"]
    metric = found(half, fork3, is_metric=True)
    assert (metric.team, metric.metrics, metric.records) == ({}, {"half": 0.5}, [])

    def by_place(facts):
        return {3: 0.25}

    placed = found(by_place, fork3, unit="message")
    assert (placed.team, placed.records, placed.events) == ({}, [], {3: {"by_place": 0.25}})

    def by_name(facts):
        return {"A": 1.0}

    named = found(by_name, fork3, unit="agent")
    assert named.records == [
        {
            "id": "fork3:=by_name:agent:A",
            "component": "by_name",
            "value": 1.0,
            "family": "R7",
            "unit": "agent",
            "target": "A",
            "estimator": "structural",
            "provisional": False,
            "version": "1",
        }
    ]


@pytest.mark.swallows_errors
@pytest.mark.parametrize("wrong", [2.0, math.nan, {1: 0.5, 2: -1.0}, {"A": math.inf}, "much"])
def test_a_component_that_breaks_its_contract_is_absent_flagged_and_counted(fork3, wrong):
    """Nothing of it is written, and the guard counts it."""

    def odd(facts):
        return wrong

    findings = found(odd, fork3)
    assert findings.failed == {"reward_failed:odd"}
    assert (findings.team, findings.records, findings.events) == ({}, [], {})
