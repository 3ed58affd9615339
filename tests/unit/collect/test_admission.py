"""Who gets in, and what a small body may become."""

from __future__ import annotations

import gzip
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.collect.admission import InFlight, RefusedError, check_token
from orchtrace_otel.collect.inflating import inflate
from tests.collecting import refusal


@pytest.mark.parametrize("given_header", ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "])
def test_the_scheme_may_be_in_either_case(given_header: str) -> None:
    """As HTTP has it."""
    check_token(given_header, "s3cret")


@pytest.mark.parametrize(
    "wrong", [None, "", "Bearer", "Bearer ", "s3cret", "Basic s3cret", "Bearer é"]
)
def test_anything_else_is_refused(wrong: str | None) -> None:
    """Without a word on what the token is."""
    with pytest.raises(RefusedError) as caught:
        check_token(wrong, "s3cret")
    assert caught.value.why == "unauthenticated"
    assert "s3cret" not in caught.value.message


def test_room_is_given_back_whatever_happens() -> None:
    """A request that fails holds nothing afterwards; one alone is never too large."""
    room = InFlight(2, 10)
    with room.of(50):
        with pytest.raises(RefusedError) as caught, room.of(1):
            pass
        assert (caught.value.why, caught.value.retry_s) == ("busy", 1)
    with pytest.raises(KeyError), room.of(5):
        raise KeyError
    with room.request(), room.request():
        with pytest.raises(RefusedError) as caught, room.request():
            pass
        assert (caught.value.why, caught.value.retry_s) == ("busy", 1)
    assert (room.held, room.count) == (0, 0)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=3), st.integers(0, 9))
def test_what_was_compressed_comes_back(members: list[bytes], level: int) -> None:
    """All members of a gzip, at any level; a byte less room than needed refuses it."""
    whole = b"".join(members)
    body = b"".join(gzip.compress(member, level) for member in members)
    assert inflate(body, "gzip", len(whole)) == whole
    assert inflate(zlib.compress(whole, level), "deflate", len(whole)) == whole
    if whole:
        with pytest.raises(RefusedError) as caught:
            inflate(body, "gzip", len(whole) - 1)
        assert caught.value.why == "too_large"


def test_members_without_number_take_time_as_their_bytes_do() -> None:
    """What is behind each was copied for it: 4 MB of empty ones held the collector for a minute."""
    began = time.process_time()
    assert inflate(gzip.compress(b"") * 200_000, "gzip", 100) == b""
    assert time.process_time() - began < 10


@given(st.binary(min_size=1, max_size=80), st.integers(1, 200))
def test_a_body_that_breaks_off_is_refused(whole: bytes, cut: int) -> None:
    """Wherever it does; what was whole until there is no excuse."""
    body = gzip.compress(whole)
    with pytest.raises(RefusedError) as caught:
        inflate(body[: -(cut % (len(body) - 1)) or -1], "gzip", 1_000)
    assert caught.value.why == "invalid"


@given(st.binary(max_size=60))
def test_any_bytes_are_inflated_or_refused(data: bytes) -> None:
    """Nothing else is ever raised."""
    for body in (data, b"\x1f\x8b\x08\x00" + data):
        why = refusal(lambda body=body: inflate(body, "gzip", 100))
        assert why in {None, "invalid", "too_large"}
