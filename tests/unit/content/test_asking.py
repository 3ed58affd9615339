"""Turns of plain code: what chat servers answer, as mappings and as their libraries' objects."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace as otel

import orchtrace_otel as orchtrace
from orchtrace_otel.content import ask, read_turn
from orchtrace_otel.testing import capture
from orchtrace_otel.testing.models import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES = [{"role": "user", "content": "who?"}]
CUSTOM = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "print(1)"}}


def as_objects(value: Any) -> Any:
    """Return an answer as a library's object holds it."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_objects(item) for key, item in value.items()})
    return [as_objects(item) for item in value] if isinstance(value, list) else value


def answer(**more: Any) -> dict[str, Any]:
    """Return the answer of a chat server."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}
    message = {"role": "assistant", "content": "me", "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", **more}
    return {
        "id": "r1",
        "model": "answered",
        "choices": [choice],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


@pytest.mark.parametrize("kind", [dict, as_objects], ids=["mapping", "object"])
def test_an_answer_of_a_chat_server_is_a_turn(turn_on: Callable[..., Any], kind: Any) -> None:
    """Messages, tokens as vLLM gives them, usage, parameters; headers and keys stay out."""
    on = turn_on(redact_defaults=False)
    logprobs = {"content": [{"token": "token_id:5", "logprob": -0.5, "top_logprobs": []}]}
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"a": 1}}}]
    request = {"temperature": 0, "extra_headers": {"x": "secret"}, "extra_body": {"top_k": 4}}

    @orchtrace.agent
    def worker() -> None:
        with ask("asked", MESSAGES, tools=tools, parameters=request, provider="vllm") as asked:
            asked.answered(kind(answer(logprobs=logprobs)))

    worker()
    (turn,) = on.captured.trace.turns
    assert (turn.agent, turn.tokens, turn.finish_reason) == ("worker", 10, "tool_calls")
    found = read_turn(on.store(), turn.content_ref)
    call = {"type": "tool_call", "id": "c", "name": "look", "arguments": {"q": 1}}
    said = {"role": "assistant", "parts": [{"type": "text", "content": "me"}, call]}
    assert found.completion == (said,)
    assert found.parameters == {"temperature": 0, "top_k": 4}
    assert found.tools[0]["parameters"] == {"a": 1}
    assert (found.tokens.ids, found.tokens.logprobs) == ((5,), (-0.5,))
    assert (found.response_id, found.response_model, found.provider) == ("r1", "answered", "vllm")


def test_a_label_that_breaks_off_in_an_emoji_costs_no_content(turn_on: Callable[..., Any]) -> None:
    """What a server calls its model, its answer or why that ended; the half is replaced."""
    on = turn_on()
    half = "x\ud83d"

    @orchtrace.agent
    def worker() -> None:
        with ask(half, MESSAGES, provider=half) as asked:
            asked.answered({**answer(finish_reason=half), "id": half, "model": half})

    worker()
    found = read_turn(on.store(), on.captured.trace.turns[0].content_ref)
    assert found.completion[0]["parts"][0]["content"] == "me"
    labels = (found.model, found.response_model, found.response_id, *found.finish_reasons)
    assert set(labels) == {"x?"}


def test_an_answer_is_read_again_as_its_librarys_object(turn_on: Callable[..., Any]) -> None:
    """`messages.append(response.choices[0].message)`: what was written, calls of tools too."""
    on = turn_on()

    @orchtrace.agent
    def worker() -> None:
        response = as_objects(answer())
        messages: list[Any] = [*MESSAGES]
        for _ in range(2):
            with ask("asked", messages) as asked:
                asked.answered(response)
            messages.append(response.choices[0].message)

    worker()
    first, second = (read_turn(on.store(), turn.content_ref) for turn in on.captured.trace.turns)
    assert second.prompt[1:] == first.completion
    assert second.prompt_refs[1:] == first.completion_refs


@pytest.mark.parametrize("is_whole", [True, False], ids=["calls", "their functions"])
def test_calls_of_tools_may_be_put_back_as_the_librarys_objects(
    turn_on: Callable[..., Any], *, is_whole: bool
) -> None:
    """In a message that the host makes itself, as OpenAI's clients take it."""
    on = turn_on()
    calls = answer()["choices"][0]["message"]["tool_calls"]
    function = as_objects(calls[0]["function"])
    held = as_objects(calls) if is_whole else [{**calls[0], "function": function}]
    message = {"role": "assistant", "content": "me", "tool_calls": held}

    @orchtrace.agent
    def worker() -> None:
        with ask("asked", [*MESSAGES, message]) as asked:
            asked.answered(answer())

    worker()
    (turn,) = on.captured.trace.turns
    found = read_turn(on.store(), turn.content_ref)
    assert found.prompt_refs[1:] == found.completion_refs


@pytest.mark.parametrize("kind", [dict, as_objects], ids=["mapping", "object"])
@pytest.mark.parametrize(
    ("said", "part"),
    [
        (
            {"function_call": {"name": "look", "arguments": '{"q": 1}'}},
            {"type": "tool_call", "id": None, "name": "look", "arguments": {"q": 1}},
        ),
        (
            {"tool_calls": [CUSTOM]},
            {"type": "generic", "content": CUSTOM},
        ),
        ({"refusal": "I must not."}, {"type": "generic", "content": {"refusal": "I must not."}}),
    ],
    ids=["function", "custom", "refusal"],
)
def test_what_is_said_in_other_words_is_no_empty_message(
    turn_on: Callable[..., Any], kind: Any, said: dict[str, Any], part: dict[str, Any]
) -> None:
    """An older call of a function, a tool that takes any text, a refusal; and read again."""
    on = turn_on()
    message = kind({"role": "assistant", "content": None, **said})

    @orchtrace.agent
    def worker() -> None:
        with ask("asked", [*MESSAGES, message]) as asked:
            asked.answered({"choices": [{"message": message}]})

    worker()
    (turn,) = on.captured.trace.turns
    found = read_turn(on.store(), turn.content_ref)
    assert found.completion == ({"role": "assistant", "parts": [part]},)
    assert found.prompt_refs[1:] == found.completion_refs


def test_messages_of_others_may_be_the_librarys_objects(turn_on: Callable[..., Any]) -> None:
    """What a user says, what a tool answers; what has no words of that kind is left as it is."""
    on = turn_on()
    said = [
        {"role": "user", "content": "who?", "name": "ann"},
        {"role": "tool", "content": "me", "tool_call_id": "c"},
        {"role": "user", "parts": [{"text": "who?"}]},
    ]

    @orchtrace.agent
    def worker() -> None:
        for kind in (as_objects, list):
            with ask("asked", kind(said)) as asked:
                asked.answered(answer())

    worker()
    first, second = (read_turn(on.store(), turn.content_ref) for turn in on.captured.trace.turns)
    assert first.prompt[:2] == second.prompt[:2]
    assert [one.prompt[2]["parts"][0]["type"] for one in (first, second)] == ["generic"] * 2


def test_a_turn_says_its_id_so_that_it_can_be_rewarded() -> None:
    """In the block and after it, with content off; outside a run there is no turn."""

    @orchtrace.agent
    def worker() -> None:
        with ask("m", MESSAGES) as first:
            orchtrace.record_reward("right", 1.0, event_id=first.turn_id)
            first.answered(answer())
        with ask("m", MESSAGES) as second:
            second.answered(answer())
        orchtrace.record_reward("right", 0.0, event_id=second.turn_id)

    with ask("m", MESSAGES) as outside:
        assert outside.turn_id is None
    with capture() as captured:
        worker()
    first, second = captured.trace.turns
    found = {one.target: one.value for one in captured.trace.reward_records if one.unit == "turn"}
    assert found == {first.id: 1.0, second.id: 0.0}
    assert "reward_targets_unknown" not in captured.trace.flags


def test_reasoning_is_kept_or_said_to_be_dropped(turn_on: Callable[..., Any]) -> None:
    """Where the server gives it, where it only counts it, and where nothing says so."""
    on = turn_on()
    kept, dropped, none = answer(), answer(), answer()
    kept["choices"][0]["message"]["reasoning_content"] = "because"
    dropped["usage"]["completion_tokens_details"] = {"reasoning_tokens": 9}

    @orchtrace.agent
    def worker() -> None:
        for one in (kept, dropped, none):
            with ask("m", MESSAGES) as asked:
                asked.answered(one)

    worker()
    store = on.store()
    found = [read_turn(store, turn.content_ref) for turn in on.captured.trace.turns]
    assert [turn.reasoning for turn in found] == ["kept", "dropped", "none"]
    assert found[0].completion[0]["parts"][0] == {"type": "reasoning", "content": "because"}


def test_a_call_that_another_instrumentation_sees_too_counts_once() -> None:
    """Its span lies inside ours."""

    @orchtrace.agent
    def worker() -> str:
        with ask("scripted", MESSAGES):
            return ScriptedModel("yes").ask("who?")

    with capture() as captured:
        assert worker() == "yes"
    (turn,) = captured.trace.turns
    assert (turn.tokens, captured.trace.costs["tokens"]) == (10, 10)


def test_a_call_that_fails_is_a_failed_turn(turn_on: Callable[..., Any]) -> None:
    """The host's exception passes; the prompt is kept."""
    on = turn_on()
    error = ConnectionError("down")

    @orchtrace.agent
    def worker() -> None:
        with ask("m", MESSAGES):
            raise error

    with pytest.raises(ConnectionError) as caught:
        worker()
    assert caught.value is error
    (turn,) = on.captured.trace.turns
    assert turn.status == "error"
    assert len(read_turn(on.store(), turn.content_ref).prompt) == 1


@pytest.mark.parametrize("tools", [None, [], ()])
def test_a_call_without_tools_is_captured_however_it_says_so(
    turn_on: Callable[..., Any], tools: Any
) -> None:
    """None is what a request without tools holds: it cost the content of the call."""
    on = turn_on()

    @orchtrace.agent
    def worker() -> None:
        with ask("m", MESSAGES, tools=tools, parameters=None) as asked:
            asked.answered(answer())

    worker()
    (turn,) = on.captured.trace.turns
    found = read_turn(on.store(), turn.content_ref)
    assert (found.prompt[0]["parts"], found.tools) == ([{"type": "text", "content": "who?"}], ())


@pytest.mark.swallows_errors
@pytest.mark.parametrize(
    "request_", [{"messages": None}, {"tools": 3}, {"parameters": 3}, {"messages": 3}]
)
def test_what_cannot_be_captured_costs_no_more_than_content(
    turn_on: Callable[..., Any], request_: dict[str, Any]
) -> None:
    """The turn is current in the block, and counts with what its answer says."""
    on = turn_on()
    asked_for = {"messages": MESSAGES, **request_}

    @orchtrace.agent
    def worker() -> tuple[int, str | None]:
        with ask("m", **asked_for) as asked:
            current = otel.get_current_span().get_span_context().span_id
            asked.answered(answer())
        return current, asked.turn_id

    current, turn_id = worker()
    (turn,) = on.captured.trace.turns
    assert f"{current:016x}" == turn_id == turn.id
    assert (turn.tokens, turn.content_ref) == (10, None)


def test_a_prompt_that_is_no_list_of_messages_is_told_of(
    turn_on: Callable[..., Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text was taken for as many messages as it has letters."""
    monkeypatch.setattr("orchtrace_otel._guard._told", set())
    on = turn_on()

    @orchtrace.agent
    def worker() -> None:
        with ask("m", "who?") as asked:
            asked.answered(answer())

    worker()
    (turn,) = on.captured.trace.turns
    assert (turn.tokens, turn.content_ref) == (10, None)
    assert caplog.messages == [
        "ask() needs messages as a list of dicts with role and content, got a str; "
        "the content of the call is not captured"
    ]


def test_outside_a_run_and_while_content_is_off_nothing_is_looked_at() -> None:
    """Messages are not even iterated over."""

    def untouched() -> Any:
        yield from ()
        raise AssertionError

    with ask("m", untouched()) as asked:
        asked.answered(None)
    before = otel.get_current_span()

    @orchtrace.agent
    def worker() -> None:
        with ask("m", untouched()) as asked:
            asked.answered({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})

    with capture() as captured:
        worker()
    assert otel.get_current_span() is before
    assert captured.trace.costs["tokens"] == 3


def test_the_scripted_model_tells_what_it_was_asked(turn_on: Callable[..., Any]) -> None:
    """Where content is on its calls are turns with content, and count once."""
    on = turn_on()
    model = ScriptedModel("yes", "no")

    @orchtrace.agent
    def worker() -> list[str]:
        return [model.ask("right?"), model.ask("wrong?")]

    assert worker() == ["yes", "no"]
    store = on.store()
    found = [read_turn(store, turn.content_ref) for turn in on.captured.trace.turns]
    assert [turn.completion[0]["parts"][0]["content"] for turn in found] == ["yes", "no"]
    assert on.captured.trace.costs["tokens"] == 20
