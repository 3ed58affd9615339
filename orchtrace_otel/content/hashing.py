"""Hashes of content that is not captured: keyed, so that a short text cannot be guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from orchtrace_otel._guard import guarded

_MOST_BYTES: Final = 4_096
_MOST_ITEMS: Final = 64

_key: bytes | None = None


def use_key(key: str | None) -> None:
    """Hash with `key` from now on; without one nothing is hashed."""
    global _key  # noqa: PLW0603 - one key a process
    _key = key.encode() if key else None


@guarded
def task_id(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Return a keyed hash of a run's input, where all of that is texts or small JSON.

    Without a key, or where any part of the input is something else, None: the run's id
    then stands for the task. Two inputs that differ must never be one task.
    """
    if _key is None:
        return None
    given = [*args, dict(kwargs)] if kwargs else [*args]
    if not given or not all(_is_small(value) for value in given):
        return None
    try:
        text = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # half a surrogate pair, or a number that JSON has no room for
        return None
    return None if len(text) > _MOST_BYTES else keyed_hash(text)


def keyed_hash(text: bytes) -> str:
    """Return 32 hexadecimal digits that only who has the key can relate to `text`."""
    import hashlib  # noqa: PLC0415 - slow to load, and rarely wanted
    import hmac  # noqa: PLC0415 - see above

    return hmac.new(_key or b"", text, hashlib.sha256).hexdigest()[:32]


_PLAIN: Final = frozenset((type(None), bool, int, float))


def _is_small(value: Any, depth: int = 4) -> bool:
    """Whether a value is a text or JSON that costs little to hash.

    Asks for the exact type: of anything else, be it a subclass or a lazy stand-in, not
    even the class is looked at, for that could run the host's code.
    """
    kind = cast("type[object]", type(value))
    if kind is str:
        return len(value) <= _MOST_BYTES
    if kind in _PLAIN:
        return True
    if depth == 0 or kind not in _NESTED or len(value) > _MOST_ITEMS:
        return False
    if kind is dict:
        return all(
            type(key) is str and _is_small(key) and _is_small(held, depth - 1)
            for key, held in value.items()
        )
    return all(_is_small(item, depth - 1) for item in value)


_NESTED: Final = frozenset((list, tuple, dict))
