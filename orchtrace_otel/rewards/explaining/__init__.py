"""Why a number of a run is what it is: the formula, filled in, and the events that made it.

Only for people who ask: nothing here runs inline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.explaining.explanation import Explanation, Part
from orchtrace_otel.rewards.explaining.families import FAMILIES
from orchtrace_otel.rewards.explaining.measures import MEASURES
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.families import STRUCTURAL
from orchtrace_otel.rewards.measures import measure_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchtrace_otel.model import Trace

__all__ = ["EXPLAINED", "Explanation", "Part", "explain"]

EXPLAINED: Final[Mapping[str, Callable[[Facts], Explanation]]] = {**MEASURES, **FAMILIES}
"""Every built-in number of a run that can be explained, by name."""

_COMPONENTS: Final = {one.name: one for one in STRUCTURAL}


def explain(trace: Trace, name: str) -> Explanation | None:
    """Explain the built-in measure or reward `name` of a trace.

    None where it is not built in, and where the trace does not tell it: a number that it
    brought along is not what its events make.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> call = Event("c", 0, "tool_call", "a", {"tool": "search", "status": "error"})
        >>> explained = explain(Trace("run", "task", (call,)), "tools_succeeded")
        >>> explained.filled, explained.parts[0].what, explained.parts[0].counts
        ('0 / 1', 'a tool_call search', 'failed')
    """
    read = EXPLAINED.get(name)
    facts = Facts(trace)
    return read(facts) if read is not None and _is_told(facts, name) else None


def _is_told(facts: Facts, name: str) -> bool:
    found = _COMPONENTS.get(name)
    if found is not None:
        return facts.share(found.read) is not None
    return name in measure_facts(facts)[0]
