"""What is known again is what a fresh copy would be: values of one witness have one copy."""

from __future__ import annotations

import datetime as dt
import enum
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchtrace_otel.content import witness
from orchtrace_otel.content.memory import Copies
from orchtrace_otel.content.messages import look_at_chat, of_chat
from orchtrace_otel.content.redaction import Redactor
from orchtrace_otel.content.values import Copy, dumped
from tests.unit.content.objects import LEAVES, MOST, PEM, VALUES, Kind, Message, Role, Said, Word


def result(redactor: Redactor, value: Any, most: int, copies: Copies | None) -> Any:
    """Return all that a copy is: its bytes, its flags, and what it leaves for what comes next."""
    copy = Copy(redactor, most, copies)
    held = dumped(copy.of(value))
    return held, copy.flags, copy._left


def places(value: Any) -> list[Any]:
    """Return all that can be changed in place in a value."""
    found: list[Any] = []
    if type(value) in (Said, Message):
        found = [value.__dict__]
        inner = list(value.__dict__.values())
    elif type(value) is dict:
        found, inner = [value], list(value.values())
    elif type(value) is list:
        found, inner = [value], value
    else:
        inner = list(value) if type(value) is tuple else []
    return found + [place for one in inner for place in places(one)]


def change(place: Any, at: int, leaf: Any) -> None:
    """Change one thing in place, be it a list or a dict."""
    if type(place) is list:
        place[at % (len(place) + 1) :][:1] = [leaf]
        if place:
            place[at % len(place)] = leaf
        else:
            place.append(leaf)
    elif place:
        place[sorted(place, key=str)[at % len(place)]] = leaf


@given(
    st.lists(VALUES, min_size=1, max_size=5),
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 30), LEAVES, st.sampled_from([40, 250, MOST])),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0, 900, 4_000, 10**7]),
)
@example([{"n": 1}, {"n": True}, {"n": 1.0}], [(0, 0, 1, MOST), (1, 0, True, MOST)], 10**7)
@example([{"n": 0.0}, {"n": -0.0}], [(0, 0, -0.0, MOST)], 10**7)
@example([{"a": "x" * 90}], [(0, 9, "a", MOST), (0, 9, "a", 40)], 10**7)
@example([{"a": [PEM]}, ()], [(1, 0, "", MOST), (1, 0, "", 250)], 10**7)
@example([{"a": b"password=" + b"x" * 900}, ()], [(1, 0, "", MOST), (1, 0, "", 250)], 10**7)
def test_what_is_used_again_is_what_a_fresh_copy_would_be(
    history: list[Any], changes: list[tuple[int, int, Any, int]], bound: int
) -> None:
    """In bytes, flags and what is left, whatever changes in place and however little fits."""
    redactor, copies = Redactor(["name"]), Copies(bound)
    for which, at, leaf, most in changes:
        found = result(redactor, {"args": [history, "end"]}, most, copies)
        assert found == result(redactor, {"args": [history, "end"]}, most, None)
        held = places(history[which % len(history)])
        if held:
            change(held[at % len(held)], at, leaf)
        assert result(redactor, history, most, copies) == result(redactor, history, most, None)


@given(VALUES, VALUES)
@example({"a": [1, 2]}, {"a": (1, 2)})
@example({"a": "<type>"}, {"a": int})
@example({"a": "2026-01-02"}, {"a": dt.date(2026, 1, 2)})
@example({"a": "who?"}, {"a": Word("who?")})
@example({"a": None}, {"a": "None"})
@example({"a": Kind.PLAIN}, {"a": "plain"})
def test_values_of_one_witness_have_one_copy(one: Any, other: Any) -> None:
    """Nothing that a copy is made of is missing from the witness."""
    for look in (witness.of_value, lambda value: witness.of_parts((value,))):
        seen = look(one)
        if seen is not None and seen == look(other):
            redactor = Redactor()
            assert result(redactor, one, MOST, None) == result(redactor, other, MOST, None)


CALL = {"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}
BLOCK = {"type": "text", "text": "a"}
LIKE_TEXT = st.sampled_from(["a", Word("a"), Kind.PLAIN, "plain", "", None, 1, True])
LIKE_BLOCKS = st.sampled_from(
    [BLOCK, OrderedDict(BLOCK), BLOCK | {"type": Word("text")}, {"type": "image_url", "url": "a"}]
)
LIKE_CALLS = st.sampled_from(
    [CALL, OrderedDict(CALL), CALL | {"function": OrderedDict(CALL["function"])}]  # type: ignore[call-overload]
)
CONTENTS = st.one_of(
    LIKE_TEXT,
    LIKE_BLOCKS,
    st.lists(LIKE_TEXT | LIKE_BLOCKS, max_size=2),
    st.lists(LIKE_TEXT | LIKE_BLOCKS, max_size=2).map(tuple),
)
CHATS = st.one_of(
    CONTENTS,
    st.fixed_dictionaries(
        {"role": LIKE_TEXT, "content": CONTENTS},
        optional={
            "name": LIKE_TEXT,
            "reasoning": CONTENTS,
            "tool_calls": st.lists(LIKE_CALLS, max_size=2),
        },
    ),
)


@given(CHATS, CHATS)
@example({"content": ["a"]}, {"content": ("a",)})
@example({"content": []}, {"content": ()})
@example({"content": [BLOCK]}, {"content": [OrderedDict(BLOCK)]})
@example({"content": [{}]}, {"content": [OrderedDict()]})
@example({"tool_calls": [CALL]}, {"tool_calls": [CALL | {"function": OrderedDict(name="f")}]})
def test_messages_of_one_witness_have_one_shape(one: Any, other: Any) -> None:
    """What a message is made into depends on classes too: a list is blocks, a tuple is none."""
    seen = witness.of_parts(look_at_chat(one))
    if seen is not None and seen == witness.of_parts(look_at_chat(other)):
        shapes = [dumped(Copy(Redactor(), MOST).whole(of_chat(given))) for given in (one, other)]
        assert shapes[0] == shapes[1]


class Pretends:
    """An object that says to be a text."""

    def __init__(self) -> None:
        self.content = "x"

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        return str

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


def test_an_object_that_says_to_be_a_text_is_looked_at_as_what_it_is() -> None:
    """It may change, and is neither held nor asked whether it is the same."""
    given = Pretends()
    before = witness.of_parts(("user", given))
    assert before == witness.of_parts(("user", given))
    assert before is not None
    assert not any(one is given for one in before)
    given.content = "y"
    assert witness.of_parts(("user", given)) != before


class Mixed(str, enum.Enum):  # noqa: UP042 - what is tested: its `str` is not its text
    """Roles, as many write them."""

    USER = "user"


@pytest.mark.parametrize(
    "role", [Mixed.USER, Role.USER, Word("user"), "user"], ids=["mixed", "enum", "word", "text"]
)
def test_a_role_is_the_text_that_it_stands_for(role: Any) -> None:
    """However a host writes it; what looks alike is of one shape."""
    given = {"role": role, "content": "x"}
    assert of_chat(given)["role"] == "user"
    assert witness.of_parts(look_at_chat(given)) == ("user", "x", *[None] * 5)


def test_a_mapping_that_grows_while_it_is_looked_at_has_no_witness() -> None:
    """Another thread of the host's may add to it; it is copied then as it is."""

    class Growing(Message):
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            given["more"] = 1
            return {}

    given: dict[str, Any] = {}
    given.update(one=object.__new__(Growing), two=2)
    assert witness.of_value(given) is None
    assert witness.of_value({"one": Message(), "two": 2}) is not None
