"""What every dialect needs to read a span's attributes: words, facts, how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import Foreign

_MOST_CHARACTERS: Final = 256
"""Names are low in cardinality; what is longer is text that someone put in a name's place."""

_OUTCOMES: Final[Mapping[str, str]] = {
    "GraphInterrupt": "paused",
    "NodeInterrupt": "paused",
    "ParentCommand": "ok",
    "CancelledError": "cancelled",
    "KeyboardInterrupt": "cancelled",
    "GeneratorExit": "ok",
}
"""Exceptions by which control flow leaves a span that others then report as failed."""


def word(found: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first text among some attributes that can be a name, else None."""
    for key in keys:
        held = found.get(key)
        if isinstance(held, str) and 0 < len(held) <= _MOST_CHARACTERS:
            return held
    return None


def facts(found: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return the attributes of some keys that are there."""
    return {key: found[key] for key in keys if key in found}


def ended(foreign: Foreign, found: Mapping[str, Any], raised: Iterable[str]) -> Foreign:
    """Return what a span says with how it ended, where that is finer than its status.

    Args:
        foreign: What it says otherwise.
        found: Its attributes.
        raised: Types of the exceptions it recorded, as Python or others write them.
    """
    error_type = word(found, a.ERROR_TYPE)
    classes = [name.rpartition(".")[2] for name in (*raised, error_type or "")]
    status = next((_OUTCOMES[name] for name in classes if name in _OUTCOMES), None)
    if status is not None:
        said = {**foreign.attributes, a.STATUS: status}
    elif any(classes):
        said = {**foreign.attributes, a.ERROR_TYPE: next(name for name in classes if name)}
    else:
        return foreign
    return Foreign(foreign.dialect, foreign.kind, said, foreign.calls)
