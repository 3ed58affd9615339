"""Values that a column cannot hold exactly go into the row's `extra`, and the column is null.

Foreign traces may say anything: a `role` that is a number, a count of 400 digits, half a
surrogate pair. Nothing of it is lost, and nothing of it is bent to fit.
"""

from __future__ import annotations

import json
import math
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from orchtrace_otel.model import is_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from orchtrace_otel.model import Json
    from orchtrace_otel.tables.columns import Column

_NONE: Final = type(None)
_PLAIN: Final[Mapping[str, frozenset[type]]] = {
    "text": frozenset({str, _NONE}),
    "whole": frozenset({int, _NONE}),
    "number": frozenset({float, int, _NONE}),
    "yes/no": frozenset({bool, _NONE}),
    "texts": frozenset({list, tuple, _NONE}),
    "ids": frozenset({list, tuple, _NONE}),
    "floats": frozenset({list, tuple, _NONE}),
    "numbers": frozenset({dict, _NONE}),
    "words": frozenset({dict, _NONE}),
}
_INSIDE: Final[Mapping[str, frozenset[type]]] = {
    "texts": frozenset({str}),
    "ids": frozenset({int}),
    "floats": frozenset({float, int}),
    "numbers": frozenset({float, int}),
    "words": frozenset({str}),
}
_EXACT: Final = 2**53
_INT64: Final = 2**63
_INT32: Final = 2**31


def fits_all(kind: str, values: list[Any], held: set[type]) -> bool:
    """Whether the types of all values suit a column; Arrow may still find one too large."""
    if not held <= _PLAIN[kind]:
        return False
    inside = _INSIDE.get(kind)
    if inside is None:
        return True
    distinct = {id(value): value for value in values if value}.values()
    return set(map(type, chain.from_iterable(map(_inner, distinct)))) <= inside


def _types_inside(value: Any) -> set[type]:
    return set(map(type, _inner(value)))


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("Json", value).values()
    return cast("Iterable[Any]", value)


def keep_spelling(column: Column, values: list[Any], extras: dict[int, Json]) -> None:
    """Note in the row's extra where a number is spelled otherwise than its column gives it back.

    The column has it all the same: 2 in a column of doubles, 2.0 in one of integers.
    """
    for place, value in enumerate(values):
        if value is not None and _is_respelled(column.kind, value):
            extras[place] = {**extras.get(place, {}), column.name: value}
            if column.kind == "whole":
                values[place] = int(value)


def _is_respelled(kind: str, value: Any) -> bool:
    if kind == "numbers":
        return isinstance(value, dict) and int in _types_inside(value)
    if kind == "whole":
        return type(value) is float and value.is_integer() and abs(value) < _EXACT
    return kind == "number" and type(value) is int


def put_aside(column: Column, values: list[Any], extras: dict[int, Json]) -> None:
    """Move each value that the column cannot hold into the row's extra.

    A derived value is left out instead: it can be computed again.
    """
    for place, value in enumerate(values):
        if value is not None and not fits(column.kind, value):
            values[place] = None
            if not column.is_derived:
                extras[place] = {**extras.get(place, {}), column.name: value}


def fits(kind: str, value: Any) -> bool:
    """Whether a column of `kind` holds `value` exactly.

    Example:
        >>> fits("whole", 3), fits("whole", True), fits("number", 2**53 + 1)
        (True, False, False)
    """
    if type(value) not in _PLAIN[kind]:
        return False
    if isinstance(value, dict) and not all(map(is_text, cast("Json", value))):
        return False
    if kind in _INSIDE:
        return _all_fit(kind, _inner(value))
    return _scalar_fits(kind, value)


def _all_fit(kind: str, values: Any) -> bool:
    inside = _INSIDE[kind]
    of = {"texts": "text", "words": "text", "numbers": "number", "floats": "number"}.get(kind)
    if of is None:
        return all(type(value) in inside and abs(value) < _INT32 for value in values)
    return all(type(value) in inside and _scalar_fits(of, value) for value in values)


def _scalar_fits(kind: str, value: Any) -> bool:
    if kind == "text":
        return is_text(value)
    if kind == "whole":
        return bool(-_INT64 <= value < _INT64)
    if kind == "number":
        return math.isfinite(value) if type(value) is float else bool(abs(value) <= _EXACT)
    return True


def dump_json(value: Any) -> str:
    """Write any value of JSON as text that UTF-8 can hold."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        # A number beyond 64 bits, half a surrogate pair, or very deep.
        return json.dumps(value, separators=(",", ":"))
