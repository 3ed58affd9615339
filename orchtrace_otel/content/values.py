"""Values of the host as plain JSON: within limits, redacted on the way, never raising.

Only what is plain is read: texts, numbers, lists, mappings, and the fields of dataclasses
and of objects that keep theirs in a dict. No method or property of the host runs, no
`repr`, no `model_dump`: of all else the class's name is written.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import enum
import math
import pathlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from orchtrace_otel.content.redaction import REDACTED, Redactor

CUT: Final = "cut"
TAKEN: Final = "redacted"
"""Flags: something was too long; something was taken out."""

_DEEPEST: Final = 24
_MARGIN: Final = 4_096
"""What is redacted beyond the cut, so that no half of a secret is kept."""
_EACH: Final = 2
"""Bytes that a value takes up at least."""
_BLOB: Final = 15
"""Bytes of the words around those that are encoded."""
_LONG: Final = 10**8
"""Numbers from here on may be an account's or a card's, and are redacted as texts are."""
_WIDEST: Final = 2**63


class Copy:
    """One copy of a value.

    Args:
        redactor: What takes secrets out.
        most: Bytes that it may take up.

    Attributes:
        flags: `CUT`, `TAKEN`, where either happened.
    """

    __slots__ = ("_left", "_redactor", "flags")

    def __init__(self, redactor: Redactor, most: int) -> None:
        self._redactor = redactor
        self._left = most
        self.flags: set[str] = set()

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return a value as plain JSON."""
        kind = _class_of(value)
        if kind is str:
            return self.text(value)
        self._left -= _EACH
        if value is None or kind is bool:
            return value
        read = _reader(kind)
        if read is None:
            return self.text(f"<{kind.__qualname__}>")
        if self._left <= 0 or depth > _DEEPEST:
            self.flags.add(CUT)
            return None
        return read(self, value, depth)

    def text(self, text: str) -> str:
        """Return a text, redacted and cut."""
        room = max(self._left, 0)
        read = text if len(text) <= room + _MARGIN else text[: room + _MARGIN]
        kept = self._redactor.text(read)
        if kept is not read:
            self.flags.add(TAKEN)
        if read is not text:
            # Half a secret at the end of what was read is no match; it must not move up.
            room = max(min(room, len(kept) - _MARGIN), 0)
        if len(kept) > room:
            self.flags.add(CUT)
            kept = kept[:room]
        if not kept.isascii():
            kept = self._encoded(kept)
        self._left -= len(kept)
        return kept

    def _encoded(self, text: str) -> str:
        """Return a text that UTF-8 can hold, within the bytes that are left."""
        data = text.encode("utf-8", "replace")
        if len(data) > self._left:
            self.flags.add(CUT)
            data = data[: max(self._left, 0)]
        self._left -= max(len(data) - len(text), 0)
        return data.decode("utf-8", "ignore")

    def number(self, value: int | float) -> Any:
        """Return a number that JSON can hold; as a text where it cannot, or must be redacted."""
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if -_LONG < value < _LONG:
            return value
        if not -_WIDEST <= value < _WIDEST:
            # Texts of numbers without end take time without end.
            return self.text(str(value) if value.bit_length() < _MARGIN else "<int>")
        text = str(value)
        kept = self.text(text)
        return value if kept == text else kept

    def items(self, value: Any, depth: int) -> list[Any]:
        """Return the items of a list or a set, as far as there is room."""
        kind: Any = next(one for one in _ITEMS if issubclass(type(value), one))
        held: list[Any] = []
        for item in kind.__iter__(value):
            if self._left <= 0:
                self.flags.add(CUT)
                break
            held.append(self.of(item, depth + 1))
        if len(held) == 2 and type(held[0]) is str and self._redactor.is_secret(held[0]):  # noqa: PLR2004 - a pair, such as a header
            held[1] = self._taken()
        return held

    def pairs(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        """Return the items of a mapping, as far as there is room."""
        return self.fields(_items_of(value), depth)

    def fields(self, pairs: Any, depth: int) -> dict[str, Any]:
        """Return names and values, those of secret names taken out."""
        held: dict[str, Any] = {}
        for key, item in pairs:
            if self._left <= 0:
                self.flags.add(CUT)
                break
            name = self.text(key) if type(key) is str else self.text(str(self.of(key, _DEEPEST)))
            if type(key) is str and self._redactor.is_secret(key) and item is not None:
                held[name] = self._taken()
            else:
                held[name] = self.of(item, depth + 1)
        return held

    def _taken(self) -> str:
        self.flags.add(TAKEN)
        return REDACTED

    def encoded(self, value: bytes) -> Any:
        """Return bytes as the conventions write them, in base 64; nothing of any with a secret."""
        data = bytes(value[: max(self._left * 3 // 4, 0)])
        if len(data) < len(value):
            self.flags.add(CUT)
        seen = value[: len(data) + _MARGIN].decode("latin-1")
        if self._redactor.text(seen) is not seen:
            return self._taken()
        text = base64.b64encode(data).decode()
        self._left -= len(text) + _BLOB
        return {"type": "blob", "content": text}


_dict: Final[Any] = dict


def _class_of(value: object) -> Any:
    return type(value)


def _items_of(value: Any) -> Any:
    """Return the items of a dict, whatever its class makes of them."""
    items: Any = _dict.items
    return items(value)


_ITEMS: Final[tuple[Any, ...]] = (list, tuple, set, frozenset)


def _of_text(copy: Copy, value: Any, _depth: int) -> Any:
    return copy.text(str.__str__(value))


def _of_enum(copy: Copy, value: Any, depth: int) -> Any:
    return copy.of(object.__getattribute__(value, "_value_"), depth + 1)


def _of_dataclass(copy: Copy, value: Any, depth: int) -> Any:
    names = (one.name for one in dataclasses.fields(value))
    return copy.fields(((name, _own(value, name)) for name in names), depth)


def _own(value: Any, name: str) -> Any:
    """Return what an object holds itself, without asking its own code."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def _of_object(copy: Copy, value: Any, depth: int) -> Any:
    held: dict[str, Any] = object.__getattribute__(value, "__dict__")
    shown = ((name, item) for name, item in list(held.items()) if not name.startswith("_"))
    return copy.fields(shown, depth)


def _of_known(copy: Copy, value: Any, _depth: int) -> Any:
    return copy.text(str(value))


_Reader = Callable[[Copy, Any, int], Any]

_READERS: Final[tuple[tuple[tuple[type, ...], _Reader], ...]] = (
    ((enum.Enum,), _of_enum),
    ((int, float), lambda copy, value, _: copy.number(value)),
    ((str,), _of_text),
    ((dict,), lambda copy, value, depth: copy.pairs(value, depth)),
    (_ITEMS, lambda copy, value, depth: copy.items(value, depth)),
    ((bytes, bytearray), lambda copy, value, _: copy.encoded(value)),
)
_KNOWN: Final = (
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    uuid.UUID,
    pathlib.PurePath,
)
_MOST_KINDS: Final = 4_096
_readers: Final[dict[type, _Reader | None]] = {}


def _reader(kind: type) -> _Reader | None:
    """Return what reads values of a class; None where only the class's name is told."""
    if kind in _readers:
        return _readers[kind]
    found = _find_reader(kind)
    if len(_readers) < _MOST_KINDS:
        _readers[kind] = found
    return found


def _find_reader(kind: Any) -> _Reader | None:
    for kinds, reader in _READERS:
        if issubclass(kind, kinds):
            return reader
    if kind.__module__.partition(".")[0] in _STANDARD and issubclass(kind, _KNOWN):
        return _of_known
    if dataclasses.is_dataclass(kind):
        return _of_dataclass
    has_fields: bool = kind.__dictoffset__ != 0 and "__getattribute__" not in _own_names(kind)
    return _of_object if has_fields and not issubclass(kind, BaseException) else None


def _own_names(kind: type) -> set[str]:
    """Return the names that a class and its bases define, `object` aside."""
    return {name for one in kind.__mro__[:-1] for name in vars(one)}


_STANDARD: Final = frozenset({"datetime", "decimal", "uuid", "pathlib"})


def dumped(document: Any) -> bytes:
    """Return a copy that `Copy` made as JSON."""
    return orjson.dumps(document)
