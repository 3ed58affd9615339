"""What tells that a value still is what it was: all that a copy would be made of, flat.

A witness holds texts, numbers and marks alone. These cannot change, so two values of one
witness have one copy, whichever objects hold it, and a value that was changed anywhere has
another witness: there is nothing that could be out of date. No object of the host's but
its texts is held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from sys import getsizeof
from typing import Any, Final, TypeAlias, cast

from orchtrace_otel.content import values

Witness: TypeAlias = tuple[Any, ...]

_MOST_OF_VALUE: Final = 64
_MOST_OF_PARTS: Final = 1_024
"""Texts, numbers and marks of a witness; what has more is copied each time."""
_DEEPEST: Final = 6
"""Levels of a value that has a witness."""
_WIDEST: Final = 2**63

# Marks say how what follows is read, so that no two values have one witness. None of them is
# equal to a text or a number; texts, None, True and False stand for themselves.
_INT, _FLOAT, _BYTES, _TEXT, _ENUM, _SHOWN, _CLASS, _OBJECT, _MAPPING, _END = (
    object() for _ in range(10)
)
_DICT, _LIST, _TUPLE = (object() for _ in range(3))
"""Apart, for what makes messages of a host's parts takes each for something else."""


class _Unclear(Exception):  # noqa: N818 - no error: such a value has no witness
    """A value that is too large, or that only reading all of it would tell."""


class _Look:
    """One look at a value.

    Args:
        most: How much a witness may hold.
        is_whole: Whether lists of mappings are looked into. Those of values are not: each
            of their mappings has a witness of its own, such as each message of a history.
    """

    __slots__ = ("_is_whole", "_most", "seen")

    def __init__(self, most: int, *, is_whole: bool) -> None:
        self._most = most
        self._is_whole = is_whole
        self.seen: list[Any] = []

    def at(self, value: object, depth: int) -> None:
        """Look at one value.

        Raises:
            _Unclear: If it can have no witness.
        """
        kind = type(value)
        if kind is str or kind is bool or value is None:
            self.seen.append(value)
            return
        if depth > _DEEPEST:
            raise _Unclear
        _looker(kind)(self, value, depth)

    def pairs(self, pairs: Collection[tuple[object, object]], depth: int) -> None:
        """Look at names and what they name."""
        if len(pairs) > self._most:
            raise _Unclear
        seen = self.seen
        # Classes are told by identity: those whose class has an `__eq__` may have no hash.
        for name, item in pairs:
            if type(name) is not str:
                raise _Unclear
            seen.append(name)
            kind = type(item)
            if kind is str or kind is bool or item is None:
                seen.append(item)
            elif (kind is dict or kind is list or kind is tuple) and not item:
                # What many fields of messages hold nothing in: that much is seen at a glance.
                seen += (_DICT if kind is dict else _LIST if kind is list else _TUPLE, _END)
            else:
                self.at(item, depth + 1)
        seen.append(_END)
        if len(seen) > self._most:
            raise _Unclear

    def items(self, items: Iterable[object], depth: int) -> None:
        """Look at the items of a list."""
        seen = self.seen
        is_list: bool = items.__class__ is list
        seen.append(_LIST if is_list else _TUPLE)
        for item in items:
            kind = type(item)
            if kind is str or kind is bool or item is None:
                seen.append(item)
            elif self._is_whole or _looker(kind) not in _NESTING:
                self.at(item, depth + 1)
            else:
                raise _Unclear
            if len(seen) > self._most:
                raise _Unclear
        seen.append(_END)


def _at_number(look: _Look, value: Any, _depth: int) -> None:
    if type(value) is int and -_WIDEST <= value < _WIDEST:
        look.seen += (_INT, value)
    elif type(value) is float:
        look.seen += (_FLOAT, float.__repr__(value))  # -0.0 equals 0.0
    else:
        raise _Unclear


def _at_bytes(look: _Look, value: Any, _depth: int) -> None:
    if type(value) is not bytes:
        raise _Unclear
    look.seen += (_BYTES, value)


def _at_items(look: _Look, value: Any, depth: int) -> None:
    kind = cast("object", type(value))
    if kind is not list and kind is not tuple:
        raise _Unclear
    look.items(value, depth)


def _at_unclear(_look: _Look, _value: Any, _depth: int) -> None:
    raise _Unclear


def _at_text(look: _Look, value: Any, _depth: int) -> None:
    look.seen += (_TEXT, str.__str__(value))


def _at_enum(look: _Look, value: Any, depth: int) -> None:
    look.seen.append(_ENUM)
    look.at(values.value_of(value), depth + 1)


def _at_shown(look: _Look, value: Any, _depth: int) -> None:
    look.seen += (_SHOWN, str(value))


def _at_mapping(look: _Look, value: Any, depth: int) -> None:
    kind = cast("object", type(value))
    look.seen.append(_DICT if kind is dict else _MAPPING)
    look.pairs(values.items_of(value), depth)


def _at_object(look: _Look, value: Any, depth: int) -> None:
    look.seen += (_OBJECT, type(value).__qualname__)
    look.pairs(values.fields_of(value), depth)


def _at_dataclass(look: _Look, value: Any, depth: int) -> None:
    look.seen += (_OBJECT, type(value).__qualname__)
    look.pairs(values.dataclass_fields_of(value), depth)


def _at_class(look: _Look, value: Any, _depth: int) -> None:
    look.seen += (_CLASS, type(value).__qualname__)


_Looker = Callable[[_Look, Any, int], None]

_LOOKERS: Final[Mapping[values.Reader | None, _Looker]] = {
    values.of_enum: _at_enum,
    values.of_number: _at_number,
    values.of_text: _at_text,
    values.of_mapping: _at_mapping,
    values.of_items: _at_items,
    values.of_named_items: _at_unclear,
    values.of_withheld: _at_unclear,
    values.of_bytes: _at_bytes,
    values.of_known: _at_shown,
    values.of_dataclass: _at_dataclass,
    values.of_object: _at_object,
    None: _at_class,
}
"""How to look at what a reader reads: each sees all that the reader makes its copy of."""

_NESTING: Final = frozenset((_at_items, _at_mapping, _at_dataclass, _at_object))


_MOST_KINDS: Final = 4_096
_lookers: Final[dict[int, tuple[type, _Looker]]] = {}


def _looker(kind: type[Any]) -> _Looker:
    """Return how to look at values of a class."""
    known = _lookers.get(id(kind))
    if known is not None:
        return known[1]
    found = _LOOKERS[values.reader_of(kind)]
    if len(_lookers) < _MOST_KINDS:
        _lookers[id(kind)] = kind, found
    return found


def of_value(value: Any) -> Witness | None:
    """Return the witness of a mapping or an object; None where it can have none.

    Example:
        >>> given = {"role": "user", "content": "who?"}
        >>> before = of_value(given)
        >>> of_value(dict(given)) == before
        True
        >>> given["content"] = "why?"
        >>> of_value(given) == before
        False
    """
    return _seen(_Look(_MOST_OF_VALUE, is_whole=False), value)


def of_parts(parts: tuple[Any, ...]) -> Witness | None:
    """Return the witness of the parts of a message; None where they can have none.

    Of a message that is texts alone, as most are, these themselves.
    """
    # A loop, for this is asked of every message of every prompt.
    for part in parts:
        # Not by `__class__`, which an object may say to be a text's.
        if part is not None and type(part) is not str:
            return _seen(_Look(_MOST_OF_PARTS, is_whole=True), parts)
    return parts


def _seen(look: _Look, value: Any) -> Witness | None:
    try:
        look.at(value, 0)
    except (_Unclear, RuntimeError):  # a mapping that another thread of the host's adds to
        return None
    return tuple(look.seen)


def size_of(witness: Witness) -> int:
    """Return how many bytes a witness takes up, texts that others hold too included.

    Bytes count twice: a copy writes them in base 64.
    """
    return sum(2 * getsizeof(one) if type(one) is bytes else getsizeof(one) for one in witness)
