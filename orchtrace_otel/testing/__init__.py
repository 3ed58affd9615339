"""What tests of traced applications, and of adapters, exporters and rewards, need.

`capture` records what happens inside it, `strict` also fails on what tracing must never
do; `orchtrace_otel.testing.plugin` has the latter as a fixture of pytest. The kits for
authors lie in `conformance` (adapters), `conformance_exporters` and
`conformance_rewards`; they need pytest and are imported by their own names.
"""

from __future__ import annotations

from orchtrace_otel.testing.recorder import Captured, Ticks, capture
from orchtrace_otel.testing.strict import Problem, StrictError, Watched, strict, watch

__all__ = [
    "Captured",
    "Problem",
    "StrictError",
    "Ticks",
    "Watched",
    "capture",
    "strict",
    "watch",
]
