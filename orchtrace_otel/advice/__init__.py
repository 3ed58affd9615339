"""Advice while a team runs (O5): what is seen at each decision point, and what a model says of it.

`advise` follows the spans of open runs; what they show becomes the features of
`rewards.stopping`, whose `StopValue` says what another step is worth. It stops nothing.
"""

from orchtrace_otel.advice.advisor import Advisor, DecisionPoint, advise

__all__ = ["Advisor", "DecisionPoint", "advise"]
