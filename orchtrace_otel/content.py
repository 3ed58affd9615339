"""The gate for content: prompts, completions, arguments, results, texts of any kind.

Off by default: nothing that people or models wrote leaves the process through any
field. What is hashed without being captured is hashed with a key, so that a short
text cannot be guessed from its hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
    """Return a keyed hash of a run's input, where that is a text or small JSON.

    Without a key, or for any other input, None: the run's id then stands for the task.
    """
    if _key is None:
        return None
    given = [value for value in (*args, *kwargs.values()) if _is_small(value)]
    if not given:
        return None
    text = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    return None if len(text) > _MOST_BYTES else keyed_hash(text)


def keyed_hash(text: bytes) -> str:
    """Return 32 hexadecimal digits that only who has the key can relate to `text`."""
    import hashlib  # noqa: PLC0415 - slow to load, and rarely wanted
    import hmac  # noqa: PLC0415 - see above

    return hmac.new(_key or b"", text, hashlib.sha256).hexdigest()[:32]


def _is_small(value: object, depth: int = 4) -> bool:
    """Whether a value is a text or JSON that costs little to hash; looks before it reads."""
    if isinstance(value, str):
        return len(value) <= _MOST_BYTES
    if value is None or isinstance(value, (bool, int, float)):
        return True
    if depth == 0 or not isinstance(value, (list, tuple, dict)) or len(value) > _MOST_ITEMS:
        return False
    inner = value.values() if isinstance(value, dict) else value
    return all(_is_small(item, depth - 1) for item in inner)
