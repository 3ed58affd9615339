"""Why a number of a run is what it is: the formula, filled in, and the events that made it.

Only for people who ask: nothing here runs inline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.explaining.explanation import Explanation, Part
from orchtrace_otel.rewards.explaining.families import FAMILIES
from orchtrace_otel.rewards.explaining.measures import MEASURES
from orchtrace_otel.rewards.facts import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orchtrace_otel.model import Trace

__all__ = ["EXPLAINED", "Explanation", "Part", "explain"]

EXPLAINED: Final[Mapping[str, Callable[[Facts], Explanation]]] = {**MEASURES, **FAMILIES}
"""Every built-in number of a run that can be explained, by name."""


def explain(trace: Trace, name: str) -> Explanation | None:
    """Explain the built-in measure or reward `name` of a trace; None where it is not built in.

    Call it only where the number is there: it says how it came about, not why it is absent.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> call = Event("c", 0, "tool_call", "a", {"tool": "search", "status": "error"})
        >>> explained = explain(Trace("run", "task", (call,)), "tools_succeeded")
        >>> explained.filled, explained.parts[0].what, explained.parts[0].counts
        ('0 / 1', 'a tool_call search', 'failed')
    """
    read = EXPLAINED.get(name)
    return None if read is None else read(Facts(trace))
