"""Which attributes a span of ours may carry, which it must, and of what exact types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from orchtrace_otel import attributes as a

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXTS: Final = "texts"

_NOT_TEXT: Final[Mapping[str, object]] = {
    a.INPUT_TOKENS: int,
    a.OUTPUT_TOKENS: int,
    a.ATTEMPT: int,
    a.WEIGHT: float,
    a.PROBABILITY: float,
    a.STOP_PROBABILITY: float,
    a.CACHED: bool,
    a.THOUGHT: bool,
    a.LOGPROBS: bool,
    a.TRUSTED: bool,
    a.FINISH_REASONS: _TEXTS,
    a.EDGES: _TEXTS,
    a.EDGES_CLOSE: _TEXTS,
    a.TURNS: _TEXTS,
    a.CANDIDATES: _TEXTS,
    a.FEATURES: _TEXTS,
    a.ADVICE: _TEXTS,
    a.RUN_LINKS: _TEXTS,
    a.FLAGS: _TEXTS,
    a.INTERRUPTS: _TEXTS,
}

_EITHER: Final = frozenset({a.CHOSEN, a.CHANNEL})
"""One text, or several."""

_NUMBERS: Final = (a.REWARD_PREFIX, a.METRIC_PREFIX)

_KEYS: Final = frozenset(
    value for name, value in vars(a).items() if name.isupper() and isinstance(value, str)
)

_ON_ALL: Final = (a.AGENT_NAME,)
_ON_ACTIVATIONS: Final = (a.OPERATION, a.OPENS, a.INSTANCE)
_ON_POINTS: Final = {
    a.TURN: (a.OPERATION,),
    a.TOOL_CALL: (*_ON_ALL, a.OPERATION, a.TOOL_NAME),
    "stop": (*_ON_ALL, a.STOP_REASON),
}
_ON_ROOTS: Final = (a.RUN_ID, a.WORKFLOW_NAME, a.SYSTEM)


def unknown_values(found: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with the attributes of a span of ours."""
    faults = [f"it lacks {key}" for key in _needed(found) if key not in found]
    for key, value in found.items():
        fault = _fault(key, value)
        if fault is not None:
            faults.append(fault)
    return faults


def _needed(found: Mapping[str, Any]) -> tuple[str, ...]:
    if a.OPENS in found or a.INSTANCE in found:
        roots = _ON_ROOTS if found.get(a.OPERATION) == a.INVOKE_WORKFLOW else ()
        return (*_ON_ALL, *_ON_ACTIVATIONS, *roots)
    return _ON_POINTS.get(found.get(a.VERB, ""), _ON_ALL)


def _fault(key: str, value: Any) -> str | None:
    if key.startswith(_NUMBERS):
        return None if type(value) in (int, float) else f"{key} is no number but {value!r}"
    if key.startswith(a.TAG_PREFIX):
        return None
    if key not in _KEYS:
        return (
            f"{key} is no key of attributes.py"
            if key.startswith(("orchtrace.", "gen_ai."))
            else None
        )
    wanted = _NOT_TEXT.get(key, str)
    if key in _EITHER:
        wanted = str if isinstance(value, str) else _TEXTS
    if wanted is _TEXTS:
        items = cast("tuple[object, ...]", value) if type(value) is tuple else (None,)
        is_right = all(type(item) is str for item in items)
        return None if is_right else f"{key} is no sequence of texts but {value!r}"
    return None if type(value) is wanted else f"{key} is of type {type(value).__name__}: {value!r}"
