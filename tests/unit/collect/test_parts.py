"""Requests cut by OTel trace: nothing is lost, and each part is a request of its own."""

from __future__ import annotations

import json
import random
import resource
from typing import Any

import orjson
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from orchtrace_otel import otlp
from orchtrace_otel.collect.admission import Bounds, RefusedError
from orchtrace_otel.collect.json_bodies import read_logs, read_traces
from orchtrace_otel.collect.parts import Part, Rejected, cut, field, parts_of
from orchtrace_otel.collect.verdicts import read as read_verdicts
from orchtrace_otel.testing import capture
from tests.collecting import encoded, recorded, refusal, research

BOUNDS = Bounds()


def cut_all(body: bytes) -> list[Part]:
    """Cut a body of which nothing is rejected."""
    rejected = Rejected()
    found = cut(body, BOUNDS, rejected)
    assert (rejected.count, rejected.message) == (0, "")
    return found


def from_json(body: bytes, rejected: Rejected) -> list[Part]:
    """Cut a body in JSON."""
    return cut(read_traces(body, rejected).SerializeToString(), BOUNDS, rejected)


def test_each_part_holds_the_spans_of_one_trace_and_all_together_hold_all() -> None:
    """With the resource and the scope that they came with."""
    traces, spans = recorded(5, random.Random(0))  # noqa: S311
    body = encoded(random.Random(1).sample(spans, len(spans)))  # noqa: S311
    parts = cut_all(body)
    assert {part.trace_id.hex() for part in parts} == {trace.trace_id[:32] for trace in traces}
    for part in parts:
        request = ExportTraceServiceRequest.FromString(part.data)
        (resource,) = request.resource_spans
        (scope,) = resource.scope_spans
        original = ExportTraceServiceRequest.FromString(body).resource_spans[0]
        assert resource.resource == original.resource
        assert scope.scope == original.scope_spans[0].scope
        assert {span.trace_id for span in scope.spans} == {part.trace_id}
        assert len(scope.spans) == len(part.marks)
        assert (
            part.runs
            == part.roots
            == {
                trace.trace_id[33:]
                for trace in traces
                if trace.trace_id.startswith(part.trace_id.hex())
            }
        )
        assert part.has_top
    assert sum(len(part.marks) for part in parts) == len(spans)
    joined = b"".join(part.data for part in parts)
    assert otlp.traces(otlp.read_protobuf(joined)) == sorted(
        traces, key=lambda trace: trace.events[0]["start_unix_nano"]
    )


def flat(request: Any) -> list[Any]:
    """Return each span of a request with what stands around it."""
    return [
        (resource.resource, resource.schema_url, scope.scope, scope.schema_url, span)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_resources_and_scopes_stay_apart() -> None:
    """Two services in one request: each span keeps its own resource, schema and scope."""
    request = ExportTraceServiceRequest()
    for number in (1, 2):
        resource = request.resource_spans.add(schema_url=f"schema:{number}")
        value = resource.resource.attributes.add(key="service.name").value
        value.string_value = f"service {number}"
        for name in ("inner", "outer"):
            scope = resource.scope_spans.add(schema_url=f"scope:{number}")
            scope.scope.name = name
            span = scope.spans.add(trace_id=b"t" * 16, span_id=f"{number}{name}##"[:8].encode())
            span.name = "x" * 300
    (part,) = cut_all(request.SerializeToString())
    assert flat(ExportTraceServiceRequest.FromString(part.data)) == flat(request)


def test_a_resource_is_not_repeated_without_end() -> None:
    """A small request cannot become a huge one by naming a large resource for many traces."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="essay").value.string_value = "x" * 10_000
    spans = resource.scope_spans.add().spans
    for number in range(1, 300):
        spans.add(trace_id=number.to_bytes(16, "big"), span_id=b"s" * 8)
    small = Bounds(request_bytes=1_000_000)
    assert request.ByteSize() < small.request_bytes / 10
    with pytest.raises(RefusedError) as caught:
        cut(request.SerializeToString(), small, Rejected())
    assert caught.value.why == "too_large"
    assert len(cut(request.SerializeToString(), Bounds(), Rejected())) == 299


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_what_is_small_cannot_become_huge_once_it_is_decoded(layer: int) -> None:
    """Two bytes are an empty span, a hundred times as much in memory: they are counted before."""
    empty = {1: b"\x0a\x00", 2: b"\x12\x00", 3: b"\x12\x00"}[layer]
    body = empty * 4_000_000
    for number in (2, 1)[3 - layer :]:
        body = field(number, body)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (cut, read_verdicts):
        assert refusal(lambda read=read: read(body, BOUNDS, Rejected())) == "too_large"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 200 * 1024


def test_a_span_that_is_too_large_is_rejected_before_it_is_decoded() -> None:
    """Alone, whatever it holds; what stands around spans is refused with all of them."""
    ids = {"trace_id": b"t" * 16, "span_id": b"s" * 8}
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.spans.add(**ids)
    sound = scope.SerializeToString()
    rejected = Rejected()
    body = field(1, field(2, field(2, b"\xff" * (BOUNDS.span_bytes + 1)) + sound))
    (part,) = cut(body, BOUNDS, rejected)
    assert (len(part.marks), rejected.count) == (1, 1)
    around = field(1, field(3, b"x" * BOUNDS.span_bytes))
    for read in (cut, read_verdicts):
        assert refusal(lambda read=read: read(around, BOUNDS, Rejected())) == "too_large"


def test_a_request_in_json_holds_no_more_spans_or_records_than_one_in_protobuf() -> None:
    """Nor objects and arrays without end, each of which takes memory."""
    most = 1_000
    for length, why in ((most - 2, None), (most - 1, "too_large")):
        spans = {"resourceSpans": [{"scopeSpans": [{"spans": [{}] * length}]}]}
        records = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{}] * length}]}]}
        for document, read in ((spans, read_traces), (records, read_logs)):
            body = orjson.dumps(document)
            assert refusal(lambda read=read, body=body: read(body, Rejected(), most)) == why
    empty = orjson.dumps({"more": [[]] * (20 * most)})
    assert refusal(lambda: read_traces(empty, Rejected(), most)) == "too_large"


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3))
def test_a_body_is_refused_exactly_where_protobuf_cannot_read_it(
    changes: list[tuple[int, int]],
) -> None:
    """Its spans are found as protobuf finds them, whichever bytes are wrong."""
    body = bytearray(SOUND)
    for place, byte in changes:
        body[place % len(body)] = byte
    try:
        request = ExportTraceServiceRequest.FromString(bytes(body))
    except DecodeError:
        assert refusal(lambda: cut(bytes(body), BOUNDS, Rejected())) == "invalid"
        return
    rejected = Rejected()
    found = cut(bytes(body), BOUNDS, rejected)
    assert sum(len(part.marks) for part in found) + rejected.count == len(flat(request))


def test_many_resources_of_one_trace_are_one_part() -> None:
    """Each span with a resource of its own: one part, with all of them."""
    request = ExportTraceServiceRequest()
    for number in range(1, 5_000):
        span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"t" * 16)
        span.span_id = number.to_bytes(8, "big")
    (part,) = cut(request.SerializeToString(), BOUNDS, Rejected())
    assert ExportTraceServiceRequest.FromString(part.data) == request


def test_equal_spans_have_equal_marks_and_others_do_not() -> None:
    """However they are batched: that is how resends are known."""
    with capture(deterministic=False) as captured:
        research(3)
    whole = cut_all(encoded(captured.spans))[0].marks
    single = [mark for span in captured.spans for mark in cut_all(encoded([span]))[0].marks]
    assert sorted(whole) == sorted(single)
    assert len(set(whole)) == len(whole)
    (again,) = parts_of(cut_all(encoded(captured.spans))[0].data)
    assert again.marks == whole


def test_spans_of_others_say_nothing_of_runs() -> None:
    """No root of a run; a span without a parent is all that can be told."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    spans.add(trace_id=b"u" * 16, span_id=b"s" * 8, parent_span_id=b"p" * 8)
    top, inner = cut_all(request.SerializeToString())
    assert (top.has_top, top.runs, top.roots) == (True, set(), set())
    assert (inner.has_top, inner.runs, inner.roots) == (False, set(), set())


def test_a_root_names_its_run_where_something_on_the_way_dropped_its_tracestate() -> None:
    """Below a parent that never comes nothing else would say that the run is whole."""
    _, spans = recorded(1, random.Random(0))  # noqa: S311
    request = ExportTraceServiceRequest.FromString(encoded(spans))
    sent = request.resource_spans[0].scope_spans[0].spans
    for span in sent:
        span.trace_state = ""
        span.parent_span_id = span.parent_span_id or b"p" * 8
    (root,) = (span.span_id.hex() for span in sent if span.parent_span_id == b"p" * 8)
    (part,) = cut_all(request.SerializeToString())
    assert (part.has_top, part.runs, part.roots) == (False, {root}, {root})


@given(st.binary(max_size=80))
def test_any_bytes_are_cut_or_refused(data: bytes) -> None:
    """Nothing but our refusal is ever raised."""
    for work in (
        lambda: cut(data, BOUNDS, Rejected()),
        lambda: read_verdicts(data, BOUNDS, Rejected()),
        lambda: read_traces(data, Rejected()),
    ):
        assert refusal(work) in {None, "invalid"}


with capture(deterministic=False) as _captured:
    research(2)
SOUND = encoded(_captured.spans)


@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=4))
def test_a_request_with_wrong_bytes_is_refused_or_its_sound_spans_are_built(
    changes: list[tuple[int, int]],
) -> None:
    """What was accepted goes through the builder, whatever became of it on the way."""
    body = bytearray(SOUND)
    for place, byte in changes:
        body[place] = byte
    parts: list[Part] = []
    refusal(lambda: parts.extend(cut(bytes(body), BOUNDS, Rejected())))
    for part in parts:
        otlp.traces(otlp.read_protobuf(part.data))


_leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_names = st.sampled_from(
    [
        "resourceSpans",
        "scopeSpans",
        "spans",
        "resource",
        "scope",
        "attributes",
        "links",
        "key",
        "traceId",
        "spanId",
        "value",
        "stringValue",
        "startTimeUnixNano",
        "resourceLogs",
        "scopeLogs",
        "logRecords",
        "eventName",
        "name",
        "kind",
    ]
)
_documents = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=12,
)


@given(_documents, _documents)
def test_any_json_is_read_or_refused(one: Any, other: Any) -> None:
    """As a body, and at the place of a span or a log record."""
    bodies = [
        one,
        {"resourceSpans": [{"scopeSpans": [{"spans": [one, other]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [one, other]}]}]},
    ]
    for document in bodies:
        try:
            body = orjson.dumps(document)
        except TypeError:  # an integer beyond 64 bits
            continue
        for work in (
            lambda body=body: from_json(body, Rejected()),
            lambda body=body: read_logs(body, Rejected()),
        ):
            assert refusal(work) in {None, "invalid"}


def test_json_may_hold_null_and_half_a_surrogate_pair() -> None:
    """Neither costs the batch that it is in, nor its span."""
    null = {"traceId": "ab" * 16, "spanId": "cd" * 8, "links": None, "attributes": None}
    half = {"traceId": "ab" * 16, "spanId": "ef" * 8, "name": "caf\ud83d"}
    scopes = [{"spans": None}, {"spans": [null, half]}]
    held = {"resourceSpans": [{"scopeSpans": None}, {"scopeSpans": scopes}]}
    rejected = Rejected()
    request = read_traces(json.dumps(held).encode(), rejected)
    (part,) = cut(request.SerializeToString(), BOUNDS, rejected)
    assert (len(part.marks), rejected.count) == (2, 0)
    assert request.resource_spans[1].scope_spans[1].spans[1].name == "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("depth", [50, 5_000])
def test_json_nested_without_end_is_read_or_refused(depth: int) -> None:
    """A value of arrays in each other ends no process."""
    inner = '{"arrayValue": {"values": [' * depth + "]}}" * depth
    ids = f'"traceId": "{"ab" * 16}", "spanId": "{"cd" * 8}"'
    span = f'{{{ids}, "attributes": [{{"key": "a", "value": {inner}}}]}}'
    body = f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{span}]}}]}}]}}'.encode()
    rejected = Rejected()
    taken: list[Part] = []
    why = refusal(lambda: taken.extend(from_json(body, rejected)))
    assert why == "invalid" or len(taken) + rejected.count == 1
