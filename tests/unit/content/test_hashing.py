"""The gate for content: what is hashed, with a key, and what is never touched."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import content
from orchtrace_otel.testing import capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CANARY = "canary-7c1e"


@pytest.fixture
def key() -> Iterator[str]:
    """A key for hashes, for the time of a test."""
    content.use_key("secret")
    yield "secret"
    content.use_key(None)


class Untouchable:
    """An object that no one may look at, not even at its class."""

    def __getattribute__(self, name: str) -> Any:
        msg = f"somebody asked for {name}"
        raise AssertionError(msg)

    __str__ = __repr__ = __iter__ = __len__ = __bool__ = __eq__ = __hash__ = __getattribute__  # type: ignore[assignment]


class Lazy(dict[str, int]):
    """A dict that would have to be loaded first."""

    def __len__(self) -> int:
        raise AssertionError

    __iter__ = items = values = keys = __len__  # type: ignore[assignment]


def test_without_a_key_nothing_is_hashed() -> None:
    """A plain hash of a short text can be guessed, so there is none."""
    assert content.task_id(("question",), {}) is None


def test_the_hash_is_keyed(key: str) -> None:
    """Only who has the key can relate a task id to what was asked."""
    wanted = hmac.new(b"secret", b'["question"]', hashlib.sha256).hexdigest()[:32]
    assert content.task_id(("question",), {}) == wanted
    content.use_key("another")
    assert content.task_id(("question",), {}) not in {None, wanted}


def test_one_input_is_one_task_however_it_is_written(key: str) -> None:
    """Neither the order of keywords nor that of keys tells two tasks apart."""
    one = content.task_id((), {"a": 1, "b": {"x": 1, "y": [None, True, 2.5]}})
    assert one is not None
    assert content.task_id((), {"b": {"y": [None, True, 2.5], "x": 1}, "a": 1}) == one
    assert content.task_id((), {"a": 2, "b": {"x": 1, "y": [None, True, 2.5]}}) != one


ODD: dict[str, Callable[[], Any]] = {
    "long": lambda: "x" * 5_000,
    "many": lambda: list(range(65)),
    "keyed": lambda: {str(number): number for number in range(65)},
    "sum": lambda: ["x" * 4_000, "y" * 4_000],
    "deep": lambda: [[[[["deep"]]]]],
    "key": lambda: {1: "no text as key"},
    "longkey": lambda: {"x" * 5_000: 1},
    "half": lambda: "half \ud83d",
    "huge": lambda: 2**70,
    "bytes": lambda: b"bytes",
    "set": lambda: {1, 2},
    "range": lambda: range(3),
    "untouchable": Untouchable,
    "inside_list": lambda: [Untouchable()],
    "inside_dict": lambda: {"inside": Untouchable()},
    "lazy": Lazy,
}


@pytest.mark.parametrize("odd", ODD)
def test_big_and_odd_inputs_are_never_read(key: str, odd: str) -> None:
    """The run's id stands for the task then, and no method of the input is called."""
    value = ODD[odd]()
    assert content.task_id((value,), {}) is None
    assert content.task_id((), {"given": value}) is None
    assert content.task_id(("question", value), {}) is None


def test_inputs_that_differ_where_nobody_looks_are_no_one_task(key: str) -> None:
    """A table and a number: hashing the number alone would make every table one task."""
    assert content.task_id((object(), 5), {}) is None


def test_a_runs_input_is_its_task(key: str) -> None:
    """Two runs on one question share the task; the object whose work it is does not count."""

    @orchtrace.team
    def answer(question: str) -> str:
        return question

    @orchtrace.team
    class Team:
        def run(self, question: str) -> str:
            return question

    with capture() as captured:
        answer("who?")
        answer("who?")
        answer("why?")
        Team().run("who?")
    tasks = [trace.task_id for trace in captured.traces]
    assert tasks[0] == tasks[1] == tasks[3] != tasks[2]


def test_untouchable_inputs_and_results_go_through_a_team() -> None:
    """Nothing of ours looks at what agents are given or give back."""

    @orchtrace.tool
    def search(given: object) -> object:
        return given

    @orchtrace.agent
    def critic(given: object) -> object:
        orchtrace.message("critic", given)
        orchtrace.delegate("critic", task=given)
        return search(given)

    @orchtrace.team
    def lead(given: object) -> object:
        result = critic(given)
        with orchtrace.aggregate([result]):
            return result

    given = Untouchable()
    with capture() as captured:
        assert lead(given) is given
    assert captured.trace.flags == ()


def test_content_leaves_through_no_field(key: str) -> None:
    """Arguments, results, messages, errors: none is in a span, a link, an event or a trace."""

    @orchtrace.tool
    def search(query: str) -> str:
        raise ValueError(query)

    @orchtrace.agent
    def critic(text: str) -> str:
        orchtrace.message("critic", CANARY)
        orchtrace.delegate("critic", task=CANARY)
        return search(text)

    @orchtrace.team
    def lead(text: str) -> str:
        return critic(text)

    with capture() as captured, pytest.raises(ValueError, match=CANARY):
        lead(CANARY)
    told = captured.trace.to_json() + "".join(span.to_json() for span in captured.spans)
    assert CANARY not in told
