"""Decompressing a body piece by piece, so that a small one cannot become a huge one."""

from __future__ import annotations

import zlib
from typing import Final

from orchtrace_otel.collect.admission import RefusedError

GZIP_MAGIC: Final = b"\x1f\x8b"
"""How gzip begins; no protobuf message does, for 0x1f names a field of a kind that is none."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_STEP: Final = 2**20


def inflate(data: bytes, most: int) -> bytes:
    """Return what a gzip body holds.

    Args:
        data: The body, of one or several members.
        most: Bytes that it may become.

    Raises:
        RefusedError: If it becomes more, or is no whole gzip.

    Example:
        >>> import gzip
        >>> inflate(gzip.compress(b"spans"), 10)
        b'spans'
    """
    pieces: list[bytes] = []
    size = 0
    rest = data
    while rest:
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            try:
                piece = member.decompress(rest, min(_STEP, most - size + 1))
            except zlib.error:
                msg = "a body of encoding gzip must be gzip"
                raise RefusedError(msg, "invalid") from None
            rest = member.unconsumed_tail
            size += len(piece)
            if size > most:
                msg = f"a body must not become more than {most} bytes when it is decompressed"
                raise RefusedError(msg, "too_large")
            if not piece and not rest and not member.eof:
                msg = "a body of encoding gzip must be whole, came its beginning"
                raise RefusedError(msg, "invalid")
            pieces.append(piece)
        rest = member.unused_data
    return b"".join(pieces)
