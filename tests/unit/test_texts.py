"""Texts that UTF-8 cannot hold, anywhere a host may give one: no exporter stumbles over them."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from orchtrace_otel import otlp
from orchtrace_otel.spans._text import all_writable, is_writable, writable
from tests.trees import recording

HALF = "caf\ud83d"
TEXTS = st.text(st.characters())  # half surrogate pairs among them
INTEGERS = st.integers(-(2**63), 2**63 - 1)  # those of OTLP


@given(TEXTS)
def test_a_text_is_left_as_it_is_or_becomes_one_of_utf_8(text: str) -> None:
    """Pairs become the character that they stand for, halves the replacement character."""
    found = writable(text)
    assert found.encode().decode() == found
    assert (found == text) == is_writable({"text": text})


@given(st.dictionaries(st.text(), st.one_of(TEXTS, INTEGERS, st.lists(TEXTS))))
def test_attributes_are_repaired_where_they_need_it(attributes: dict[str, object]) -> None:
    """Lists too; numbers stay."""
    found = all_writable(attributes)
    assert is_writable(found)
    if is_writable(attributes):
        assert found == attributes


def test_names_and_choices_of_half_a_pair_reach_a_collector(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One such name would lose the whole batch; the trace here and the one from OTLP are equal."""
    caplog.set_level(logging.WARNING)
    look_up = orchtrace.tool(HALF)(lambda: None)
    search = orchtrace.agent(HALF, role=HALF)(look_up)

    @orchtrace.team(HALF, task_id=HALF, tags={"who": HALF})
    def team() -> None:
        orchtrace.decide(HALF, chosen=[HALF], candidates=HALF)
        orchtrace.delegate(HALF)
        search()
        orchtrace.message(HALF)
        orchtrace.stop("quality_met", HALF)

    with recording() as captured:
        team()
    data = encode_spans(captured.spans).SerializeToString()
    [built] = otlp.traces(otlp.read_protobuf(data))
    assert "Failed to encode" not in caplog.text
    assert built.events == captured.trace.events
    assert {event.agent for event in built.events} == {"user", "caf�"}
    assert built.task_id == "caf�"
