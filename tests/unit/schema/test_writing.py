"""What can be written as JSON, and what is refused rather than changed."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from orchtrace_otel import schema
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.model import Event, Trace
from tests.unit.schema.documents import document, event


def trace(**keys: Any) -> Trace:
    """A trace whose one event has the given keys."""
    return Trace(
        "r", "q", (Event("e", 0, "spawn", "a", keys),), costs={"tokens": 0, "wall_clock_s": 0}
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"x": math.nan}, "$.events[0].x must be finite, came nan; leave out what is not known"),
        ({"x": [1, {"y": -math.inf}]}, "$.events[0].x[1].y must be finite, came -inf"),
        ({"x": math.nan, "y": 2**64}, "$.events[0].x must be finite, came nan"),
        ({"x": {1: 2}}, "$.events[0].x must have strings as keys, came 1"),
        ({"x": {1}}, "$.events[0].x must be a value of JSON, came a set"),
        (
            {"x": datetime(2026, 1, 1, tzinfo=UTC)},
            "$.events[0].x must be a value of JSON, came a datetime",
        ),
        ({"x": Event("e", 0, "spawn", "a")}, "$.events[0].x must be a value of JSON, came a Event"),
    ],
)
def test_what_json_has_no_word_for_is_not_written(keys: dict[str, Any], said: str) -> None:
    """A value that would be lost or changed is refused, and its place is named."""
    with pytest.raises(TraceFormatError) as raised:
        schema.dump(trace(**keys))
    assert str(raised.value).startswith(said)


def test_a_circle_is_not_written() -> None:
    """What holds itself has no end in JSON."""
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(TraceFormatError, match="must hold JSON only, came: Circular reference"):
        schema.dump(trace(x=circle))


def test_a_null_and_the_word_are_written() -> None:
    """Only numbers that are none are refused; null is a value, and a text may hold the word."""
    assert json.loads(schema.dump(trace(x=None, y="null")))["events"][0]["x"] is None


@pytest.mark.parametrize(
    "value",
    [2**64, -(2**63) - 1, "\ud800", [[["\udc00"]]], ("a", 1), 1.0, -0.0, 5e-324, "\u2028\n"],
)
def test_what_can_be_read_can_be_written(value: object) -> None:
    """Where orjson stops the standard library goes on; the text is one line of UTF-8."""
    text = schema.dump(trace(x=value))
    assert b"\n" not in text
    read = schema.load(text).events[0]["x"]
    assert repr(read) == repr(list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30])
@pytest.mark.parametrize("before", ["", " ", "\n", "\t", "\r", "[", "[1,", '{"a":', "[ ", "[1, "])
def test_whole_numbers_stay_exact_wherever_they_stand(number: int, before: str) -> None:
    """Of 19 digits, 20 or more, after whatever a number may follow."""
    value = before + str(number) + {"[": "]", "{": "}"}.get(before[:1], "")
    text = json.dumps(document(event(x="HERE", id=f"{10**31}"))).replace('"HERE"', value)
    assert schema.load(text).events[0]["x"] == json.loads(value)


def nested(depth: int) -> str:
    """JSON text of a document with arrays that deep."""
    text = json.dumps(document(event(x="HERE")))
    return text.replace('"HERE"', "[" * depth + "]" * depth)


def test_deep_documents_are_read_and_written() -> None:
    """Deeper than orjson writes, as long as Python itself can follow."""
    text = nested(400)
    assert json.loads(schema.dump(schema.load(text))) == json.loads(text)
    assert schema.check(json.loads(text)) == []


def test_what_is_too_deep_is_said_to_be() -> None:
    """Beyond Python's limit there is an error of ours, not a RecursionError."""
    with pytest.raises(TraceFormatError, match="must be a JSON document, came one nested deeper"):
        schema.load(nested(200_000))
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(TraceFormatError, match="must not be nested as deep"):
        schema.dump(trace(x=deep))
