"""Spans of others as the events and edges of ours.

A dialect is a file that reads one span: what kind of thing it is, and its facts under
our own keys. What hangs together how is the same for all of them: `scene` finds the
run and who is inside of whom, `owners` whose a stray call is, `handoffs` who was handed
what, `flow` what led to what, `adoption` writes it down as we would have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from orchtrace_otel.builder import Foreign
from orchtrace_otel.dialects import genai, genai_old, openinference, openllmetry
from orchtrace_otel.dialects.adoption import PASSED_THROUGH, Adopted, adopt
from orchtrace_otel.dialects.reading import ended

__all__ = ["NUMBERS", "PASSED_THROUGH", "Adopted", "adopt", "read"]

NUMBERS: Final = (*openinference.NUMBERS, *genai_old.NUMBERS)
"""Attributes of the dialects that are numbers, beside those of the current conventions."""

_DIALECTS: Final = (openllmetry, openinference, genai_old, genai)
"""The narrower ones first: they say what they mean by the names of wider ones."""


def read(name: str, found: Mapping[str, Any], raised: Iterable[str] = ()) -> Foreign | None:
    """Return what a span of others says of orchestration, None where it says nothing.

    Args:
        name: Its name.
        found: Its attributes.
        raised: Types of the exceptions that it recorded.

    Example:
        >>> read("invoke_agent critic", {"gen_ai.operation.name": "invoke_agent"})
        Foreign(dialect='genai', kind='agent', attributes={'gen_ai.agent.name': 'critic'}, calls=())
        >>> read("GET /search", {"http.request.method": "GET"}) is None
        True
    """
    for dialect in _DIALECTS:
        said = dialect.read(name, found)
        if said is not None:
            return ended(said, found, raised)
    return None
