"""Trace, Event, Edge, Turn and Reward as plain values."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from orchtrace_otel import model, schema
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.model import Edge, Event, Reward, Trace, Turn, read_json


def document(**keys: Any) -> dict[str, Any]:
    """A small trace as the schema writes it."""
    return {
        "trace_id": "r",
        "task_id": "q",
        "system": "python",
        "events": [
            {"id": "a", "t": 0, "type": "message", "agent": "user", "verb": "begin", "to": "lead"},
            {"id": "z", "t": 1.5, "type": "orchestrator_decision", "agent": "lead", "verb": "stop"},
        ],
        "edges": [{"src": "a", "dst": "z", "type": "causal"}],
        "rewards": {"correctness": 1},
        "costs": {"tokens": 3, "wall_clock_s": 1.5},
        **keys,
    }


def test_a_trace_is_read_whole() -> None:
    """Every part of a document has its place in the trace."""
    trace = Trace.from_dict(document(topology="mixed", metrics={"work_s": 1.5}))
    assert trace == Trace(
        trace_id="r",
        task_id="q",
        events=(
            Event("a", 0, "message", "user", {"verb": "begin", "to": "lead"}),
            Event("z", 1.5, "orchestrator_decision", "lead", {"verb": "stop"}),
        ),
        edges=(Edge("a", "z", "causal"),),
        rewards={"correctness": 1},
        costs={"tokens": 3, "wall_clock_s": 1.5},
        system="python",
        topology="mixed",
        metrics={"work_s": 1.5},
    )


def test_what_a_document_does_not_have_is_not_written() -> None:
    """Optional keys stay away, and an empty object stays an empty object."""
    bare = document()
    del bare["system"]
    assert Trace.from_dict(bare).to_dict() == bare
    empty = document(metrics={}, system="")
    assert Trace.from_dict(empty).to_dict() == empty


def test_reading_leaves_the_document_alone() -> None:
    """A trace shares no mapping with the document it was read from, and takes none from it."""
    source = document(metrics={"m": 1})
    before = json.dumps(source)
    trace = Trace.from_dict(source)
    assert json.dumps(source) == before
    source["rewards"]["later"] = 2
    source["metrics"]["later"] = 2
    source["events"][0]["later"] = 2
    assert trace == Trace.from_json(before)


def test_values_cannot_be_changed() -> None:
    """Traces and their parts are frozen and have no room for further attributes."""
    trace = Trace.from_dict(document())
    for value in (
        trace,
        trace.events[0],
        trace.edges[0],
        Turn(id="t"),
        Reward(id="r", component="c", value=1.0),
    ):
        assert not hasattr(value, "__dict__")
        field = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field, "other")


def test_an_event_reads_its_open_keys() -> None:
    """Keys beyond the four are read by name; what is absent is None or the default."""
    event = Event("e", 0, "spawn", "a", {"to": "b"})
    assert (event["to"], event.get("to"), event.get("x"), event.get("x", 1)) == ("b", "b", None, 1)
    with pytest.raises(KeyError):
        event["x"]


@pytest.mark.parametrize(("keys", "verb"), [({}, "spawn"), ({"verb": "delegate"}, "delegate")])
def test_the_verb_of_a_foreign_event_is_its_type(keys: dict[str, str], verb: str) -> None:
    """What has no verb of ours is called by the schema's word."""
    assert Event("e", 0, "spawn", "a", keys).verb == verb


def test_the_stop_is_the_last_event() -> None:
    """A stop elsewhere, or none, leaves the run open, with no turns, rewards or flags."""
    trace = Trace.from_dict(document())
    assert trace.stop is trace.events[-1]
    running = dataclasses.replace(trace, events=trace.events[:1])
    assert (running.stop, running.turns, running.reward_records, running.flags) == (
        None,
        (),
        (),
        (),
    )
    assert dataclasses.replace(trace, events=()).stop is None


@pytest.mark.parametrize(
    ("kind", "keys", "is_stop"),
    [
        ("orchestrator_decision", {"decision": "stop"}, True),
        ("orchestrator_decision", {"stop_reason": "quality_met"}, True),
        ("orchestrator_decision", {"decision": "delegate"}, False),
        ("message", {"decision": "stop", "stop_reason": "quality_met"}, False),
    ],
)
def test_others_stop_by_a_decision_or_a_reason(
    kind: str, keys: dict[str, str], is_stop: bool
) -> None:
    """They know no verbs, and such an event holds flags and records as ours does."""
    last = Event("e", 1, kind, "lead", keys)
    assert Trace("run", "task", (last,)).stop == (last if is_stop else None)


def test_turns_and_rewards_are_read_from_the_stop() -> None:
    """The records of the stop come as values, and what they do not know stays out."""
    turn = Turn(id="t", input_tokens=2, output_tokens=3)
    reward = Reward(id="r1", component="correctness", value=1.0)
    source = document()
    source["events"][-1] |= {
        "turn_records": [turn.to_dict() | {"of_later_versions": 1}],
        "reward_records": [reward.to_dict()],
        "flags": ["late"],
    }
    trace = Trace.from_dict(source)
    assert (trace.turns, trace.reward_records, trace.flags) == ((turn,), (reward,), ("late",))
    assert trace.to_dict() == source


def test_turns_are_read_where_they_are_turns() -> None:
    """Counts may be numbers of a language without whole ones; what has no id is no turn."""
    records = [
        {"id": "a", "agent": "w", "input_tokens": 120.0, "output_tokens": 3},
        {"agent": "w"},
        {"id": "b", "agent": ["w"]},
        {"id": "c", "input_tokens": "many"},
    ]
    stop = Event("s", 1, "orchestrator_decision", "a", {"verb": "stop", "turn_records": records})
    (turn,) = Trace("r", "q", (stop,)).turns
    assert (turn.id, turn.tokens) == ("a", 123)


def test_a_record_says_only_what_is_known() -> None:
    """Unknown is absent, never null or 0; what is False or 0 is known."""
    assert Turn(id="t", input_tokens=0).to_dict() == {"id": "t", "input_tokens": 0}
    assert Reward(id="r", component="c", value=0.0).to_dict() == {
        "id": "r",
        "component": "c",
        "value": 0.0,
        "family": "R1",
        "unit": "team",
        "estimator": "outcome",
        "provisional": False,
    }


@pytest.mark.parametrize(
    ("read", "written", "tokens"), [(2, 3, 5), (0, 0, 0), (None, 3, None), (2, None, None)]
)
def test_tokens_of_a_turn_are_known_only_whole(
    read: int | None, written: int | None, tokens: int | None
) -> None:
    """Half a usage is no usage."""
    assert Turn(id="t", input_tokens=read, output_tokens=written).tokens == tokens


def test_every_verb_has_a_type_of_the_schema() -> None:
    """What we write by a verb, others can read by its type."""
    assert {kind for kind, _ in model.VERBS.values()} == set(model.EVENT_TYPES)
    assert {decision for _, decision in model.VERBS.values()} == {
        None,
        "O1",
        "O2",
        "O3",
        "O4",
        "O5",
    }


def test_json_of_a_trace_is_compact_and_keeps_letters() -> None:
    """Text is written as it is where UTF-8 can hold it."""
    text = Trace.from_dict(document(task_id="façade")).to_json()
    assert text.startswith('{"trace_id":"r","task_id":"façade","system":"python","events":[{"id":')


def test_json_of_half_a_surrogate_pair_is_escaped() -> None:
    """Text that UTF-8 cannot hold can still be written to a file, and read again."""
    trace = Trace.from_dict(document(task_id="\ud800"))
    assert Trace.from_json(trace.to_json().encode()) == trace


def test_numbers_that_json_has_no_word_for_are_not_written() -> None:
    """NaN and Infinity are no JSON, so to_json refuses them."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        Trace.from_dict(document(rewards={"x": math.nan})).to_json()


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_numbers_that_json_has_no_word_for_are_not_read(literal: str) -> None:
    """What could not be written again is not read."""
    with pytest.raises(ValueError, match=f"must be finite and fit a double, came {literal}"):
        read_json(f"[{literal}]")


def test_json_is_read_with_a_byte_order_mark() -> None:
    """Some editors put one; it is no part of the document."""
    assert read_json("\ufeff1") == read_json(b"\xef\xbb\xbf1") == 1


def test_bytes_are_utf_8() -> None:
    """Surrogates as bytes are no UTF-8, though Python's own reader takes them."""
    with pytest.raises(UnicodeDecodeError):
        read_json(b'"\xed\xa0\x80"')


def test_the_last_of_two_equal_keys_counts() -> None:
    """As in every common reader of JSON."""
    assert read_json('{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize("given", [5, None, [], {"trace_id": "r"}])
@pytest.mark.parametrize("read", [Trace.from_json, schema.load])
def test_what_is_no_text_is_refused_in_words(read: Any, given: Any) -> None:
    """Such as a document that was read already."""
    kind = type(given).__name__
    with pytest.raises(TraceFormatError, match=f"a {kind} is no text; Trace.from_dict takes"):
        read(given)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[", "must be a JSON document, came one that cannot be read: Expecting value"),
        ("{}", r"of another shape \(KeyError: 'trace_id'\)"),
        ("[]", r"of another shape \(AttributeError"),
        ('{"trace_id": "r", "task_id": "q", "events": [1], "edges": []}', "of another shape"),
    ],
)
def test_a_text_that_is_no_trace_is_refused_in_words(text: str, says: str) -> None:
    """The error is ours, says what must hold and what came, and where more is said."""
    with pytest.raises(TraceFormatError, match=says):
        Trace.from_json(text)
