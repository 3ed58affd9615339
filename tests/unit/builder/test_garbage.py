"""Whatever others send under our keys, a trace is built that is sound and flagged."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel import attributes as a
from orchtrace_otel import schema
from orchtrace_otel.builder import SpanRecord
from orchtrace_otel.model import Reward
from tests.given import given_rewards
from tests.unit.builder.small_runs import (
    activation,
    built,
    keys,
    point,
    root,
    sound,
    span,
    span_id,
    stop,
)

GARBAGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.sampled_from(
        ["causal:", f"causal:{span_id(1)}.open", '[{"id": 1}]', '[{"value": NaN}]', "[1]", "{}"]
    ),
    st.lists(
        st.one_of(st.none(), st.integers(), st.text(max_size=3), st.binary(max_size=3)), max_size=3
    ).map(tuple),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
OURS = st.sampled_from(
    sorted(value for name, value in vars(a).items() if name.isupper() and isinstance(value, str))
)


@given(
    st.lists(
        st.builds(
            span,
            st.integers(1, 6),
            st.one_of(st.none(), st.integers(1, 7)),
            st.integers(0, 30),
            st.integers(0, 30),
            st.dictionaries(OURS, GARBAGE, max_size=12),
        ),
        max_size=8,
    )
)
def test_nothing_that_others_send_makes_the_builder_raise(records: list[SpanRecord]) -> None:
    """Wrong types anywhere give a trace that the schema accepts, the same in any order."""
    built(*records)
    built(root(), *records, stop())


@pytest.mark.parametrize(
    "found",
    [
        {a.EDGES: "spawn:x"},
        {a.EDGES: (1, None)},
        {a.EDGES: (b"spawn:x",)},
        {a.EDGES: (f"friendship:{span_id(1)}.open",)},
        {a.EDGES_CLOSE: {"a": 1}},
        {a.OPENS: "explode"},
        {a.OPENS: 1},
        {a.ATTEMPT: "first"},
        {a.ATTEMPT: True},
        {a.STOP_PROBABILITY: True},
        {a.STOP_PROBABILITY: float("nan")},
        {a.STOP_PROBABILITY: float("-inf")},
        {a.RUN_LINKS: "abc"},
    ],
)
def test_attributes_of_ours_that_hold_something_else_are_flagged(found: dict[str, Any]) -> None:
    """What cannot be read is left out and told."""
    one = sound(root(), activation(2, **found), stop())
    assert one.flags == ("garbled",)
    assert len(one.events) == 4


@pytest.mark.parametrize("chance", [float("nan"), float("inf"), True, "0.5"])
def test_a_chance_that_is_no_number_costs_itself_alone(chance: Any) -> None:
    """JSON has no word for NaN: with it in an event, no exporter could write the run."""
    one = sound(root(), point(2, "decide", **{a.PROBABILITY: chance}), stop())
    assert "behavior_prob" not in keys(one, span_id(2))
    assert one.flags == ("garbled",)
    assert schema.load(schema.dump(one)) == one


@pytest.mark.parametrize("text", ["[", "{}", "[1]", '[{"id": "a"}]', 7, '[{"value": 1}]'])
def test_rewards_that_cannot_be_read_are_flagged(text: Any) -> None:
    """A limit on the length of values may have cut them: no reward, and the trace says so."""
    one = sound(root(**{a.REWARD_RECORDS: text}), stop())
    assert given_rewards(one) == {}
    assert (one.flags == ("rewards_unreadable",)) == (text != "{}")


@pytest.mark.parametrize(
    ("target", "flags"),
    [
        (None, ()),
        (f"{span_id(2)}.close", ()),
        ("critic", ()),
        ("critic#1", ()),
        ("nobody", ("reward_targets_unknown",)),
    ],
)
def test_a_reward_for_what_the_run_does_not_have_is_flagged(
    target: str | None, flags: tuple[str, ...]
) -> None:
    """A verdict that names no event, turn, agent or role of the run joins to nothing."""
    given = Reward(id="r", component="style", value=1.0, unit="agent", target=target)
    text = orjson.dumps([given.to_dict()]).decode()
    one = sound(root(**{a.REWARD_RECORDS: text}), activation(2), stop())
    assert one.flags == flags
    assert given in one.reward_records
