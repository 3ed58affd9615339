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
from itertools import islice
from sys import getsizeof
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import orjson

from orchtrace_otel.content.redaction import REDACTED, Redactor

if TYPE_CHECKING:
    from orchtrace_otel.content.memory import Copies

CUT: Final = "cut"
TAKEN: Final = "redacted"
"""Flags: something was too long; something was taken out."""

_FLAGS: Final = (frozenset[str](), frozenset((TAKEN,)))
"""Those of what was copied whole."""
_DEEPEST: Final = 24
_SHALLOW: Final = 16
"""Levels below which nothing is reused: what has a witness is not so deep that it ends there."""
_MARGIN: Final = 4_096
"""What is redacted beyond the cut, so that no half of a secret is kept."""
_OF_NAMES: Final = 3
"""Levels of a name that is no text, such as a tuple of two."""
_EACH: Final = 2
"""Bytes that a value takes up at least."""
_BLOB: Final = 15
"""Bytes of the words around those that are encoded."""
_LONG: Final = 10**8
"""Numbers from here on may be an account's or a card's, and are redacted as texts are."""
_WIDEST: Final = 2**63


class Copied(NamedTuple):
    """A part of a value as it was copied, whole.

    Attributes:
        json: The copy.
        flags: Whether something was taken out.
        cost: Bytes that it took of those that a copy may take up.
        room: Where more than that are left, nothing of it is cut.
    """

    json: orjson.Fragment
    flags: frozenset[str]
    cost: int
    room: int


class Copy:
    """One copy of a value.

    Args:
        redactor: What takes secrets out.
        most: Bytes that it may take up.
        copies: What is known from earlier copies; mappings and objects may then be JSON
            already, which `dumped` takes as well.

    Attributes:
        flags: `CUT`, `TAKEN`, where either happened.
    """

    __slots__ = ("_copies", "_is_inside", "_left", "_redactor", "flags")

    def __init__(self, redactor: Redactor, most: int, copies: Copies | None = None) -> None:
        self._redactor = redactor
        self._left = most
        self._copies = copies
        self._is_inside = copies is None
        self.flags: set[str] = set()

    def of(self, value: Any, depth: int = 0) -> Any:
        """Return a value as plain JSON."""
        kind = _class_of(value)
        if kind is str:
            return self.text(value)
        self._left -= _EACH
        if value is None or kind is bool:
            return value
        read = reader_of(kind)
        if read is None:
            return self.text(f"<{kind.__qualname__}>")
        if self._left <= 0 or depth > _DEEPEST:
            self.flags.add(CUT)
            return None
        if not self._is_inside and depth <= _SHALLOW and read in _NAMED:
            return self._known(cast("Copies", self._copies), read, value, depth)
        return read(self, value, depth)

    def whole(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a mapping as plain JSON, itself a dict whatever is known of it."""
        self._left -= _EACH
        return self.fields(items_of(value), 0)

    def _known(self, copies: Copies, read: Reader, value: Any, depth: int) -> Any:
        """Return a value as it was copied before, where it is what it was and as much room is."""
        witness = copies.look(value)
        if witness is None:
            return read(self, value, depth)
        known = copies.values.get(witness)
        if known is None or known.room >= self._left:
            return self._anew(copies, witness, read, value, depth)
        self._left -= known.cost
        self.flags |= known.flags
        return known.json

    def _anew(
        self, copies: Copies, witness: tuple[Any, ...], read: Reader, value: Any, depth: int
    ) -> Any:
        before, left = self.flags, self._left
        self.flags = set()
        # What is inside is known with it: a look at each level would cost levels times levels.
        self._is_inside = True
        held = read(self, value, depth)
        self._is_inside = False
        flags, self.flags = self.flags, before
        before |= flags
        # Another thread of the host's may have changed it between the look and the copy.
        if CUT in flags or copies.look(value) != witness:
            return held
        return copies.remember(witness, dumped(held), _FLAGS[TAKEN in flags], left - self._left)

    def text(self, text: str) -> str:
        """Return a text, redacted and cut."""
        room = max(self._left, 0)
        read = text if len(text) <= room + _MARGIN else text[: room + _MARGIN]
        kept = self._redacted(read)
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

    def _redacted(self, text: str) -> str:
        """Return what may be kept of a text; the very text where that is all of it."""
        if self._copies is None:
            return self._redactor.text(text)
        texts = self._copies.texts
        kept = texts.get(text)
        if kept is None:
            kept = self._redactor.text(text)
            texts.put(text, kept, getsizeof(text) + (0 if kept is text else getsizeof(kept)))
        return text if kept == text else kept

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
        # Of a class of its own, such as NumPy's, it is what it is as a number.
        if isinstance(value, float):
            value = float.__float__(value)
            return value if math.isfinite(value) else str(value)
        if type(value) is not int:
            value = int.__int__(value)
        if -_LONG < value < _LONG:
            return value
        if not -_WIDEST <= value < _WIDEST:
            return self.text(str(value) if is_writable(value) else "<int>")
        text = str(value)
        kept = self.text(text)
        return value if kept == text else kept

    def items(self, value: Any, depth: int) -> list[Any]:
        """Return the items of a list or a set, as far as there is room."""
        kind: Any = next(one for one in _ITEMS if issubclass(type(value), one))
        held: list[Any] = []
        first: object = None
        for item in kind.__iter__(value):
            if self._left <= 0:
                self.flags.add(CUT)
                break
            first = first if held else item
            held.append(self.of(item, depth + 1))
        if len(held) == 2 and self._is_secret(first):  # noqa: PLR2004 - a pair, such as a header
            held[1] = self.taken()
        return held

    def fields(self, pairs: Any, depth: int) -> dict[str, Any]:
        """Return names and values, those of secret names taken out."""
        held: dict[str, Any] = {}
        # All at once: another thread of the host's may add names meanwhile. One name that is
        # empty, with an empty text, takes up nothing.
        now: list[tuple[Any, Any]] = list(islice(pairs, max(self._left, 0) + 2))
        for key, item in now:
            if self._left <= 0:
                self.flags.add(CUT)
                break
            told = text_of(key)
            name = self.text(str(self.of(key, _DEEPEST - _OF_NAMES)) if told is None else told)
            if self._left <= 0 and CUT in self.flags:
                break  # half a name may be another one's
            if item is not None and self._is_secret(key):
                held[name] = self.taken()
            else:
                held[name] = self.of(item, depth + 1)
        return held

    def _is_secret(self, name: object) -> bool:
        """Whether what is named so is secret."""
        told = text_of(name)
        return told is not None and self._redactor.is_secret(told)

    def taken(self) -> str:
        """Return what stands in the place of what may not be kept."""
        self.flags.add(TAKEN)
        return REDACTED

    def encoded(self, value: bytes) -> Any:
        """Return bytes as the conventions write them, in base 64; nothing of any with a secret."""
        kind: Any = bytes if issubclass(_class_of(value), bytes) else bytearray
        room = max(self._left * 3 // 4, 0)
        read = bytes(kind.__getitem__(value, slice(room + _MARGIN)))
        data = read[:room]
        if len(data) < kind.__len__(value):
            self.flags.add(CUT)
        seen = read[: len(data) + _MARGIN].decode("latin-1")
        if self._redactor.text(seen) is not seen:
            return self.taken()
        text = base64.b64encode(data).decode()
        self._left -= len(text) + _BLOB
        return {"type": "blob", "content": text}


_dict: Final[Any] = dict
_tuple: Final[Any] = tuple


def _class_of(value: object) -> Any:
    return type(value)


_ITEMS: Final[tuple[Any, ...]] = (list, tuple, set, frozenset)


# -- what is read of a value of the host's, without asking its own code -----------------------


class Withheld:
    """Stands for a value of which it is known that it is secret."""

    __slots__ = ()


WITHHELD: Final = Withheld()


def text_of(name: object) -> str | None:
    """Return the text that a name is, of whatever class; None where it is something else."""
    kind = _class_of(name)
    if kind is str:
        return cast("str", name)
    if issubclass(kind, enum.Enum):
        return text_of(value_of(name))
    if issubclass(kind, str):
        return str.__str__(cast("str", name))
    return bytes.decode(cast("bytes", name), "latin-1") if issubclass(kind, bytes) else None


def items_of(value: Any) -> Any:
    """Return the items of a dict, whatever its class makes of them."""
    items: Any = _dict.items
    return items(value)


def value_of(value: Any) -> Any:
    """Return what a member of an enum stands for."""
    return object.__getattribute__(value, "_value_")


def dataclass_fields_of(value: Any) -> list[tuple[str, Any]]:
    """Return the fields of a dataclass, and what they hold."""
    kind = _class_of(value)
    held: dict[str, Any] = object.__getattribute__(value, "__dict__") if kind.__dictoffset__ else {}
    return [
        (name, held[name] if name in held else _of_class(kind, value, name))
        for name in (one.name for one in dataclasses.fields(kind))
    ]


def named_items_of(value: Any) -> Any:
    """Return the items of a named tuple with their names."""
    items: Any = _tuple.__iter__
    return zip(_names_of(_class_of(value)) or (), items(value), strict=False)


def _names_of(kind: Any) -> tuple[str, ...] | None:
    """Return the names that a class of tuples has for its items."""
    above: tuple[type[Any], ...] = kind.__mro__
    found: Any = next((vars(one)["_fields"] for one in above if "_fields" in vars(one)), None)
    if _class_of(found) is not tuple:
        return None
    names: tuple[object, ...] = found
    return found if all(type(name) is str for name in names) else None


def _of_class(kind: Any, value: object, name: str) -> Any:
    """Return what an object holds in a slot, or has of its class; nothing that code makes."""
    above: tuple[type[Any], ...] = kind.__mro__
    for one in above:
        if name in vars(one):
            found: Any = vars(one)[name]
            of_found = _class_of(found)
            if of_found is not MemberDescriptorType:
                return None if "__get__" in _own_names(of_found) else found
            try:
                return found.__get__(value)
            except AttributeError:  # the slot is empty
                return None
    return None


def fields_of(value: Any) -> list[tuple[str, Any]]:
    """Return the fields of an object that keeps them in a dict, those with `_` in front aside."""
    held: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return [pair for pair in list(held.items()) if type(pair[0]) is str and pair[0][:1] != "_"]


# -- what reads values of a class; witness.py looks at what each of these reads ---------------

Reader: TypeAlias = Callable[[Copy, Any, int], Any]


def of_text(copy: Copy, value: Any, _depth: int) -> Any:
    """Copy a text of a class of its own."""
    return copy.text(str.__str__(value))


def of_enum(copy: Copy, value: Any, depth: int) -> Any:
    """Copy what a member of an enum stands for."""
    return copy.of(value_of(value), depth + 1)


def of_number(copy: Copy, value: Any, _depth: int) -> Any:
    """Copy a number."""
    return copy.number(value)


def of_mapping(copy: Copy, value: Any, depth: int) -> Any:
    """Copy a dict."""
    return copy.fields(items_of(value), depth)


def of_named_items(copy: Copy, value: Any, depth: int) -> Any:
    """Copy a named tuple."""
    return copy.fields(named_items_of(value), depth)


def of_items(copy: Copy, value: Any, depth: int) -> Any:
    """Copy a list or a set."""
    return copy.items(value, depth)


def of_bytes(copy: Copy, value: Any, _depth: int) -> Any:
    """Copy bytes."""
    return copy.encoded(value)


def of_dataclass(copy: Copy, value: Any, depth: int) -> Any:
    """Copy the fields of a dataclass."""
    return copy.fields(dataclass_fields_of(value), depth)


def of_object(copy: Copy, value: Any, depth: int) -> Any:
    """Copy the fields of an object."""
    return copy.fields(fields_of(value), depth)


def of_withheld(copy: Copy, _value: Any, _depth: int) -> Any:
    """Copy nothing of a value that is secret."""
    return copy.taken()


def of_known(copy: Copy, value: Any, _depth: int) -> Any:
    """Copy what a value of the standard library is as a text."""
    return copy.text(str(value))


_NAMED: Final[frozenset[Reader]] = frozenset((of_mapping, of_dataclass, of_object))
"""What reads names and values: such as messages, whose copies are used again."""

_READERS: Final[tuple[tuple[tuple[type, ...], Reader], ...]] = (
    ((enum.Enum,), of_enum),
    ((Withheld,), of_withheld),
    ((int, float), of_number),
    ((str,), of_text),
    ((dict,), of_mapping),
    (_ITEMS, of_items),
    ((bytes, bytearray), of_bytes),
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
_readers: Final[dict[int, tuple[type, Reader | None]]] = {}


def reader_of(kind: type) -> Reader | None:
    """Return what reads values of a class; None where only the class's name is told."""
    # By identity: classes whose class has an `__eq__` may have no hash.
    known = _readers.get(id(kind))
    if known is not None:
        return known[1]
    found = _find_reader(kind)
    if len(_readers) < _MOST_KINDS:
        _readers[id(kind)] = kind, found
    return found


def _find_reader(kind: Any) -> Reader | None:
    if issubclass(kind, _tuple) and _names_of(kind) is not None:
        return of_named_items
    for kinds, reader in _READERS:
        if issubclass(kind, kinds):
            return reader
    home: object = kind.__module__
    if type(home) is str and home.partition(".")[0] in _STANDARD and issubclass(kind, _KNOWN):
        return of_known
    names = _own_names(kind)
    if "__dataclass_fields__" in names:
        return of_dataclass
    has_fields: bool = kind.__dictoffset__ != 0 and "__getattribute__" not in names
    return of_object if has_fields and not issubclass(kind, BaseException) else None


def _own_names(kind: type) -> set[str]:
    """Return the names that a class and its bases define, `object` aside."""
    return {name for one in kind.__mro__[:-1] for name in vars(one)}


_STANDARD: Final = frozenset({"datetime", "decimal", "uuid", "pathlib"})


def is_writable(number: int) -> bool:
    """Whether a number has an end: texts of those without take time without end."""
    return number.bit_length() < _MARGIN


def dumped(document: Any) -> bytes:
    """Return a copy that `Copy` made as JSON."""
    # What orjson gives has room for more, kilobytes of it, for as long as it is held.
    return bytes(memoryview(orjson.dumps(document)))
