"""OpenTelemetry middleware for teams of LLM agents: the orchestration trace.

One decorator on agents that exist, and every spawn, delegation, message, tool call,
return, aggregate and stop becomes a span with causal links, in any collector, and one
scored trace a run that conforms to the published schema.
"""

from __future__ import annotations

from orchtrace_otel.adapter import Instrumented
from orchtrace_otel.configuration import configure, flush, instrument, losses, shutdown
from orchtrace_otel.decorators import agent, team, tool
from orchtrace_otel.errors import (
    ConfigError,
    MissingDependencyError,
    OrchtraceError,
    TraceFormatError,
)
from orchtrace_otel.model import Edge, Event, Reward, Trace, Turn
from orchtrace_otel.propagation import extract, inject
from orchtrace_otel.spans import Run
from orchtrace_otel.verbs import (
    aggregate,
    current_run,
    decide,
    delegate,
    message,
    record_reward,
    spawn,
    stop,
)

__all__ = [
    "ConfigError",
    "Edge",
    "Event",
    "Instrumented",
    "MissingDependencyError",
    "OrchtraceError",
    "Reward",
    "Run",
    "Trace",
    "TraceFormatError",
    "Turn",
    "agent",
    "aggregate",
    "configure",
    "current_run",
    "decide",
    "delegate",
    "extract",
    "flush",
    "inject",
    "instrument",
    "losses",
    "message",
    "record_reward",
    "shutdown",
    "spawn",
    "stop",
    "team",
    "tool",
]
