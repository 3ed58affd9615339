"""What attributes say of an event, and under which keys a trace holds it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from orchtrace_otel import attributes as a
from orchtrace_otel.builder.values import texts
from orchtrace_otel.model import Json

Table: TypeAlias = Mapping[str, tuple[str, type | tuple[type, ...]]]
"""Attribute to the key of an event, and to what the attribute holds."""

_SEEN: Final[Table] = {
    a.FEATURES: ("features", (list, tuple)),
    a.DECISION_POINT: ("decision_point", str),
    a.STOP_PROBABILITY: ("stop_probability", (int, float)),
    a.ADVICE: ("advice", (list, tuple)),
}
"""What is seen and said where a run could stop."""

CLOSING_KEYS: Final[Table] = {
    **_SEEN,
    a.CONTENT_REF_CLOSE: ("content_ref", str),
    a.ERROR_TYPE: ("error_type", str),
}

TOOL_CLOSING_KEYS: Final[Table] = {**CLOSING_KEYS, a.TRUSTED: ("trusted", bool)}

OPENING_KEYS: Final[Table] = {
    a.CAUSALITY: ("causality", str),
    a.ATTEMPT: ("attempt", int),
    a.CONTENT_REF: ("content_ref", str),
    a.TOOL_CALL_ID: ("tool_call_id", str),
    a.RUN_LINKS: ("links", (list, tuple)),
    a.CHANNEL: ("channel", (str, list, tuple)),
}

POINT_KEYS: Final[Table] = {
    **OPENING_KEYS,
    a.TO: ("to", str),
    a.FROM: ("from", str),
    a.ROLE: ("role", str),
    a.CHOSEN: ("chosen", (str, list, tuple)),
    a.CANDIDATES: ("candidates", (list, tuple)),
    a.PROBABILITY: ("behavior_prob", (int, float)),
    **_SEEN,
    a.DECISION_NAME: ("name", str),
    a.INTERRUPTS: ("interrupts", (list, tuple)),
    a.TRUSTED: ("trusted", bool),
    a.STOP_REASON: ("stop_reason", str),
    a.STOP_DETAIL: ("stop_detail", str),
    a.ERROR_TYPE: ("error_type", str),
}

OF_ACTIVATION: Final = frozenset({*OPENING_KEYS, *CLOSING_KEYS, a.STATUS})
OF_TOOL: Final = frozenset({*OPENING_KEYS, *TOOL_CLOSING_KEYS, a.STATUS})
"""What activations and tools mostly do not say; to look for it once saves three searches."""


def copy(found: Mapping[str, Any], keys: Json, table: Table, flags: set[str]) -> None:
    """Copy what an event says of itself, in an order that no sender decides."""
    present = table.keys() & found.keys()
    for attribute in sorted(present) if len(present) > 1 else present:
        name, kinds = table[attribute]
        value = found[attribute]
        if not _is_one(value, kinds):
            flags.add("garbled")
        elif isinstance(value, (list, tuple)):
            held = texts(value, flags)
            if name == "links":
                keys[name] = [_link(one) for one in held]
            elif name == "features":
                keys[name] = _features(held, flags)
            elif name == "advice":
                keys[name] = _advice(held, flags)
            else:
                keys[name] = list(held)
        else:
            keys[name] = value


def _is_one(value: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether a value is of a kind, and JSON can write it; True is no number."""
    if isinstance(value, bool):
        return kinds is bool
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, kinds) and is_finite


def _link(item: str) -> Json:
    run, _, event = item.partition(":")
    return {"run": run, "event": event}


_ADVISED: Final = frozenset({"q", "g", "v_stop", "sd"})


def _advice(held: Iterable[str], flags: set[str]) -> Json:
    """Read what was advised: numbers, whether it is provisional, and words."""
    said: Json = {}
    numbers = _features((item for item in held if item.partition("=")[0] in _ADVISED), flags)
    for item in held:
        name, _, value = item.partition("=")
        if name in _ADVISED:
            if name in numbers:
                said[name] = float(numbers[name])
        else:
            said[name] = value == "true" if name == "provisional" else value
    return said


def _features(held: Iterable[str], flags: set[str]) -> Json:
    features: Json = {}
    for item in held:
        name, _, number = item.partition("=")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            flags.add("garbled")
            continue
        features[name] = int(value) if value.is_integer() else value
    return features
