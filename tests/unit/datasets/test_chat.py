"""Messages of the GenAI conventions as chat messages: nothing is said twice, nothing is lost."""

from __future__ import annotations

import doctest
import json
import pkgutil
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orchtrace_datasets
import orchtrace_otel.datasets
import orchtrace_otel.tables
from orchtrace_otel.datasets.chat import chat, tool_schemas

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
                    "function": {"name": "look", "arguments": '{"what":"tide"}'},
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
        {"role": "tool", "content": '{"phase":"full"}', "tool_call_id": "c2"},
    ]


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
