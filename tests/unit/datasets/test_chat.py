"""Messages of the GenAI conventions as chat messages: nothing is said twice, nothing is lost."""

from __future__ import annotations

import doctest
import json
import pkgutil
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orchtrace_datasets
import orchtrace_otel.datasets
import orchtrace_otel.tables
from orchtrace_otel.content.messages import of_chat
from orchtrace_otel.datasets.chat import chat, is_chat, tool_schemas

Json = dict[str, Any]
MODULES = sorted(
    f"{package.__name__}.{module.name}"
    for package in (orchtrace_otel.datasets, orchtrace_otel.tables, orchtrace_datasets)
    for module in pkgutil.iter_modules(package.__path__)
)


def test_a_message_keeps_its_words_calls_thoughts_and_name() -> None:
    """Arguments are JSON text, as OpenAI's API has them."""
    parts = [
        {"type": "reasoning", "content": "hm"},
        {"type": "text", "content": "I look "},
        {"type": "text", "content": "it up."},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"what": "tide"}},
        {"type": "tool_call", "id": "c2", "name": "look", "arguments": '{"what": "moon"}'},
    ]
    assert chat([{"role": "assistant", "parts": parts, "name": "scout"}]) == [
        {
            "role": "assistant",
            "content": "I look it up.",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"what": "tide"}'},
                },
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"what": "moon"}'},
                },
            ],
            "reasoning_content": "hm",
            "name": "scout",
        }
    ]


def test_several_results_of_one_message_are_messages_of_their_own() -> None:
    """Each answers its call; a result that is no text becomes JSON text."""
    parts = [
        {"type": "tool_call_response", "id": "c1", "response": "3 m"},
        {"type": "tool_call_response", "id": "c2", "response": {"phase": "full"}},
    ]
    assert chat([{"role": "tool", "parts": parts}]) == [
        {"role": "tool", "content": "3 m", "tool_call_id": "c1"},
        {"role": "tool", "content": '{"phase": "full"}', "tool_call_id": "c2"},
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"role": "user", "content": [{"type": "input_text", "text": "How high?"}]},
            {"role": "user", "content": "How high?"},
        ),
        (
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [{"type": "text", "text": "3 "}, {"type": "text", "text": "m"}],
                    }
                ],
            },
            {"role": "tool", "content": "3 m", "tool_call_id": "c1"},
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "3 m"}]},
            {"role": "tool", "content": "3 m", "tool_call_id": "c1"},
        ),
        (
            {"role": "function", "name": "look", "content": "3 m"},
            {"role": "tool", "content": "3 m"},
        ),
        (
            {"role": "assistant", "function_call": {"name": "look", "arguments": "{}"}},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"type": "function", "function": {"name": "look", "arguments": "{}"}}
                ],
            },
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {"type": "output_text", "text": "3 m"},
                ],
            },
            {"role": "assistant", "content": "3 m", "reasoning_content": "hm"},
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "id": "kept to itself", "summary": []},
                    {"type": "text", "text": "3 m"},
                ],
            },
            {"role": "assistant", "content": "3 m"},
        ),
    ],
    ids=["words", "result", "result of blocks", "function", "its call", "thought", "no thought"],
)
def test_what_blocks_of_providers_say_comes_through(given: Json, said: Json) -> None:
    """Results and words that a message's content holds in blocks, thoughts, older calls."""
    message = of_chat(given)
    assert chat([message]) == [said]
    assert is_chat(message)


@pytest.mark.parametrize(
    "given",
    [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://h/"}}]},
        {"role": "user", "content": [{"type": "something new", "words": "x"}]},
        {"role": "user", "content": {"words": "x"}},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "image", "url": "https://h/"}]},
    ],
    ids=["image", "unknown block", "no text", "image as a result"],
)
def test_what_chat_messages_cannot_say_is_told(given: Json) -> None:
    """It would be left out, and the answer would be one to something else."""
    assert not is_chat(of_chat(given))


def test_thoughts_can_be_left_out() -> None:
    """The rest of the message stays."""
    parts = [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "yes"}]
    said = chat([{"role": "assistant", "parts": parts}], reasoning=False)
    assert said == [{"role": "assistant", "content": "yes"}]


_parts = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "content": st.text()}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "content": st.text()}),
    st.fixed_dictionaries(
        {
            "type": st.just("tool_call"),
            "id": st.text(),
            "name": st.text(),
            "arguments": st.dictionaries(st.text(), st.integers(0, 9)),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_call_response"), "id": st.text(), "response": st.text()}
    ),
)


@given(st.lists(_parts, max_size=5))
def test_every_text_call_and_result_comes_through_once(parts) -> None:
    """Whatever a message is made of."""
    said = chat([{"role": "assistant", "parts": parts}])
    of = {kind: [part for part in parts if part["type"] == kind] for kind in ("text", "tool_call")}
    results = [part for part in parts if part["type"] == "tool_call_response"]
    own = [one for one in said if one["role"] == "assistant"]
    assert "".join(one["content"] for one in own) == "".join(one["content"] for one in of["text"])
    calls = [call for one in own for call in one.get("tool_calls", ())]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [
        part["arguments"] for part in of["tool_call"]
    ]
    answered = [(one["tool_call_id"], one["content"]) for one in said if one["role"] == "tool"]
    assert answered == [(part["id"], part["response"]) for part in results]


def test_tools_have_the_shape_of_openais_api() -> None:
    """All that is known of a tool is in its function."""
    tool = {
        "type": "function",
        "name": "look",
        "description": "d",
        "parameters": {"type": "object"},
    }
    assert tool_schemas([tool]) == [
        {
            "type": "function",
            "function": {"name": "look", "description": "d", "parameters": {"type": "object"}},
        }
    ]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_say_what_the_code_does(name: str) -> None:
    """Each example of the tables, the data sets and the formats runs."""
    assert doctest.testmod(import_module(name)).failed == 0
