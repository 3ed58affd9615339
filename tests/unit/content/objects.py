"""Values as hosts hold them: of plain types, of classes of their own, with secrets in them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any

from hypothesis import strategies as st

MOST = 100_000


class Role(enum.Enum):
    USER = "user"
    TOOL = "tool"


class Kind(enum.StrEnum):
    PLAIN = "plain"


class Word(str):
    __slots__ = ()


@dataclasses.dataclass
class Said:
    role: Any
    content: Any
    api_key: Any = None


class Message:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


PEM = "-----BEGIN PRIVATE KEY-----" + "k" * 9_000
"""Long, and hardly anything of it is kept."""
TEXTS = st.sampled_from(
    ["", "a", "who?", "é\ud83d", "key sk-" + "k" * 20, "password=hunter2", "x" * 90, "token"]
)
"""Few, so that they come again; some hold secrets, one is longer than small budgets."""
LEAVES = st.one_of(
    TEXTS,
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**63, 4111111111111111, 10**30]),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf")]),
    st.sampled_from([Role.USER, Kind.PLAIN, Word("who?"), dt.date(2026, 1, 2), len, int]),
    st.sampled_from([b"", b"abc", b"password=x", bytearray(b"abc")]),
)
NAMES = st.sampled_from(["role", "content", "api_key", "_own", "name", "sk-" + "k" * 20])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(NAMES | st.integers(0, 2), inner, max_size=4),
        st.builds(Said, inner, inner, inner),
        st.dictionaries(NAMES, inner, max_size=3).map(lambda held: Message(**held)),
    ),
    max_leaves=20,
)
