"""Scoring a trace: structural measures, built-in rewards and credit, and users' rewards.

Plain functions of a `Trace`, the same inline, from OTLP and from a file. What cannot
be known is absent and flagged on the stop, never 0.
"""

from __future__ import annotations

from orchtrace_otel.rewards.component import Component, Values, component
from orchtrace_otel.rewards.contract import Contract, Twin, contract_of, reward
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.functions import RewardFunction, RewardResult
from orchtrace_otel.rewards.measures import MEASURES, measure, measure_facts
from orchtrace_otel.rewards.outcome import Outcome, find_outcome
from orchtrace_otel.rewards.scoring import score, score_facts

__all__ = [
    "MEASURES",
    "Component",
    "Contract",
    "Facts",
    "Outcome",
    "RewardFunction",
    "RewardResult",
    "Twin",
    "Values",
    "component",
    "contract_of",
    "find_outcome",
    "measure",
    "measure_facts",
    "reward",
    "score",
    "score_facts",
]
