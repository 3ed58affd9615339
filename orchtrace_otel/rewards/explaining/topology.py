"""Why a team is taken for what its trace says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from orchtrace_otel.rewards.explaining.explanation import Explanation, ordered
from orchtrace_otel.rewards.facts import Facts
from orchtrace_otel.rewards.topology import explain_topology

if TYPE_CHECKING:
    from orchtrace_otel.model import Trace

_FORMULA: Final = (
    "the kind that most activations speak for; mixed where a second has a third, or a quarter "
    "beside one below three fifths"
)


def explain_kind(trace: Trace) -> Explanation:
    """Explain the recognised topology of a trace, activation by activation.

    What a trace came with may be another word, and is worth more.

    Example:
        >>> from orchtrace_otel.model import Event, Trace
        >>> events = [Event(f"{name}.open", 0, "spawn", "lead", {"to": name, "parent": "r"})
        ...           for name in ("scout", "coder")]
        >>> explained = explain_kind(Trace("run", "task", tuple(events)))
        >>> explained.filled, explained.parts[0].counts
        ('centralized: 2 of 2 activations were called', 'called')
    """
    evidence = explain_topology(trace)
    places = {event.id: place for place, event in enumerate(trace.events)}
    ways = {
        places[name + ".open"]: way
        for name, way in evidence.activations.items()
        if name + ".open" in places
    }
    filled = f"{evidence.topology}: {'; '.join(evidence.signs) or 'no activation below the lead'}"
    return Explanation(_FORMULA, filled, ordered(Facts(trace), ways))
