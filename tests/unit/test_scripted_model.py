"""The scripted model counts as a provider's client would."""

import asyncio

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel.testing import strict
from orchtrace_otel.testing.models import Answer, ScriptedModel


def test_each_call_is_a_turn_of_the_agent_that_asks() -> None:
    """Turns, tokens, model and finish reason come from the model's own spans."""
    model = ScriptedModel("one", Answer("two", 20, 5, "length"), name="tiny")

    @orchtrace.agent("writer")
    async def write() -> list[str]:
        return [model.ask("a"), await model.aask("b")]

    with strict() as captured:
        assert asyncio.run(write()) == ["one", "two"]
    turns = captured.trace.turns
    assert [(t.agent, t.model, t.tokens, t.finish_reason) for t in turns] == [
        ("writer", "tiny", 10, "stop"),
        ("writer", "tiny", 25, "length"),
    ]
    assert captured.trace.costs["tokens"] == 35
    assert model.prompts == ["a", "b"]


def test_usage_may_be_unknown() -> None:
    """A turn without usage is counted as one, and its tokens are not made up."""
    model = ScriptedModel(Answer("one", None, None))
    with strict() as captured:
        orchtrace.agent(model.ask, name="writer")("a")
    assert [turn.tokens for turn in captured.trace.turns] == [None]
    assert captured.trace.metrics["turns_without_usage"] == 1


def test_a_script_that_is_over_says_so() -> None:
    """The call beyond the last answer raises, with its number."""
    with pytest.raises(LookupError, match="an answer for call 1, got none"):
        ScriptedModel().ask("a")
