"""Calls of models are turns, and their tokens are in the trace once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from orchtrace_otel import attributes as a
from orchtrace_otel.builder import build
from orchtrace_otel.model import Turn
from tests.unit.builder.small_runs import (
    RUN,
    activation,
    chat,
    keys,
    point,
    root,
    sound,
    span,
    span_id,
    stop,
    usage,
)

TURN = {a.VERB: a.TURN, **usage(1, 2)}


def test_a_turns_tokens_are_on_the_event_that_claims_it_first() -> None:
    """Two tool calls of one turn: the first has the tokens, and the trace has them once."""
    claim = {a.TURNS: (span_id(3),)}
    one = sound(
        root(),
        activation(2),
        chat(3, 2, **usage(5, 7)),
        point(4, "delegate", 2, 13, **claim),
        point(5, "delegate", 2, 14, **claim),
        stop(),
    )
    assert keys(one, span_id(4))["tokens"] == 12
    assert keys(one, span_id(4))["turns"] == [span_id(3)]
    assert "tokens" not in keys(one, span_id(5))
    assert "tokens" not in keys(one, span_id(2) + ".close")
    assert one.costs["tokens"] == 12


def test_a_turn_that_nothing_claims_is_on_the_close_of_its_activation() -> None:
    """And on the stop where that activation is the root; each is written down once."""
    one = sound(
        root(),
        activation(2),
        chat(3, 2, **usage(5, 7), **{a.REQUEST_MODEL: "m", a.FINISH_REASONS: ("stop",)}),
        chat(4, 1, start=16, **usage(1, 1)),
        stop(),
    )
    assert keys(one, span_id(2) + ".close")["tokens"] == 12
    assert keys(one, span_id(99))["tokens"] == 2
    assert [turn.to_dict() for turn in one.turns] == [
        {
            "id": span_id(3),
            "activation": span_id(2),
            "agent": "critic",
            "instance": "critic#1",
            "t": 2.0,
            "duration_s": 1.0,
            "model": "m",
            "input_tokens": 5,
            "output_tokens": 7,
            "finish_reason": "stop",
            "status": "ok",
            "event": span_id(2) + ".close",
        },
        {
            "id": span_id(4),
            "activation": span_id(1),
            "agent": "lead",
            "instance": "lead#1",
            "t": 6.0,
            "duration_s": 1.0,
            "input_tokens": 1,
            "output_tokens": 1,
            "status": "ok",
            "event": span_id(99),
        },
    ]


@pytest.mark.parametrize(
    ("found", "tokens"),
    [({}, None), ({a.INPUT_TOKENS: 5}, 5), (usage(-1, 2**80), None), (usage("5", True), None)],
)
def test_usage_that_is_unknown_is_absent_and_counted(
    found: dict[str, Any], tokens: int | None
) -> None:
    """What the provider did not say is never 0; what it said counts."""
    one = sound(root(), activation(2), chat(3, 2, **found), stop())
    assert keys(one, span_id(2) + ".close").get("tokens") == tokens
    assert one.costs["tokens"] == (tokens or 0)
    assert one.metrics is not None
    assert one.metrics["turns_without_usage"] == 1


def test_whole_numbers_that_came_as_floats_are_counts() -> None:
    """Languages without integers send 5 as 5.0."""
    one = sound(root(), chat(3, **usage(5.0, 7.0)), stop())
    assert one.to_dict()["costs"]["tokens"] == 12
    assert isinstance(one.costs["tokens"], int)


def test_a_turn_that_is_claimed_and_never_came_is_flagged() -> None:
    """Its tokens are unknown, and nothing else would tell that there was a call."""
    one = sound(root(), point(4, "delegate", **{a.TURNS: (span_id(77),)}), stop())
    assert "turns" not in keys(one, span_id(4))
    assert one.flags == ("missing_turns",)


def test_two_instrumentations_of_one_call_are_one_turn() -> None:
    """The outer is the turn; the usage, and the claim, may be known of the inner alone."""
    one = sound(
        root(),
        activation(2),
        chat(3, 2),
        span(4, 3, 12, 13, {}),
        chat(5, 4, **usage(5, 7)),
        point(6, "delegate", 2, 14, **{a.TURNS: (span_id(5),)}),
        stop(),
    )
    assert [turn.id for turn in one.turns] == [span_id(3)]
    assert one.costs["tokens"] == 12
    assert keys(one, span_id(6))["tokens"] == 12


def test_turns_above_each_other_are_one_turn_and_flagged() -> None:
    """Else each would be told by another one, and none be counted."""
    one = sound(root(), chat(2, 3, **TURN), chat(3, 2, **TURN), stop())
    assert [turn.id for turn in one.turns] == [span_id(3)]
    assert one.costs["tokens"] == 3
    assert one.flags == ("cyclic_parents",)


class _Asked(dict[str, Any]):
    """Attributes that count how often they were looked into."""

    times = 0

    def __contains__(self, key: object) -> bool:
        _Asked.times += 1
        return dict.__contains__(self, key)


@pytest.mark.parametrize("found", [{}, TURN])
def test_deep_spans_of_others_are_gone_through_once(
    found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn below each of many nested spans costs no more looks than one below each alone."""

    def looks(depth: int) -> int:
        monkeypatch.setattr(_Asked, "times", 0)
        around = [span(n, max(n - 1, 1), 12, 14, _Asked(found)) for n in range(2, depth + 2)]
        calls = [span(500 + n, n, 12, 13, _Asked(TURN)) for n in range(2, depth + 2)]
        build(RUN, [root(), *around, *calls, stop()])
        return _Asked.times

    assert looks(400) < 2.5 * looks(200)


def test_a_turn_of_an_agent_inside_a_turn_is_its_own() -> None:
    """A model that calls an agent that calls a model made two calls."""
    one = sound(root(), chat(2, **usage(1, 1)), activation(3, 2), chat(4, 3, **usage(2, 2)), stop())
    assert [turn.id for turn in one.turns] == [span_id(2), span_id(4)]


def test_a_model_called_below_a_span_from_outside_is_not_of_the_run() -> None:
    """Inline the host's own request span may be above it; offline nothing leads to the run."""
    assert sound(root(), chat(3, 77, **usage(5, 7)), stop()).turns == ()


def test_a_turn_is_written_down_as_it_is_read() -> None:
    """Every field that its span tells, in the order of `Turn`; what it does not tell is absent."""
    told = {
        a.RESPONSE_MODEL: "large-1",
        a.PROVIDER: "openai",
        a.FINISH_REASONS: ("stop",),
        a.PROMPT_REF: "p",
        a.COMPLETION_REF: "c",
        a.CONTENT_REF: "t",
        a.CAUSALITY: "inferred",
        a.POLICY_VERSION: "7",
    }
    full = sound(root(), chat(3, **usage(5, 7), **told), stop())
    bare = sound(root(), chat(3), stop())
    for trace in (full, bare):
        assert trace.stop is not None
        assert [list(one.to_dict().items()) for one in trace.turns] == [
            list(record.items()) for record in trace.stop["turn_records"]
        ]
    assert None not in {getattr(full.turns[0], field.name) for field in fields(Turn)}
    assert bare.turns[0].prompt_ref is None
