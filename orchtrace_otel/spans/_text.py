"""Texts of the host's as every backend can write them.

Models break off in the middle of an emoji, and such a half of a surrogate pair gets into names of
tools, choices and ids. UTF-8 has no way to write it: OTLP exporters lose the whole batch with
it, the spans of other runs among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import orjson

from orchtrace_otel.model import is_text
from orchtrace_otel.spans._tracing import Attributes, Value


def is_writable(attributes: Attributes) -> bool:
    """Whether UTF-8 surely holds all texts of `attributes`, which every span is asked.

    What writes JSON looks at all of them in less time than a loop at the first few. What it
    cannot write for another reason is not sure.
    """
    try:
        orjson.dumps(attributes)
    except TypeError:
        return False
    return True


def writable(text: str) -> str:
    r"""Return `text` with a replacement character for each half of a pair that stands alone.

    Example:
        >>> writable("caf\ud83d"), writable("\ud83d\ude00"), writable("plain")
        ('caf�', '😀', 'plain')
    """
    if is_text(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def all_writable(attributes: Attributes) -> dict[str, Value]:
    """Return attributes of which UTF-8 holds every text."""
    return {key: _repaired(value) for key, value in attributes.items()}


def _repaired(value: Value) -> Value:
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, Sequence):
        items = [writable(one) if isinstance(one, str) else one for one in value]
        return cast("Value", items)
    return value
