"""The one place that starts and ends spans.

A `Run` is an `invoke_workflow` root with all that happens below it. Stretches of
work are `Interval`s: activations of agents (`invoke_agent`), tool calls, LLM calls,
and events that take time. Everything else is an instant, a span without length.
Parents are given, never guessed; edges are written on the later span twice, as OTel
links, which people and backends see, and as string arrays, which no limit on links
cuts. Nothing here keeps a context attached: callers attach and detach around the
code they run, and never across a yield.
"""

from __future__ import annotations

from orchtrace_otel.spans._activation import Activation, current, of
from orchtrace_otel.spans._beginning import join_run, link_runs, start_run
from orchtrace_otel.spans._blocks import Block
from orchtrace_otel.spans._carrying import carrying
from orchtrace_otel.spans._interval import Interval, Scope, keepers, lies_below, scope_of
from orchtrace_otel.spans._opening import (
    instant,
    open_activation,
    open_interval,
    open_tool,
    open_turn,
)
from orchtrace_otel.spans._outcome import error_type, outcome, outcomes
from orchtrace_otel.spans._run import Run
from orchtrace_otel.spans._text import all_writable, writable
from orchtrace_otel.spans._tracing import (
    Attributes,
    Follower,
    Observer,
    Tracing,
    Value,
    Watcher,
    ignore,
    is_configured,
    is_suppressed,
    record_late,
    tracing,
    use,
    watchers,
)

__all__ = [
    "Activation",
    "Attributes",
    "Block",
    "Follower",
    "Interval",
    "Observer",
    "Run",
    "Scope",
    "Tracing",
    "Value",
    "Watcher",
    "all_writable",
    "carrying",
    "current",
    "error_type",
    "ignore",
    "instant",
    "is_configured",
    "is_suppressed",
    "join_run",
    "keepers",
    "lies_below",
    "link_runs",
    "of",
    "open_activation",
    "open_interval",
    "open_tool",
    "open_turn",
    "outcome",
    "outcomes",
    "record_late",
    "scope_of",
    "start_run",
    "tracing",
    "use",
    "watchers",
    "writable",
]
