"""What the public face asks of its arguments, at the line where they are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from orchtrace_otel.errors import ConfigError


def check_text(kind: str, what: str, value: object) -> None:
    """Refuse what is given and no text with something in it."""
    if value is not None and not (isinstance(value, str) and value):
        msg = f"@{kind} needs {what} to be a text with something in it, got {value!r}"
        raise ConfigError(msg)


def check_tags(tags: Any) -> None:
    """Refuse tags that are no mapping of texts to texts."""
    if tags is None:
        return
    if not isinstance(tags, Mapping):
        msg = f"@team needs tags to be a mapping of texts to texts, got {tags!r}"
        raise ConfigError(msg)
    for key, value in cast("Mapping[object, object]", tags).items():
        check_text("team", "a key of tags", key)
        check_text("team", f"tags[{key!r}]", value)


def check_judge(must: str, function: object) -> None:
    """Refuse what cannot be asked for a number with one argument.

    Args:
        must: What must hold, such as `reward 'x' must be callable with a trace`.
        function: What was given.

    Raises:
        ConfigError: If a call with one argument is sure to fail, or gives a coroutine.
    """
    odd = _odd(function) if callable(function) else ""
    if odd is not None:
        msg = f"{must}, got {function!r}{odd}"
        raise ConfigError(msg)


def _odd(function: Callable[..., object]) -> str | None:
    """Say why a callable gives no number for one argument; None where it may."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return ", whose answer would have to be awaited"
    try:
        taken = inspect.signature(function)
    except (TypeError, ValueError):  # some written in C have none
        return None
    try:
        taken.bind(None)
    except TypeError:
        return f", which takes {taken}"
    return None
