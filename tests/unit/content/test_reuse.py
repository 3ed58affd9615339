"""Within a run what is known is used again: what is kept is what a fresh capture would keep."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import content, spans
from orchtrace_otel.content import Capture, read_turn
from orchtrace_otel.content.memory import memory_of
from orchtrace_otel.content.messages import look_at_chat, of_chat
from orchtrace_otel.content.setup import set_up
from tests.unit.content.objects import Message, Said

if TYPE_CHECKING:
    from collections.abc import Callable


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
