"""Decompressing a body piece by piece, so that a small one cannot become a huge one."""

from __future__ import annotations

import zlib
from typing import Final, Literal, TypeAlias

from orchtrace_otel.collect.admission import RefusedError

Encoding: TypeAlias = Literal["identity", "gzip", "deflate"]

GZIP_MAGIC: Final = b"\x1f\x8b"
"""How gzip begins; no protobuf message does, for 0x1f names a field of a kind that is none."""

_WINDOW: Final[dict[Encoding, int]] = {
    "gzip": 16 + zlib.MAX_WBITS,
    "deflate": zlib.MAX_WBITS,
}
_STEP: Final = 2**20
_FIRST: Final = 2**12
"""Bytes that a member begins with: what lies behind its end is copied, for each of thousands."""


def inflate(data: bytes, encoding: Encoding, most: int) -> bytes:
    """Return what a compressed body holds.

    Args:
        data: The body, of one or several members.
        encoding: How it is compressed.
        most: Bytes that it may become.

    Raises:
        RefusedError: If it becomes more, or is not whole.

    Example:
        >>> import gzip
        >>> inflate(gzip.compress(b"spans"), "gzip", 10)
        b'spans'
    """
    pieces: list[bytes] = []
    size = place = 0
    while place < len(data):
        member = zlib.decompressobj(_WINDOW[encoding])
        window = _FIRST
        while not member.eof:
            rest = member.unconsumed_tail
            if not rest:
                rest = data[place : place + window]
                place += len(rest)
                window = min(2 * window, _STEP)
            try:
                piece = member.decompress(rest, min(_STEP, most - size + 1))
            except zlib.error:
                msg = f"a body of encoding {encoding} must be {encoding}"
                raise RefusedError(msg, "invalid") from None
            size += len(piece)
            if size > most:
                msg = f"a body must not become more than {most} bytes when it is decompressed"
                raise RefusedError(msg, "too_large")
            if not piece and not rest:
                msg = f"a body of encoding {encoding} must be whole, came its beginning"
                raise RefusedError(msg, "invalid")
            pieces.append(piece)
        place -= len(member.unused_data)
    return b"".join(pieces)
