"""Files of documents: line by line, whole ones, and lines that break off."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from codecs import BOM_UTF8
from typing import TYPE_CHECKING

import pytest

from orchtrace_otel import schema
from orchtrace_otel.model import Trace
from orchtrace_otel.schema import Fault, Line
from tests.unit.schema.documents import document, event

if TYPE_CHECKING:
    from pathlib import Path


GOOD = json.dumps(document()).encode()
TRACE = Trace.from_dict(document())


def lines(tmp_path: Path, content: bytes) -> list[Line]:
    """What is read from a file of that content."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(content)
    return list(schema.read_lines(path))


@pytest.mark.parametrize(
    "content",
    [
        GOOD + b"\n" + GOOD + b"\n",
        GOOD + b"\n" + GOOD,
        BOM_UTF8 + GOOD + b"\r\n" + GOOD + b"\r\n",
    ],
)
def test_a_file_of_lines_is_read_line_by_line(tmp_path: Path, content: bytes) -> None:
    """With any line ending, a byte order mark, and a last line with or without its end."""
    assert lines(tmp_path, content) == [Line(1, TRACE), Line(2, TRACE)]


@pytest.mark.parametrize(
    ("content", "came"),
    [
        (gzip.compress(b"\n".join([GOOD] * 9)), "packed with gzip; unpack it first"),
        (lzma.compress(GOOD), "packed with xz; unpack it first"),
        (bz2.compress(GOOD), "packed with bzip2; unpack it first"),
        (b"PAR1\n\n\n", "a Parquet file; `orchtrace convert` reads"),
        (GOOD.decode().encode("utf-16"), "text of UTF-16; save it as UTF-8"),
    ],
)
def test_a_file_of_another_kind_is_one_fault_that_says_what_to_do(
    tmp_path: Path, content: bytes, came: str
) -> None:
    """Not one for each line feed among its bytes."""
    [line] = lines(tmp_path, content)
    assert (line.number, line.trace, len(line.faults)) == (1, None, 1)
    assert came in line.faults[0].came


def test_empty_lines_are_passed_over(tmp_path: Path) -> None:
    """They hold nothing, but they count as lines."""
    assert lines(tmp_path, b"\n \n" + GOOD + b"\n\n" + GOOD) == [Line(3, TRACE), Line(5, TRACE)]
    assert lines(tmp_path, b"") == []
    assert lines(tmp_path, b"\n\n") == []


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
@pytest.mark.parametrize("indent", [0, 2])
def test_one_document_over_many_lines_is_read(tmp_path: Path, indent: int, mark: bytes) -> None:
    """A trace that was printed for people is a file of one trace."""
    pretty = mark + b"\n" + json.dumps(document(), indent=indent).encode() + b"\n"
    assert lines(tmp_path, pretty) == [Line(2, TRACE)]


def test_a_fault_in_a_document_over_many_lines_is_on_its_line(tmp_path: Path) -> None:
    """Where it stops to be JSON is said by line and column."""
    pretty = json.dumps(document(), indent=2).replace('"t": 0', '"t": zero').encode()
    [line] = lines(tmp_path, pretty + b"\n")
    assert (line.number, line.trace) == (7, None)
    assert "at column 12 (Expecting value)" in line.faults[0].came


def test_a_line_that_is_no_trace_does_not_hide_the_next(tmp_path: Path) -> None:
    """Each line is judged alone."""
    bad = json.dumps(document(event(t=-1), event("b", verb=3), edges=("e>x",))).encode()
    dangling = document(edges=("e>x",))
    content = b"\n".join([bad, b"{]", GOOD, json.dumps(dangling).encode(), b"\xff", b"3", b""])
    nowhere = Fault("$.edges[0].dst", "must be the id of an event", "'x'", "artifact")
    read = lines(tmp_path, content)
    assert [line.number for line in read] == [1, 2, 3, 4, 5, 6]
    assert [line.trace for line in read] == [
        None,
        None,
        TRACE,
        Trace.from_dict(dangling),
        None,
        None,
    ]
    assert read[0].faults == (
        Fault("$.events[0].t", "must be a number, at least 0", "-1", "schema"),
        nowhere,
    )
    assert read[3].faults == (nowhere,)
    assert [len(line.faults) for line in read] == [2, 1, 0, 1, 1, 1]


@pytest.mark.parametrize("cut", [1, 9, 10, 20, len(GOOD) - 1])
def test_a_last_line_that_breaks_off_is_said_to(tmp_path: Path, cut: int) -> None:
    """What a killed writer left is a fault, and what was written before it is read."""
    [first, last] = lines(tmp_path, GOOD + b"\n" + GOOD[:cut])
    assert first == Line(1, TRACE)
    assert (last.number, last.trace) == (2, None)
    assert last.faults[0].must == "must be a JSON document, written to its end"


@pytest.mark.parametrize("cut", [1, 9, 10, 20, len(GOOD) - 1])
@pytest.mark.parametrize("before", [b"", GOOD + b"\n"])
def test_half_a_line_at_the_end_of_a_file_that_is_written_is_left_out(
    tmp_path: Path, cut: int, before: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A writer is at it, or was killed: that is told, and is no fault; anywhere else it is one."""
    schema.writers_lock(tmp_path / "traces.jsonl").touch()
    number = 1 + before.count(b"\n")
    assert lines(tmp_path, before + GOOD[:cut]) == ([Line(1, TRACE)] if before else [])
    assert f"traces.jsonl:{number}: left out, for it is not written to its end" in caplog.text
    assert lines(tmp_path, before + GOOD)[-1] == Line(number, TRACE)
    _, half, last = lines(tmp_path, GOOD + b"\n" + GOOD[:cut] + b"\n" + GOOD)
    assert (half.trace, len(half.faults), last) == (None, 1, Line(3, TRACE))


@pytest.mark.parametrize("cut", [1, 9, 10, 20, len(GOOD) - 1])
def test_a_first_line_that_breaks_off_does_not_swallow_the_others(tmp_path: Path, cut: int) -> None:
    """Half a line at the start of a file is not taken for one document over many lines."""
    first, *others = lines(tmp_path, GOOD[:cut] + b"\n" + GOOD + b"\n" + GOOD + b"\n")
    assert (first.number, first.trace, len(first.faults)) == (1, None, 1)
    assert others == [Line(2, TRACE), Line(3, TRACE)]


def test_a_file_of_one_broken_line_is_one_fault(tmp_path: Path) -> None:
    """Also where it looks like the opening of more."""
    for text in (b"{", b"{\n", b"nonsense\n", b"\x00\xff\n"):
        [line] = lines(tmp_path, text)
        assert (line.number, line.trace, len(line.faults)) == (1, None, 1)


def test_lines_are_read_one_at_a_time(tmp_path: Path) -> None:
    """A file that grows too large for memory is still read."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(GOOD + b"\n")
    reading = schema.read_lines(path)
    assert next(reading) == Line(1, TRACE)
    with path.open("ab") as file:
        file.write(GOOD + b"\n")
    assert list(reading) == [Line(2, TRACE)]


def test_a_file_that_cannot_be_opened_is_an_os_error(tmp_path: Path) -> None:
    """That is no fault of a trace."""
    with pytest.raises(FileNotFoundError):
        list(schema.read_lines(tmp_path / "none.jsonl"))
