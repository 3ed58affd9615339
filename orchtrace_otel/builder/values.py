"""Reading what senders may have garbled: each reader gives a value of its type, or says none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.records import SpanRecord
from orchtrace_otel.model import STATUSES, Reward

Usage: TypeAlias = tuple[int | None, int | None]
"""Tokens read and written; None where unknown."""

UNKNOWN_USAGE: Final[Usage] = (None, None)

_ARRAYS: Final = (tuple, list)
_MOST_TOKENS: Final = 2**53


def word(found: Mapping[str, Any], key: str) -> str | None:
    """Return a text that is there and says something, else None."""
    held = found.get(key)
    return held if isinstance(held, str) and held else None


def text(found: Mapping[str, Any], key: str) -> str:
    """Return a text whatever is there; `unknown` where nothing is."""
    held = found.get(key) or "unknown"
    return held if held.__class__ is str else str(held)


def texts(given: Any, flags: set[str]) -> Sequence[str]:
    """Return the texts in an attribute that holds texts; what else it holds is flagged."""
    if given.__class__ not in _ARRAYS:
        flags.add("garbled")
        return ()
    for one in given:
        if not isinstance(one, str):
            flags.add("garbled")
            return [one for one in given if isinstance(one, str)]
    return given


def status(record: SpanRecord) -> str:
    """Return the status that a span states, else the one of its OTel span."""
    stated = record.attributes.get(a.STATUS)
    if stated.__class__ is str and stated in STATUSES:
        return str(stated)
    return "error" if record.is_error else "ok"


def usage(record: SpanRecord) -> Usage:
    """Return the tokens of a call of a model."""
    found = record.attributes
    return _tokens(found.get(a.INPUT_TOKENS)), _tokens(found.get(a.OUTPUT_TOKENS))


def _tokens(count: Any) -> int | None:
    """Return a count of tokens; None where it is none, which is not to say 0."""
    if count.__class__ is not int:
        if count.__class__ is not float or not count.is_integer():
            return None
        count = int(count)  # languages without integers send these
    return count if 0 <= count <= _MOST_TOKENS else None


def rewards(written: Any) -> tuple[list[Reward], bool]:
    """Read the rewards that a root carries, and say whether all could be read."""
    if written is None:
        return [], True
    try:
        given = [Reward.from_dict(record) for record in orjson.loads(written)]
    except (TypeError, ValueError, AttributeError):
        return [], False
    sound = [reward for reward in given if reward.is_sound]
    return sound, len(sound) == len(given)
