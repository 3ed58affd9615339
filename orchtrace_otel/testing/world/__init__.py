"""A world with planted truth: runs of made-up teams of which everything is known.

For measuring estimators, never for showing off with them. What is assumed:

- `make_world` plays teams of the six kinds. Activations are right or wrong, with a
  probability that rises or falls with what reaches them; the answer's quality is a
  sum over what reached it. So effects are known exactly, and chance is like a model's:
  a replay that reads something else throws its dice anew.
- Messages are fillers or useful; those of a broken agent mislead. Nothing in a trace
  says which: not its length, not its place, not its tokens.
- Effects add up, within 0 and 1. Real teams have stronger interactions.
- `make_stopping_runs` plays teams that could stop at any of several points, and logs
  a stop by a policy with a known hazard.
"""

from __future__ import annotations

from orchtrace_otel.testing.world._play import World, make_group, make_world
from orchtrace_otel.testing.world._scene import Letter
from orchtrace_otel.testing.world._stopping import Point, StoppingRun, make_stopping_runs

__all__ = [
    "Letter",
    "Point",
    "StoppingRun",
    "World",
    "make_group",
    "make_stopping_runs",
    "make_world",
]
