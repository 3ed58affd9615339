"""Traces as documents of the published schema: writing, reading, checking.

`dump` writes, `load` reads what the schema accepts, `check` says everything that is
wrong with a document and `read_lines` goes through a file of them. jsonschema-rs, of
the extra `cli`, makes checking fast; without it the same faults are found more slowly.
What the keys mean is said in `glossary.py`.
"""

from __future__ import annotations

import json
import logging
import math
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from orchtrace_otel._faults import (
    Fault,
    Rule,
    graph_faults,
    is_plainly_sound,
    schema_faults,
    trace_schema,
)
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.model import Json, Trace, read_json

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from orchtrace_otel.model import Edge, Event

__all__ = [
    "Fault",
    "Line",
    "Rule",
    "check",
    "dump",
    "is_unfinished",
    "is_valid",
    "load",
    "read_lines",
    "trace_schema",
    "writers_lock",
]

_logger = logging.getLogger("orchtrace_otel")

# --- writing --------------------------------------------------------------------------

_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def dump(trace: Trace) -> bytes:
    """Write a trace as one line of JSON, without a newline at the end.

    The same document as `Trace.to_json`, faster.

    Raises:
        TraceFormatError: If the trace holds what JSON has no word for, such as NaN.
    """
    try:
        document = trace.around(_array(trace.events), _array(trace.edges))
        text = orjson.dumps(document, option=_OPTIONS)
    except TypeError:
        # orjson stops at 64 bits, at 254 levels and at half a surrogate pair; the
        # standard library goes further, and all that can be read is to be written.
        return _dump_slowly(trace.to_dict())
    # What orjson makes of NaN, but also a null or a word of a text; from the end it is
    # found in half the time.
    if text.rfind(b"null") >= 0:
        _refuse_unwritable(trace.to_dict())
    return text


_AT_ONCE: Final = 256
"""Events or edges that are dicts at one time: too few to set off the garbage collector."""


def _array(items: Sequence[Event] | Sequence[Edge]) -> orjson.Fragment:
    """Write an array piece by piece."""
    pieces = [
        orjson.dumps([one.to_dict() for one in items[at : at + _AT_ONCE]], option=_OPTIONS)[1:-1]
        for at in range(0, len(items), _AT_ONCE)
    ]
    return orjson.Fragment(b"[" + b",".join(pieces) + b"]")


def _dump_slowly(document: Json) -> bytes:
    try:
        text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    except RecursionError:
        msg = "a trace to be written must not be nested as deep as Python's recursion limit"
        raise TraceFormatError(msg) from None
    except (TypeError, ValueError) as error:
        if "Circular" not in str(error):
            _refuse_unwritable(document)
        msg = f"a trace to be written must hold JSON only, came: {error}"
        raise TraceFormatError(msg) from error
    _refuse_unwritable(document)  # such as a key that is a number, which json would turn into text
    return text.encode()


def _refuse_unwritable(document: Json) -> None:
    """Raise for the first value that JSON has no word for, naming its place."""
    work: list[tuple[str, object]] = [("$", document)]
    while work:
        path, value = work.pop()
        if isinstance(value, dict):
            for key, item in cast("dict[object, object]", value).items():
                if not isinstance(key, str):
                    msg = f"{path} must have strings as keys, came {key!r}"
                    raise TraceFormatError(msg)
                work.append((f"{path}.{key}", item))
        elif isinstance(value, list | tuple):
            array = cast("list[object]", value)
            work.extend((f"{path}[{index}]", item) for index, item in enumerate(array))
        elif isinstance(value, float) and not math.isfinite(value):
            msg = f"{path} must be finite, came {value!r}; leave out what is not known"
            raise TraceFormatError(msg)
        elif not isinstance(value, str | int | float | None):
            msg = f"{path} must be a value of JSON, came a {type(value).__name__}"
            raise TraceFormatError(msg)


# --- reading --------------------------------------------------------------------------

# To see in one pass whether a text may hold an integer beyond 64 bits, which orjson would
# silently read as a float: all digits become 0, and what a number may follow a space. Within
# texts, such as ids, digits mostly follow something else.
_PLAIN: Final = dict.fromkeys(b"0123456789", b"0") | dict.fromkeys(b" \t\r\n:,[", b" ")
_DIGITS: Final = b"".join(
    _PLAIN.get(byte, b"-" if byte == ord("-") else b"x") for byte in range(256)
)
_LONG: Final = (b" " + b"0" * 20, b" -" + b"0" * 19)


def _parse(text: str | bytes) -> Any:
    try:
        data = text.encode() if isinstance(text, str) else text
        digits = (b" " + data).translate(_DIGITS)
        if not any(long in digits for long in _LONG):
            return orjson.loads(data)
    except (ValueError, TypeError):
        pass  # the slower reader takes more, and says best what is wrong
    return read_json(text)


def load(text: str | bytes) -> Trace:
    """Read the JSON text of one trace.

    Takes whatever the published schema accepts; `check` knows more to ask for.

    Raises:
        TraceFormatError: If the text is no JSON, or a document that the schema refuses;
            the message names the first faults.
    """
    try:
        document = _parse(text)
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(str(_syntax_fault(error))) from None
    if not _accepts(document):
        faults = list(schema_faults(document))
        if faults:
            raise TraceFormatError(_first(faults))
    return Trace.from_dict(document)


def _first(faults: list[Fault], most: int = 3) -> str:
    said = "; ".join(str(fault) for fault in faults[:most])
    more = len(faults) - most
    return f"{said}; and {more} more" if more > 0 else said


def _syntax_fault(error: Exception, *, cut: bool = False) -> Fault:
    match error:
        case json.JSONDecodeError():
            start = max(error.pos - 20, 0)
            near = error.doc[start : error.pos + 20]
            came = f"{near!r} at column {error.colno} ({error.msg})"
        case RecursionError():
            came = "one nested deeper than Python's recursion limit"
        case _:
            came = str(error)
    must = "must be a JSON document, written to its end" if cut else "must be a JSON document"
    return Fault("$", must, came, "schema")


# --- checking -------------------------------------------------------------------------


_SOUND_SINCE: Final = (0, 46)
"""Release of jsonschema-rs since which half a surrogate pair does not crash the process."""


@cache
def _compiled() -> Callable[[object], bool] | None:
    """The schema as jsonschema-rs compiles it; None where no sound release is installed."""
    try:
        import jsonschema_rs  # noqa: PLC0415 - of an extra, and loaded only by who checks

        found = version("jsonschema-rs")
    except ImportError:
        return None
    if tuple(int(part) for part in found.split(".")[:2]) < _SOUND_SINCE:
        return None
    return jsonschema_rs.validator_for(trace_schema()).is_valid


def _accepts(document: object) -> bool:
    """Whether the schema surely accepts a document; where not, `schema_faults` judges."""
    is_valid_fast = _compiled()
    if is_valid_fast is None:
        return False
    try:
        return is_valid_fast(document)
    except ValueError:  # what it cannot look at: half a surrogate pair, a key that is no text
        return False


def check(document: object) -> list[Fault]:
    """Say everything that is wrong with a document, all at once.

    Looks at what the published schema asks for (`Fault.rule` is `schema`), at what its
    artifact's checker asks for beyond (`artifact`: ids unique, edges between events,
    costs not negative), and at what ours does (`orchtrace`: no cycle of causes, no
    cause after its effect, one stop and that last).

    Example:
        >>> [fault] = check({"trace_id": "r", "task_id": "q", "edges": [], "rewards": {},
        ...   "costs": {"tokens": 0, "wall_clock_s": 1},
        ...   "events": [{"id": "e", "t": True, "type": "spawn", "agent": "a"}]})
        >>> print(fault)
        $.events[0].t must be a number, at least 0, came True
    """
    if not _accepts(document):
        return [*schema_faults(document), *graph_faults(document)]
    return [] if is_plainly_sound(cast("Json", document)) else list(graph_faults(document))


def is_valid(document: object) -> bool:
    """Whether `check` finds nothing; stops at the first fault."""
    if _accepts(document) and is_plainly_sound(cast("Json", document)):
        return True
    return next(chain(schema_faults(document), graph_faults(document)), None) is None


# --- files ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One document of a file.

    Attributes:
        number: Line on which it begins, or on which it is no JSON; the first is 1.
        trace: The trace, where the published schema accepts it.
        faults: All that is wrong with it.
    """

    number: int
    trace: Trace | None
    faults: tuple[Fault, ...] = ()


_OTHER_KINDS: Final = {
    b"\x1f\x8b": "a file packed with gzip; unpack it first",
    b"\x28\xb5\x2f\xfd": "a file packed with zstd; unpack it first",
    b"\xfd7zXZ\0": "a file packed with xz; unpack it first",
    b"BZh": "a file packed with bzip2; unpack it first",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"PAR1": "a Parquet file; `orchtrace convert` reads the folder of its table",
    b"SQLite format 3\0": "a database of SQLite; the traces lie beside it",
    BOM_UTF16_LE: "text of UTF-16; save it as UTF-8",
    BOM_UTF16_BE: "text of UTF-16; save it as UTF-8",
}
_LONGEST: Final = max(map(len, _OTHER_KINDS))


def read_lines(path: str | os.PathLike[str]) -> Iterator[Line]:
    """Go through a file of traces: JSON lines, or one document over several lines.

    Empty lines and a byte order mark are passed over. A line that is no trace, such as
    one that was not written to its end, is yielded with its faults; the next ones follow.
    The last line of a file that a writer appends to is left out while it has no end, and a
    warning is logged: the writer is at it, or was killed and the next one takes it away.

    Raises:
        OSError: If the file cannot be read.
    """
    path = Path(path)
    with path.open("rb") as file:
        begins = file.peek(_LONGEST)
        other = next((what for start, what in _OTHER_KINDS.items() if begins.startswith(start)), "")
        if other:  # one fault, not one for each line feed among its bytes
            yield Line(1, None, (Fault("$", "must be JSON, as text of UTF-8", other, "schema"),))
            return
        if begins.startswith(BOM_UTF8):
            file.read(len(BOM_UTF8))
        lines: Iterator[tuple[int, bytes]] = (
            item for item in enumerate(file, 1) if item[1].strip()
        )
        first = next(lines, None)
        if first is None:
            return
        number, text = first
        if _is_opening(text):
            # A first line that breaks off is one document's, unless the next stands alone.
            rest = list(islice(lines, 1))
            if rest and not _is_document(rest[0][1]):
                yield _read(number, b"".join([text, *(line for _, line in rest), *file]))
                return
            lines = chain(rest, lines)
        for number, text in chain([first], lines):
            if not is_unfinished(path, number, text):
                yield _read(number, text)


def writers_lock(path: Path) -> Path:
    """Return the lock file that whoever appends lines to a file of traces has beside it."""
    return path.with_name(f".{path.name}.lock")


def is_unfinished(path: Path, number: int, text: bytes) -> bool:
    """Whether a line is half of one, at the end of a file that a writer appends to.

    That is told in the log. Without a writer's lock beside it, as in a copy, half a line
    is a fault like any other.
    """
    if text.endswith(b"\n") or _is_document(text) or not writers_lock(path).exists():
        return False
    why = "it is not written to its end, by a writer that is at it or was killed"
    _logger.warning("%s:%d: left out, for %s", path, number, why)
    return True


def _is_opening(text: bytes) -> bool:
    """Whether a text is fine as JSON as far as it goes, and goes on."""
    try:
        _parse(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(error.doc.rstrip()) and not error.msg.startswith("Unterminated")
    except (ValueError, RecursionError):
        return False
    return False


def _is_document(text: bytes) -> bool:
    try:
        return isinstance(_parse(text), dict)
    except (ValueError, RecursionError):
        return False


def _read(number: int, text: bytes) -> Line:
    try:
        document = _parse(text)
    except json.JSONDecodeError as error:
        number += error.doc.rstrip().count("\n", 0, error.pos)
        # Writers end each line; what has no end is what a killed one left.
        return Line(number, None, (_syntax_fault(error, cut=not text.endswith(b"\n")),))
    except (ValueError, RecursionError) as error:
        return Line(number, None, (_syntax_fault(error),))
    faults = tuple(check(document))
    refused = any(fault.rule == "schema" for fault in faults)
    return Line(number, None if refused else Trace.from_dict(document), faults)
