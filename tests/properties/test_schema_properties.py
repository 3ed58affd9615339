"""The shipped schema, the published one, two validators and our own checks agree."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import jsonschema_rs
import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orchtrace_otel import _faults, schema
from orchtrace_otel.model import Trace
from tests.properties.strategies import (
    LOCAL_FAULTS,
    Json,
    Planted,
    broken_documents,
    documents,
    json_values,
    near_documents,
    traces,
)

if TYPE_CHECKING:
    from collections.abc import Callable

REFEREE = Path(__file__).resolve().parents[3] / "shared" / "schema" / "trace_schema.json"

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def event(**keys: object) -> dict[str, object]:
    """A document of one event with the given keys."""
    return {
        "trace_id": "r",
        "task_id": "q",
        "events": [{"id": "e", "t": 0, "type": "spawn", "agent": "a", **keys}],
        "edges": [],
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


@cache
def ours() -> jsonschema.Draft202012Validator:
    """The shipped schema under the validator that others are measured by."""
    return jsonschema.Draft202012Validator(schema.trace_schema())


@cache
def referee() -> jsonschema.Draft202012Validator:
    """The published schema, which is kept beside the project, not in it."""
    if not REFEREE.exists():
        pytest.skip(f"the published schema is not at {REFEREE}; nothing to compare with")
    return jsonschema.Draft202012Validator(json.loads(REFEREE.read_text(encoding="utf-8")))


def places(validator: jsonschema.Draft202012Validator, document: object) -> set[str]:
    """Where jsonschema finds faults, in our way of writing a path."""
    found: set[str] = set()
    for error in validator.iter_errors(document):
        path = "$"
        for step in error.absolute_path:
            path = f"{path}[{step}]" if isinstance(step, int) else _faults._step(path, step)
        match error.validator:
            case "required":
                missing = [key for key in error.validator_value if key not in error.instance]
                found |= {_faults._step(path, key) for key in missing}
            case "additionalProperties":
                known = error.schema["properties"]
                found |= {_faults._step(path, key) for key in error.instance if key not in known}
            case _:
                found.add(path)
    return found


@relaxed
@given(near_documents() | json_values())
@example(event(t=True))
@example(event(t=-5e-324))
@example(event(t=-0.0))
@example(event(t=10**400))
@example(event(id=""))
@example(event(trusted=1))
@example(event(**{"\ud800": 1}))
@example({**event(), "metrics": None})
@example({**event(), "rewards": {"\udc00": False}})
def test_the_shipped_schema_accepts_exactly_what_the_published_one_does(document: object) -> None:
    """Both schemas say the same of any document, valid, nearly valid or not at all."""
    assert ours().is_valid(document) == referee().is_valid(document)


@relaxed
@given(documents())
def test_documents_of_the_schema_are_accepted(document: dict[str, object]) -> None:
    """The strategy for documents makes only what both schemas accept."""
    assert ours().is_valid(document)
    assert referee().is_valid(document)


@relaxed
@given(near_documents() | json_values())
@example(event(t=True))
@example(event(t=10**400))
@example(event(t=-(10**400)))
@example(event(agent="\ud800"))
def test_jsonschema_rs_agrees_with_jsonschema(document: object) -> None:
    """The fast validator, where it can look at a document at all, says what the slow one says."""
    try:
        accepted = jsonschema_rs.validator_for(schema.trace_schema()).is_valid(document)
    except ValueError:  # half a surrogate pair as a key
        return
    assert accepted == ours().is_valid(document)


@relaxed
@given(near_documents() | json_values())
@example(event(**{"\ud800": 1}))
@example(event(t=True))
@example({**event(), "edges": [{}]})
def test_faults_are_found_where_jsonschema_finds_them(document: object) -> None:
    """Our reading of the schema names the same places as jsonschema, and all of them."""
    assert {fault.path for fault in _faults.schema_faults(document)} == places(ours(), document)


@relaxed
@given(near_documents() | json_values() | traces().map(Trace.to_dict))
@example(event(**{"\ud800": 1}))
def test_check_says_the_same_without_jsonschema_rs(document: object) -> None:
    """The fast ways through `check` and `is_valid` only save time."""
    slowly = [*_faults.schema_faults(document), *_faults.graph_faults(document)]
    assert schema.check(document) == slowly
    assert schema.is_valid(document) == (not slowly)


@relaxed
@given(traces())
def test_traces_as_we_write_them_are_sound(trace: Trace) -> None:
    """A run with a causal graph in order of time has no fault, and the published schema agrees."""
    assert schema.check(trace.to_dict()) == []
    assert referee().is_valid(trace.to_dict())


@relaxed
@given(broken_documents())
def test_a_planted_fault_is_found_at_its_place(planted: Planted) -> None:
    """Whatever is wrong is reported with its path and with who refuses it."""
    found = {(fault.path, fault.rule) for fault in schema.check(planted.document)}
    assert (planted.path, planted.rule) in found
    assert not schema.is_valid(planted.document)
    accepted = referee().is_valid(planted.document)
    assert accepted == (planted.rule != "schema")


@relaxed
@given(traces(min_events=4), st.permutations(LOCAL_FAULTS))
def test_all_planted_faults_are_found_at_once(
    trace: Trace, plants: list[Callable[[Json, int], tuple[str, str]]]
) -> None:
    """Every fault is reported, not the first alone."""
    document = trace.to_dict()
    planted = {plant(document, at) for at, plant in enumerate(plants[:4])}
    assert planted <= {(fault.path, fault.rule) for fault in schema.check(document)}


@relaxed
@given(documents())
@example(event(x=2**64, y=-(2**63) - 1))
@example(event(x="\ud800"))
@example(event(x=None))
@example(event(x=1.0, y=1, z=-0.0))
@example(event(**{"\udc00": ["\udc00"]}))
def test_what_is_read_is_written_back_equal(document: dict[str, object]) -> None:
    """Reading takes what the schema accepts, keeps what it does not know and adds nothing."""
    text = json.dumps(document)
    trace = schema.load(text)
    assert trace == Trace.from_json(text)
    assert trace.to_dict() == document
    for written in (schema.dump(trace), trace.to_json()):
        again = json.loads(written)
        assert again == document
        assert repr(sorted_keys(again)) == repr(sorted_keys(document))  # 1 is not 1.0 nor True


def sorted_keys(value: object) -> object:
    """A value with its keys in order, so that its repr tells 1 from 1.0 and nothing else."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(item) for item in value] if isinstance(value, list) else value


@relaxed
@given(traces())
def test_dump_writes_the_document_of_to_json(trace: Trace) -> None:
    """Both ways of writing give one document, and it reads back as the same trace."""
    text = schema.dump(trace)
    assert orjson.loads(text) == json.loads(trace.to_json()) == trace.to_dict()
    assert schema.load(text) == trace


@relaxed
@given(st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False))
@example(2**64)
@example(2**64 - 1)
@example(-(2**63) - 1)
@example(9999999999999999999)
@example(1e300)
def test_numbers_are_read_as_they_are(number: float) -> None:
    """An integer stays one to the last digit, whichever reader takes it."""
    read = schema.load(json.dumps(event(x=number))).events[0]["x"]
    assert (type(read), read) == (type(number), number)
