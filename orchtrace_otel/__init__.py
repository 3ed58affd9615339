"""OpenTelemetry middleware for teams of LLM agents: the orchestration trace.

One decorator on agents that exist, and every spawn, delegation, message, tool call,
return, aggregate and stop becomes a span with causal links, in any collector, and one
scored trace a run that conforms to the published schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.decorators import agent, team, tool
from orchtrace_otel.errors import (
    ConfigError,
    MissingDependencyError,
    OrchtraceError,
    TraceFormatError,
)
from orchtrace_otel.model import Edge, Event, Reward, Trace, Turn
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

if TYPE_CHECKING:
    from orchtrace_otel.adapter import Instrumented
    from orchtrace_otel.advice.advisor import advise
    from orchtrace_otel.configuration import configure, flush, instrument, losses, shutdown
    from orchtrace_otel.propagation import extract, inject
    from orchtrace_otel.replay.counterfactual import counterfactual
    from orchtrace_otel.rewards import reward

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
    "advise",
    "agent",
    "aggregate",
    "configure",
    "counterfactual",
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
    "reward",
    "shutdown",
    "spawn",
    "stop",
    "team",
    "tool",
]

# An agent's module needs the decorators and verbs. What sets a process up, once, is loaded
# when it is asked for: it takes as long to import as all the rest.
_LATER: Final = {
    "Instrumented": "adapter",
    "advise": "advice.advisor",
    "configure": "configuration",
    "counterfactual": "replay.counterfactual",
    "extract": "propagation",
    "flush": "configuration",
    "inject": "propagation",
    "instrument": "configuration",
    "losses": "configuration",
    "reward": "rewards",
    "shutdown": "configuration",
}

if not TYPE_CHECKING:

    def __dir__() -> list[str]:
        """Name what is public, be it loaded or not, for who looks around."""
        return sorted({*globals(), *__all__})

    def __getattr__(name: str) -> Any:
        """Load what is public and not loaded yet."""
        if name not in _LATER:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        from importlib import import_module  # noqa: PLC0415 - see above

        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
