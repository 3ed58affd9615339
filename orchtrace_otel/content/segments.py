r"""The lines of a segment: documents, and which run uses which of them.

A segment is a file of lines, each `<crc32 of the rest> <rest>\n`. A document is
`<kind> <ref> <JSON>`, a use is `use <run id> <ref>,<ref>...`; the uses of a batch come
before its documents, so that what was put down is never without its user. A line that
is torn, or whose sum is wrong, is no line: it is what a killed process or a full disk
left behind.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

KINDS: Final = ("message", "prompt", "tools", "turn", "value")
"""Kinds of documents; docs/content.md says what each holds."""

USE: Final = "use"
_SUM: Final = 9
"""Length of a line's sum, eight hexadecimal digits and a space."""


class Line(NamedTuple):
    """A sound line of a segment.

    Attributes:
        kind: One of `KINDS`, or `USE`.
        name: The document's ref, or the run's id.
        offset: Where in the segment its body begins.
        length: Bytes of its body: the document, or the refs.
        end: Where in the segment the next line begins.
    """

    kind: str
    name: str
    offset: int
    length: int
    end: int


def document_line(kind: str, ref: str, document: bytes) -> bytes:
    r"""Return the line of a document.

    Example:
        >>> document_line("value", "ab", b"{}")
        b'2cbf470b value ab {}\n'
    """
    return _line(b"%b %b %b" % (kind.encode(), ref.encode(), document))


def use_line(run_id: str, refs: Iterable[str]) -> bytes:
    """Return the line that says which documents a run uses."""
    return _line(b"use %b %b" % (run_id.encode(), ",".join(refs).encode()))


def _line(rest: bytes) -> bytes:
    return b"%08x %b\n" % (zlib.crc32(rest), rest)


def read(segment: bytes) -> Iterator[Line]:
    """Return the sound lines of a segment, in order."""
    start = 0
    while True:
        end = segment.find(b"\n", start)
        if end < 0:
            return
        line = _parsed(segment, start, end)
        if line is not None:
            yield line
        start = end + 1


def _parsed(segment: bytes, start: int, end: int) -> Line | None:
    rest = memoryview(segment)[start + _SUM : end]
    if segment[start : start + _SUM] != b"%08x " % zlib.crc32(rest):
        return None
    kind_end = segment.find(b" ", start + _SUM, end)
    name_end = segment.find(b" ", kind_end + 1, end)
    if kind_end < 0 or name_end < 0:
        return None
    kind = segment[start + _SUM : kind_end].decode("ascii", "replace")
    name = segment[kind_end + 1 : name_end].decode("ascii", "replace")
    return Line(kind, name, name_end + 1, end - name_end - 1, end + 1)
