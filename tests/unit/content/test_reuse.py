"""What is known is used again: what is kept is what a fresh capture would keep, byte by byte."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import gc
import threading
import tracemalloc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import orchtrace_otel as orchtrace
from orchtrace_otel import content, spans
from orchtrace_otel.content import Capture, read_turn, witness
from orchtrace_otel.content.known import Known
from orchtrace_otel.content.memory import Copies, memory_of
from orchtrace_otel.content.messages import look_at_chat, of_chat
from orchtrace_otel.content.redaction import Redactor
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.content.values import Copy, dumped

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


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 400)), max_size=60))
def test_what_is_known_is_bounded_and_never_wrong(steps: list[tuple[int, int]]) -> None:
    """Two generations, each within its bytes; what was put last is there if it fits."""
    known: Known[int, int] = Known(2_000)
    for key, size in steps:
        assert known.get(key) in (None, key)
        known.put(key, key, size)
        assert known.get(key) == key
        assert len(known) * 300 <= 2 * 2_000


def test_what_each_call_needs_stays_known() -> None:
    """However much else comes by, what is asked for again and again is not forgotten."""
    known: Known[str, str] = Known(3_000)
    known.put("history", "kept", 100)
    for number in range(100):
        known.put(f"once {number}", "", 100)
        assert known.get("history") == "kept"
    assert known.get("once 0") is None
    known.put("too much", "", 5_000)
    assert known.get("too much") is None


def run_of() -> spans.Run:
    run = spans.start_run("team")
    assert run is not None
    return run


def counting(asked: list[str]) -> Callable[[str], str]:
    def redact(text: str) -> str:
        asked.append(text)
        return text

    return redact


HISTORIES = {
    "dicts": lambda text: {"role": "user", "content": text},
    "objects": lambda text: Message(role="user", content=text, extra={}, calls=[]),
    "dataclasses": lambda text: Said("user", text),
    "texts": lambda text: text,
    "pairs": lambda text: ("user", text),
    "with calls": lambda text: {
        "role": "user",
        "tool_calls": [{"name": text, "args": {"q": text}}],
    },
    "with blocks": lambda text: {"role": "user", "content": [{"type": "text", "text": text}]},
}


@pytest.mark.parametrize("name", HISTORIES)
def test_only_what_is_new_of_a_history_is_redacted(name: str, turn_on: Callable[..., Any]) -> None:
    """An agent and its tool get the growing history by new lists; each text is read once."""
    make, asked = HISTORIES[name], list[str]()
    on = turn_on(redact=counting(asked))

    @orchtrace.tool
    def look_up(history: Any, state: Any) -> Any:
        return history

    @orchtrace.agent
    def answer(history: Any) -> Any:
        return look_up([*history], {"messages": history, "step": len(history)})

    @orchtrace.team
    def work() -> None:
        history: list[Any] = []
        for number in range(30):
            history.append(make(f"said {number}"))
            answer(list(history))

    work()
    said = [text for text in asked if text.startswith("said")]
    assert said == [f"said {number}" for number in range(30)]
    assert len(asked) < 30 + 12
    assert len(on.captured.trace.events) == 30 * 4 + 2


def test_calls_of_one_run_are_kept_as_calls_of_runs_of_their_own(
    turn_on: Callable[..., Any],
) -> None:
    """Refs and documents are the same, though the run remembers and the others cannot."""
    on = turn_on(mode="SPAN_AND_EVENT", item_bytes=2_000)
    secret = {"role": "system", "content": "password=hunter2", "api_key": "k"}
    history: list[Any] = [secret]
    steps: list[list[Any]] = []
    for number in range(40):
        history.append(Message(role="user", content=f"{number} é " + "y" * 60, meta={"n": number}))
        steps.append(list(history))
    together = run_of()
    found = [on.recorder.opening(together, {"args": (one,)}, "shown", "user") for one in steps]
    together.close()
    fresh = []
    for one in steps:
        run = run_of()
        fresh.append(on.recorder.opening(run, {"args": (one,)}, "shown", "user"))
        run.close()
    assert found == fresh
    refs = [one["orchtrace.content_ref"] for one in found]
    store = on.store()
    assert len(set(refs)) == len({one["shown"] for one in found}) == 22
    last = store.get(refs[-1]).body
    assert last["flags"] == ["cut", "redacted"]
    assert "hunter2" not in str(last)
    assert on.captured.traces[0].flags == ("content_cut",)


def test_a_message_changed_in_place_is_kept_as_it_is_now(turn_on: Callable[..., Any]) -> None:
    """At any depth, in dicts, objects and lists; as arguments and as a model's prompt."""
    on = turn_on()
    run = run_of()
    block = {"type": "text", "text": "before"}
    call = {"id": "1", "function": {"name": "f", "arguments": {"q": ["before"]}}}
    history = [{"role": "user", "content": [block]}, {"role": "assistant", "tool_calls": [call]}]
    values, turns = [], []
    for text in ("before", "after", "before"):
        block["text"], call["function"]["arguments"]["q"][0] = text, text  # type: ignore[index]
        values.append(on.recorder.opening(run, history)["orchtrace.content_ref"])
        turns.append(on.ask(run, history))
    run.close()
    store = on.store()
    assert values[0] == values[2] != values[1]
    texts = [store.get(ref).body["value"][0]["content"][0]["text"] for ref in values]
    assert texts == ["before", "after", "before"]
    prompts = [read_turn(store, ref).prompt for ref in turns]
    assert [one[0]["parts"][0]["content"] for one in prompts] == ["before", "after", "before"]
    asked = [one[1]["parts"][0]["arguments"]["q"] for one in prompts]
    assert asked == [["before"], ["after"], ["before"]]


def test_a_message_that_changes_while_it_is_copied_is_not_remembered(
    turn_on: Callable[..., Any],
) -> None:
    """As another thread of the host's may do it; the next capture is of what is there then."""
    more = ["one"]
    part: dict[str, Any] = {"type": "text", "text": "one", "more": more}
    message = {"role": "user", "content": [part]}
    changes = ["two", "two"]

    def change_to(now: str) -> None:
        part["text"] = more[0] = now

    def redact(text: str) -> str:
        if text == "text":  # looked at already, and what comes behind it is not read yet
            change_to(changes.pop())
        return text

    def shape(given: Any) -> Any:
        if changes:
            change_to(changes.pop())
        return of_chat(given)

    on = turn_on(redact=redact)
    run = run_of()

    def value(now: str) -> str:
        change_to(now)
        ref = on.recorder.opening(run, [message])["orchtrace.content_ref"]
        return str(on.store().get(ref).body["value"][0]["content"][0]["more"][0])

    def turn(now: str) -> str:
        change_to(now)
        interval = spans.open_turn(run.root, "m")
        opened = on.recorder.open_turn(interval, [message], shape=shape, look=look_at_chat)
        ref = opened.close([])["orchtrace.content_ref"]
        interval.close()
        return str(read_turn(on.store(), ref).prompt[0]["parts"][0]["content"])

    steps = ("one", "one", "three", "two")
    found = [[kept(now) for now in steps] for kept in (value, turn)]
    run.close()
    assert found == [["two", "one", "three", "two"]] * 2


def test_no_object_of_the_host_is_held(turn_on: Callable[..., Any]) -> None:
    """What a run remembers are texts and numbers; messages are free once the host lets go."""
    on = turn_on()
    run = run_of()
    message, part = Message(role="user", content="x"), Message(text="y")
    other = Message(role="user", content=[part], tool_calls=[{"args": part}])
    gone = [weakref.ref(one) for one in (message, other, part)]
    on.recorder.opening(run, {"args": [[message, other]]})
    interval = spans.open_turn(run.root, "m")
    turn = on.recorder.open_turn(
        interval,
        [other],
        shape=lambda one: {"role": "user", "parts": [{"of": one.content}]},
        look=lambda one: (one.role, one.content, one.tool_calls),
    )
    turn.close([])
    interval.close()
    del message, other, part, turn, interval
    gc.collect()
    assert [one() for one in gone] == [None] * 3
    run.close()


def test_what_a_run_remembers_is_bounded(turn_on: Callable[..., Any]) -> None:
    """By sixteen of its largest values a generation; a run that is over holds nothing."""
    on = turn_on(item_bytes=2_000)
    run = run_of()
    for number in range(500):
        on.recorder.opening(run, [{"content": f"{number} " + "z" * 1_000}])
    copies = memory_of(run, on.recorder).copies
    assert 0 < len(copies.texts) <= 2 * 32_000 // 1_300 + 1
    assert 0 < len(copies.values) <= 2 * 32_000 // 2_300 + 1
    run.close()
    assert on.recorder.opening(run, [{"content": "late"}])
    assert (len(copies.texts), len(copies.values)) == (0, 0)


def test_content_beyond_a_run_s_limit_is_still_not_read_anew(turn_on: Callable[..., Any]) -> None:
    """A run that may keep no more goes on cheaply, in values and in prompts."""
    asked: list[str] = []
    on = turn_on(run_bytes=3_000, redact=counting(asked))
    run = run_of()
    history = [{"role": "user", "content": f"said {number} " + "z" * 200} for number in range(20)]
    for _ in range(5):
        on.recorder.opening(run, history)
        on.ask(run, history)
    run.close()
    assert "content_over_limit" in on.captured.trace.flags
    assert sum(text.startswith("said") for text in asked) == 20


def test_new_rules_hold_at_once(turn_on: Callable[..., Any], tmp_path: Any) -> None:
    """Content that is set up anew within a run is redacted and kept by the rules of then."""
    turn_on()
    run = run_of()
    history = [{"role": "user", "content": "Acme asks"}]
    first = content.active()
    assert first is not None
    assert first.opening(run, history)
    capture = Capture(mode="EVENT_ONLY", store=str(tmp_path / "other"), redact_patterns=["Acme"])
    second = set_up(capture, None)
    assert second is not None
    facts = second.opening(run, history)
    run.close()
    assert facts is not None
    assert second.flush(30)
    found = content.open_store(tmp_path / "other").get(facts["orchtrace.content_ref"])
    assert found.body["value"] == [{"role": "user", "content": "[redacted] asks"}]


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
    assert witness.of_parts(look_at_chat(given)) == ("user", "x", None, None, None, None)


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


def test_what_is_remembered_takes_up_what_it_may() -> None:
    """Short texts and such as need more than a byte a character too, and many small values."""
    most, redactor = 200_000, Redactor()
    makers: list[Callable[[int], Any]] = [
        lambda number: {"n": number},
        lambda number: {f"k{one}": f"{number}-{one}" for one in range(25)},
        lambda number: {"content": f"{number}" + "\U0001f600" * 300},
    ]
    for make in makers:
        copies = Copies(most)
        tracemalloc.start()
        try:
            for number in range(1_500):
                Copy(redactor, MOST, copies).of(make(number))
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert size < 2 * 2 * most


def test_what_is_known_can_be_added_to_in_the_middle_of_it() -> None:
    """The collector runs where it likes, and what it ends may be captured: nobody waits."""
    known: Known[Any, int] = Known(10_000)

    class Key:
        def __hash__(self) -> int:
            if (1, 2) not in inner:
                inner.append((1, 2))
                known.put((1, 2), 2, 10)
            return 1

    inner: list[Any] = []
    added = threading.Thread(target=lambda: known.put(Key(), 1, 10), daemon=True)
    added.start()
    added.join(10)
    assert not added.is_alive()
    assert known.get((1, 2)) == 2
