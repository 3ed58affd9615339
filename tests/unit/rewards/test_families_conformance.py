"""The reward functions of the families pass the kit that users' rewards get."""

from __future__ import annotations

from orchtrace_otel.model import Trace
from orchtrace_otel.rewards.families.hybrid import hybrid
from orchtrace_otel.rewards.families.outcome import Price, net_outcome
from orchtrace_otel.rewards.families.process import progress_rewards
from orchtrace_otel.rewards.families.tools import ToolWeights, tool_rewards
from orchtrace_otel.rewards.families.verifier import verdict_rewards
from orchtrace_otel.testing.conformance_rewards import RewardConformance

_COSTS = net_outcome({"makespan": Price(0.5, 60)})
_TOOLS = tool_rewards(ToolWeights(valid=0, repeated=0))
_MIXED = hybrid({"task": 1.0, (lambda trace: len(trace.edges)): 0.5})
_VERDICTS = verdict_rewards()
_PROGRESS = progress_rewards(
    lambda trace: {event.id: {event.verb} for event in trace.events},
    lambda trace: {"return", "message"},
)


class TestNetOutcome(RewardConformance):
    """The outcome and its costs."""

    def reward(self, trace: Trace):
        return _COSTS(trace)


class TestToolRewards(RewardConformance):
    """A reward for each call."""

    def reward(self, trace: Trace):
        return _TOOLS(trace)


class TestHybrid(RewardConformance):
    """A weighted sum."""

    def reward(self, trace: Trace):
        return _MIXED(trace)


class TestProgress(RewardConformance):
    """A reward for each event that a checker looked at."""

    def reward(self, trace: Trace):
        return _PROGRESS(trace)


def test_no_verdicts_mean_no_rewards(fork3):
    """A trace in which nobody judged has no verdict that changed."""
    assert list(_VERDICTS(fork3)) == []
