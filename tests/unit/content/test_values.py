"""Copies of the host's values: bounded, redacted, never raising, and no code of the host run."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import tracemalloc
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.content.memory import Copies
from orchtrace_otel.content.recorder import text_of
from orchtrace_otel.content.redaction import REDACTED, Redactor
from orchtrace_otel.content.values import Copy, dumped

MOST = 10_000


def copied(value: Any, most: int = MOST) -> tuple[Any, set[str]]:
    copy = Copy(Redactor(), most)
    return copy.of(value), copy.flags


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    password: str


class Holder:
    def __init__(self) -> None:
        self.shown = 1
        self._hidden = 2

    @property
    def costly(self) -> int:
        raise AssertionError


class Untouchable:
    """An object that no one may look at."""

    def __getattribute__(self, name: str) -> Any:
        msg = f"somebody asked for {name}"
        raise AssertionError(msg)

    __str__ = __repr__ = __iter__ = __len__ = __bool__ = __eq__ = __hash__ = __getattribute__  # type: ignore[assignment]


class Loud(dict[str, int]):
    """A dict whose own methods must not run."""

    def items(self) -> Any:
        raise AssertionError

    __iter__ = keys = values = __len__ = items  # type: ignore[assignment]


PLAIN = {
    "text": ("text", "text"),
    "numbers": ([1, 2.5, True, None], [1, 2.5, True, None]),
    "nested": ({"a": [{"b": (1, 2)}]}, {"a": [{"b": [1, 2]}]}),
    "keys": ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
    "no numbers": ([float("nan"), float("inf")], ["nan", "inf"]),
    "too wide": (2**70, str(2**70)),
    "half a pair": ("half \ud83d", "half ?"),
    "enum": (Colour.RED, "red"),
    "dataclass": (Point(1, "p"), {"x": 1, "password": REDACTED}),
    "object": (Holder(), {"shown": 1}),
    "path": (Path("/a/x"), "/a/x"),
    "date": (dt.date(2026, 1, 2), "2026-01-02"),
    "bytes": (b"abc", {"type": "blob", "content": "YWJj"}),
    "subclass": (OrderedDict(a=1), {"a": 1}),
    "default": (defaultdict(list, a=[1]), {"a": [1]}),
    "loud": (Loud(a=1), {"a": 1}),
    "function": (len, "<builtin_function_or_method>"),
    "class": (int, "<type>"),
    "error": (ValueError("secret"), "<ValueError>"),
    "untouchable": (Untouchable(), "<Untouchable>"),
    "untouchable inside": ([Untouchable()], ["<Untouchable>"]),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_value_is_copied_as_plain_json(name: str) -> None:
    """What can be read without running the host's code is read, of all else the class is named."""
    value, wanted = PLAIN[name]
    found, _ = copied(value)
    assert found == wanted
    assert orjson.loads(dumped(found)) == wanted


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=30,
)


@given(JSON, st.integers(1, 400))
def test_a_copy_is_json_within_its_bytes_whatever_it_is_of(value: Any, most: int) -> None:
    """No value raises, and none takes up more than its limit and the JSON around it."""
    found, _ = copied(value, most)
    texts = sum(len(text.encode()) for text in _texts(orjson.loads(dumped(found))))
    assert texts <= most + 32  # the last value may begin where there is hardly room left


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in [key, *_texts(item)]]
    return []


def test_what_does_not_fit_is_cut_and_flagged() -> None:
    """A long text, a wide list and a deep one end where the limit is, and say so."""
    assert copied("x" * 100, 10) == ("x" * 10, {"cut"})
    wide, flags = copied(list(range(10_000)), 100)
    assert (len(wide) <= 50, flags) == (True, {"cut"})
    deep: list[Any] = []
    for _ in range(1_000):
        deep = [deep]
    assert copied(deep)[1] == {"cut"}
    ring: list[Any] = []
    ring.append(ring)
    assert copied(ring)[1] == {"cut"}


def test_no_half_of_a_secret_is_kept_where_a_text_is_cut() -> None:
    """Texts are redacted beyond the cut, so that a secret across it goes whole."""
    key = "sk-" + "k" * 40
    for before in range(60):
        found, _ = copied("y" * before + " " + key + " " + "z" * 10_000, 60)
        assert "kkk" not in found


def test_many_secrets_before_the_cut_bring_no_half_of_one_into_view() -> None:
    """What is taken out makes a text shorter, and what was beyond the margin stays out."""
    secrets = " ".join("sk-" + letter * 400 for letter in "abcdefghijklmnopqrstuvwxyz")
    found, flags = copied(secrets, 5_000)
    assert flags == {"cut", "redacted"}
    assert not any(letter * 20 in found for letter in "abcdefghijklmnopqrstuvwxyz")


def test_names_that_are_secret_take_their_values_along() -> None:
    """In mappings, in pairs such as headers, and in fields of objects."""
    value = {
        "api_key": "a",
        "X-Api-Key": {"nested": "b"},
        "headers": [("Authorization", "c"), ("Accept", "json")],
        "max_tokens": 5,
    }
    assert copied(value) == (
        {
            "api_key": REDACTED,
            "X-Api-Key": REDACTED,
            "headers": [["Authorization", REDACTED], ["Accept", "json"]],
            "max_tokens": 5,
        },
        {"redacted"},
    )


class Login(NamedTuple):
    """Fields that have names, though it is a tuple."""

    user: str
    password: str


class Header(enum.StrEnum):
    """Names that are members of an enum."""

    COOKIE = "Cookie"


@pytest.mark.parametrize("copies", [None, Copies(1 << 20)], ids=["anew", "known"])
def test_names_are_secret_whatever_holds_them(copies: Copies | None) -> None:
    """Named tuples, members of enums, texts of classes of their own, and bytes as servers have."""
    value = {
        "login": Login("me", "CANARY"),
        "env": {"DB_PASSWORD": "CANARY", "HF_TOKEN": "CANARY", "page_token": "p2"},
        "enum": {Header.COOKIE: "CANARY"},
        "own": {Named("client-secret"): "CANARY", Named("n"): 1},
        "bytes": {b"set-cookie": b"CANARY"},
        "headers": [(b"authorization", b"CANARY"), (Header.COOKIE, "CANARY"), (b"a", b"b")],
    }
    copy = Copy(Redactor(), MOST, copies)
    found = orjson.loads(dumped(copy.of(value)))
    assert found == {
        "login": {"user": "me", "password": REDACTED},
        "env": {"DB_PASSWORD": REDACTED, "HF_TOKEN": REDACTED, "page_token": "p2"},
        "enum": {"Cookie": REDACTED},
        "own": {"client-secret": REDACTED, "n": 1},
        "bytes": {"set-cookie": REDACTED},
        "headers": [
            [{"type": "blob", "content": "YXV0aG9yaXphdGlvbg=="}, REDACTED],
            ["Cookie", REDACTED],
            [{"type": "blob", "content": "YQ=="}, {"type": "blob", "content": "Yg=="}],
        ],
    }
    assert copy.flags == {"redacted"}


class Named(str):
    """A text of a class of its own."""

    __slots__ = ()


def test_half_a_name_takes_no_other_ones_place() -> None:
    """Where a mapping is cut in the middle of a name, what is before it stays what it was."""
    value = {str(number): number for number in range(1, 2_000)}
    for most in range(60, 90):
        found, flags = copied(value, most)
        assert flags == {"cut"}
        whole = len(found) - 1
        assert [*found.items()][:whole] == [*value.items()][:whole]


def test_tuples_that_are_names_are_told_apart() -> None:
    """JSON takes texts alone; two tuples of numbers are two texts."""
    assert copied({(1, 2): "a", (1, 3): "b"}) == ({"[1, 2]": "a", "[1, 3]": "b"}, set())


class Bytes(bytes):
    """Bytes with code of their own."""

    def __getitem__(self, _: Any) -> Any:
        raise AssertionError

    __len__ = __iter__ = __bytes__ = __getitem__


def test_no_code_of_bytes_runs() -> None:
    """They are read as the bytes that they are."""
    assert copied(Bytes(b"abc")) == ({"type": "blob", "content": "YWJj"}, set())


def test_long_numbers_are_redacted_as_texts_are() -> None:
    """A card's number that is an int is one all the same."""
    copy = Copy(Redactor(patterns=[r"\b4\d{15}\b"]), MOST)
    assert copy.of({"card": 4111111111111111, "n": 12}) == {"card": REDACTED, "n": 12}
    assert copy.flags == {"redacted"}


class Real(float):
    """A number with code of its own, such as NumPy's."""

    def __float__(self) -> float:
        raise AssertionError

    __repr__ = __str__ = __float__  # type: ignore[assignment]


class Whole(int):
    """Likewise."""

    def __int__(self) -> int:
        raise AssertionError

    __repr__ = __str__ = __lt__ = __gt__ = __neg__ = __index__ = __int__  # type: ignore[assignment]


def test_a_number_of_any_class_is_a_number() -> None:
    """What JSON can hold of it is kept, and no code of its class runs."""
    given = [Real(1.5), np.float64(2.5), Real("nan"), Whole(3), Whole(10**9), Whole(10**30)]
    held, flags = copied(given)
    assert orjson.loads(dumped(held)) == [1.5, 2.5, "nan", 3, 10**9, str(10**30)]
    assert not flags


class Equal(type):
    """A class of classes that have no hash."""

    def __eq__(cls, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


class Looking(type):
    """A class of classes that look for what they do not have."""

    def __getattr__(cls, name: str) -> Any:
        raise KeyError(name)


class Unhashable(metaclass=Equal):
    def __init__(self) -> None:
        self.shown = 1


class Registry(metaclass=Looking):
    def __init__(self) -> None:
        self.shown = 1


class Homeless:
    __module__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self.shown = 1


@pytest.mark.parametrize("copies", [None, Copies(MOST)])
@pytest.mark.parametrize("kind", [Unhashable, Registry, Homeless])
def test_fields_are_read_whatever_the_class_s_class_is(kind: Any, copies: Copies | None) -> None:
    """A class that cannot be hashed, asked for what it lacks, or placed costs no content."""
    copy = Copy(Redactor(), MOST, copies)
    assert dumped(copy.of([kind(), kind])) == b'[{"shown":1},"<%b>"]' % type(kind).__name__.encode()


def test_fields_whose_names_are_no_texts_are_left_out() -> None:
    """They are none that a class could have given."""
    held = Holder()
    vars(held)[1] = "x"  # type: ignore[index]
    assert copied(held)[0] == {"shown": 1}


@dataclasses.dataclass
class Lazy:
    """A dataclass one of whose fields is made by code."""

    plain: int
    made: int = dataclasses.field(init=False)
    same: int = dataclasses.field(default=3, init=False)

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError


Lazy.made = property(lambda self: self.plain)  # type: ignore[assignment]


@dataclasses.dataclass(slots=True)
class Slotted:
    filled: int
    empty: int = dataclasses.field(init=False)


def test_no_code_of_a_dataclass_runs() -> None:
    """What it holds itself is read, in slots too; what a property would make is not asked for."""
    lazy = object.__new__(Lazy)
    object.__setattr__(lazy, "plain", 1)
    held = copied([lazy, Slotted(2)])[0]
    assert held == [{"plain": 1, "made": None, "same": 3}, {"filled": 2, "empty": None}]


@pytest.mark.parametrize("copies", [None, Copies(MOST)])
def test_a_mapping_that_grows_meanwhile_is_copied_as_it_was(copies: Copies | None) -> None:
    """Another thread of the host's may add to it; here it is the redaction that does."""
    given = {"a": "x", "b": "y"}

    def redact(text: str) -> str:
        given[f"{len(given)}"] = "new"
        return text

    copy = Copy(Redactor(function=redact), MOST, copies)
    assert orjson.loads(dumped(copy.of(given))) == {"a": "x", "b": "y"}


def test_json_takes_up_no_more_than_it_needs() -> None:
    """What is held, and counted by its length, has no room that nobody uses."""
    tracemalloc.start()
    try:
        held = [dumped({"number": number}) for number in range(1_000)]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < len(held) * 200


def test_the_text_of_an_error_leaves_out_numbers_without_end() -> None:
    """Python refuses to write them out."""
    assert text_of(KeyError("no", 10**5_000, 7)) == "no <int> 7"
