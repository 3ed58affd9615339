"""A request taken apart before it is decoded, down to its spans or log records.

Two bytes may be an empty span, which is a hundred and more once it is decoded: of a body of
the largest size that would be gigabytes. So spans are found first, counted, and decoded one
at a time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from orchtrace_otel.collect.admission import RefusedError

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_LONGEST: Final = 70
"""Bits that the longest number has: ten bytes, of which each holds seven."""

_MORE: Final = 0x80
"""Set in a byte behind which its number goes on."""


class Layer(NamedTuple):
    """A message, taken apart.

    Attributes:
        inner: Where the messages in it begin and end.
        around: All else that it holds, encoded.
    """

    inner: list[tuple[int, int]]
    around: bytes


class Undecoded:
    """A request in protobuf, as it came.

    Args:
        body: The request.
        name: What it must be, for what is said of it where it is not.
        most: Fields that may be looked at.

    Example:
        >>> request = Undecoded(bytes.fromhex("0a00 0a021200"), "request", 9)
        >>> request.split(0, 6, 1)
        Layer(inner=[(2, 2), (4, 6)], around=b'')
    """

    def __init__(self, body: bytes, name: str, most: int) -> None:
        self.body = body
        self._name = name
        self._most = most
        self._left = most

    def split(self, at: int, end: int, number: int) -> Layer:
        """Take a message apart.

        Args:
            at: Where it begins.
            end: Where it ends.
            number: Of the field that holds messages.

        Raises:
            RefusedError: If it is none, or there are more fields than may be.
        """
        body = self.body
        wanted = number << 3 | _BYTES
        inner: list[tuple[int, int]] = []
        around: list[bytes] = []
        while at < end:
            begin = at
            tag = body[at]
            at += 1
            if tag >= _MORE:
                tag, at = self._number(begin, end)
            if tag & 7 == _BYTES:
                size, at = self._number(at, end)
                stop = at + size
            else:
                stop = self._behind(tag & 7, at, end)
            if stop > end:
                raise self._refusal()
            if tag == wanted:
                inner.append((at, stop))
            else:
                around.append(body[begin:stop])
            at = stop
            if len(inner) + len(around) > self._left:
                raise too_many(self._most)
        self._left -= len(inner) + len(around)
        return Layer(inner, b"".join(around))

    def _behind(self, kind: int, at: int, end: int) -> int:
        """Return where a value ends that is no message."""
        if kind == _VARINT:
            return self._number(at, end)[1]
        if kind not in _FIXED:
            raise self._refusal()
        return at + _FIXED[kind]

    def _number(self, at: int, end: int) -> tuple[int, int]:
        """Read a number of seven bits a byte; return it and where it ends."""
        body = self.body
        found = shift = 0
        while at < end and shift < _LONGEST:
            byte = body[at]
            at += 1
            if byte < _MORE:
                return found | byte << shift, at
            found |= (byte - _MORE) << shift
            shift += 7
        raise self._refusal()

    def _refusal(self) -> RefusedError:
        msg = f"a body must be an {self._name}, came {len(self.body)} bytes that are none"
        return RefusedError(msg, "invalid")


def too_many(most: int) -> RefusedError:
    """Make what refuses a request of more than it may hold."""
    msg = f"a body must hold at most {most} spans or log records; send smaller batches"
    return RefusedError(msg, "too_large")
