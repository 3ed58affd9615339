"""Reading a text: what is no trace says so, and what only we refuse is read."""

from __future__ import annotations

import json

import pytest

from orchtrace_otel import schema
from orchtrace_otel.errors import TraceFormatError
from tests.unit.schema.documents import document, event


def test_a_text_that_is_no_trace_names_its_first_faults() -> None:
    """Three faults are said, and how many more there are."""
    wrong = document(*(event(str(n), -1) for n in range(5)))
    with pytest.raises(TraceFormatError) as raised:
        schema.load(json.dumps(wrong))
    first = [f"$.events[{n}].t must be a number, at least 0, came -1" for n in range(3)]
    assert str(raised.value) == "; ".join(first) + "; and 2 more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": ]', "$ must be a JSON document, came '{\"a\": ]' at column 7 (Expecting value)"),
        ("", "$ must be a JSON document, came '' at column 1 (Expecting value)"),
        ('{"a": NaN}', "$ must be a JSON document, came a number in JSON must be finite"),
        (b"\xff{}", "$ must be a JSON document, came 'utf-8' codec can't decode byte 0xff"),
        pytest.param(
            "9" * 5000, "$ must be a JSON document, came Exceeds the limit (4300", id="long"
        ),
        ("[]", "$ must be an object, came []"),
    ],
)
def test_a_text_that_is_no_json_is_a_trace_format_error(text: str | bytes, said: str) -> None:
    """Whatever the text is, the error is ours and says what came."""
    with pytest.raises(TraceFormatError) as raised:
        schema.load(text)
    assert str(raised.value).startswith(said)


def test_load_takes_what_only_we_refuse() -> None:
    """Traces of others are read: what is no fault of the schema is left to `check`."""
    foreign = document(event("a"), event("a"), edges=("a>x", "a>a"))
    assert schema.load(json.dumps(foreign)).to_dict() == foreign
