"""Lines of segments: what was written is read, and what is torn is none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.content import segments

DOCUMENTS = st.lists(
    st.tuples(
        st.sampled_from(segments.KINDS),
        st.text("0123456789abcdef", min_size=32, max_size=32),
        st.binary(max_size=60).map(lambda data: data.replace(b"\n", b" ")),
    ),
    max_size=8,
)


def written(documents: list[tuple[str, str, bytes]]) -> bytes:
    return b"".join(segments.document_line(*one) for one in documents)


def read(data: bytes) -> list[tuple[str, str, bytes]]:
    return [
        (line.kind, line.name, data[line.offset : line.offset + line.length])
        for line in segments.read(data)
    ]


@given(DOCUMENTS)
def test_what_was_written_is_read(documents: list[tuple[str, str, bytes]]) -> None:
    """Kind, ref and body, in order."""
    assert read(written(documents)) == documents


@given(DOCUMENTS, st.data())
def test_a_torn_tail_costs_its_own_line_alone(
    documents: list[tuple[str, str, bytes]], data: st.DataObject
) -> None:
    """Wherever a process was killed, the lines before are whole, and so is what comes after."""
    whole = written(documents)
    cut = data.draw(st.integers(0, len(whole)))
    kept = read(whole[:cut])
    assert kept == documents[: len(kept)]
    assert whole[:cut].count(b"\n") == len(kept)
    later = [("value", "f" * 32, b"{}")]
    found = read(whole[:cut] + b"\n" + written(later))
    # Where only the end of the line was missing, the line is whole again.
    assert found[len(kept) :] in ([*later], [*documents[len(kept) : len(kept) + 1], *later])


@given(DOCUMENTS.filter(bool), st.data())
def test_a_line_that_changed_is_no_line(
    documents: list[tuple[str, str, bytes]], data: st.DataObject
) -> None:
    """A flipped byte breaks the sum of its line."""
    whole = bytearray(written(documents))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1
    found = read(bytes(whole))
    assert len(found) < len(documents)
    assert all(one in documents for one in found)
