"""Runs read from OTLP, protobuf and JSON, from any sender; what is no OTLP is refused plainly."""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import otlp, schema
from orchtrace_otel.errors import MissingDependencyError, TraceFormatError
from orchtrace_otel.testing import capture

TRACE = "0af7651916cd43dd8448eb211c80319c"
ROOT = "00f067aa0ba902b7"
RUN = f"{TRACE}-{ROOT}"


def attribute(key: str, value: Any) -> dict[str, Any]:
    """An attribute of a text, as OTLP JSON writes it."""
    return {"key": key, "value": {"stringValue": value}}


def span(**more: Any) -> dict[str, Any]:
    """The root of a run, or what `more` makes of it."""
    return {
        "traceId": TRACE,
        "spanId": ROOT,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [
            attribute(a.RUN_ID, RUN),
            attribute(a.OPENS, "begin"),
            attribute(a.AGENT_NAME, "lead"),
        ],
        **more,
    }


def request(*spans: Any) -> dict[str, Any]:
    """A request of one scope."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def test_a_request_is_read_to_the_runs_in_it() -> None:
    """One root without a stop: a run that says so, with the ids and times it came with."""
    (trace,) = otlp.traces(otlp.read_json(json.dumps(request(span()))))
    assert trace.trace_id == RUN
    assert [event.verb for event in trace.events] == ["begin", "stop"]
    assert trace.events[0]["start_unix_nano"] == 1_700_000_000_000_000_000
    assert trace.flags == ("no_stop",)


def test_numbers_may_be_texts_or_numbers_and_ids_of_either_case() -> None:
    """Senders differ in how they write 64 bits and hexadecimal digits."""
    loose = span(
        traceId=TRACE.upper(),
        spanId=ROOT.upper(),
        startTimeUnixNano=1_700_000_000_000_000_000,
        endTimeUnixNano=1_700_000_001_000_000_000,
        status={"code": "STATUS_CODE_OK"},
        parentSpanId="",
    )
    one = otlp.traces(otlp.read_json(json.dumps(request(loose))))
    other = otlp.traces(otlp.read_json(json.dumps(request(span()))))
    assert [trace.to_json() for trace in one] == [trace.to_json() for trace in other]


@pytest.mark.parametrize("code", [2, "STATUS_CODE_ERROR"])
def test_a_status_may_be_a_number_or_a_name(code: object) -> None:
    """An activation that failed is an error either way."""
    child = span(spanId="00f067aa0ba902b8", parentSpanId=ROOT, status={"code": code})
    (trace,) = otlp.traces(otlp.read_json(json.dumps(request(span(), child))))
    closing = next(event for event in trace.events if event.id.endswith(".close"))
    assert closing["status"] == "error"


def test_values_of_every_kind_are_read() -> None:
    """Texts, truth, integers, floats, arrays, maps, and nothing at all."""
    kinds: list[tuple[dict[str, Any], Any]] = [
        ({"stringValue": "x"}, "x"),
        ({"boolValue": True}, True),
        ({"intValue": "-7"}, -7),
        ({"intValue": 7}, 7),
        ({"doubleValue": 2}, 2.0),
        ({"doubleValue": "Infinity"}, float("inf")),
        ({"arrayValue": {"values": [{"intValue": "1"}]}}, (1,)),
        ({"arrayValue": {}}, ()),
        ({"kvlistValue": {"values": [attribute("k", "v")]}}, {"k": "v"}),
        ({"bytesValue": "AA=="}, b"\0"),
        ({"intValue": None, "stringValue": "x"}, "x"),
        ({}, None),
    ]
    found = [attribute(a.VERB, "decide")]
    found += [{"key": str(place), "value": kind[0]} for place, kind in enumerate(kinds)]
    ((_, record),) = otlp.read_json(json.dumps(request(span(attributes=found))))
    assert {int(k): v for k, v in record.attributes.items() if k.isdigit()} == {
        place: kind[1] for place, kind in enumerate(kinds)
    }


@pytest.mark.parametrize(
    "more",
    [
        {"status": None, "events": None, "links": None, "traceState": None, "name": None},
        {"status": {"code": None}, "parentSpanId": None, "droppedLinksCount": None},
        {"attributes": [*span()["attributes"], {"key": "a", "value": None}, {"key": "b"}]},
    ],
)
def test_null_is_as_good_as_absent(more: dict[str, Any]) -> None:
    """As in all JSON of protobuf: writers in some languages say null of what is not there."""
    plain, nulls = (json.dumps(request(span(**told))) for told in ({}, more))
    assert otlp.traces(otlp.read_json(nulls)) == otlp.traces(otlp.read_json(plain))
    none: dict[str, Any] = {"resource": None, "scopeSpans": None}
    some = {"resourceSpans": [none, *request(span())["resourceSpans"]]}
    assert otlp.read_json(json.dumps(some))[0][0] == TRACE


def test_half_a_surrogate_pair_costs_no_batch() -> None:
    """JavaScript writes one where a text breaks off in an emoji; it becomes a replacement."""
    found = [*span()["attributes"], attribute(a.TAG_PREFIX + "said", "caf\ud83d")]
    (trace,) = otlp.traces(otlp.read_json(json.dumps(request(span(attributes=found)))))
    assert trace.events[0]["tags"] == {"said": "caf\N{REPLACEMENT CHARACTER}"}


def test_of_spans_of_others_only_the_call_of_a_model_is_kept() -> None:
    """Their content stays where it is: nothing of it comes into the builder."""
    found = [attribute("gen_ai.input.messages", "secret"), attribute(a.OPERATION, "chat")]
    ((_, record),) = otlp.read_json(json.dumps(request(span(attributes=found))))
    assert record.attributes == {a.OPERATION: "chat"}


def test_spans_below_no_run_are_left_out() -> None:
    """A service's own requests are no runs."""
    assert otlp.traces(otlp.read_json(json.dumps(request(span(attributes=[]))))) == []


def test_lines_are_requests_and_empty_ones_are_passed_over() -> None:
    """The file exporter writes a request a line; a run may be spread over several."""
    child = span(spanId="00f067aa0ba902b8", parentSpanId=ROOT)
    text = f"{json.dumps(request(child))}\n\n{json.dumps(request(span()))}\n"
    (trace,) = otlp.traces(otlp.read_lines(text))
    assert [event.verb for event in trace.events] == ["begin", "begin", "return", "stop"]
    assert otlp.traces(otlp.read_lines(text.encode())) == [trace]


def test_a_line_ends_with_a_line_feed_alone() -> None:
    """Other separators of lines stand in texts of people, and JSON may hold them as they are."""
    said = attribute(a.TAG_PREFIX + "said", "one\u2028two\x85three")
    found = [*span()["attributes"], said]
    line = json.dumps(request(span(attributes=found)), ensure_ascii=False)
    for text in (f"{line}\r\n\r\n{line}", f"{line}\n{line}\n".encode()):
        assert len(list(otlp.read_lines(text))) == 2


def test_runs_come_in_order_of_their_start() -> None:
    """Whatever order their spans came in."""
    spans = []
    for number in (3, 1, 2):
        root = f"{number:016x}"
        facts = [attribute(a.RUN_ID, f"{TRACE}-{root}"), attribute(a.OPENS, "begin")]
        spans.append(
            span(spanId=root, startTimeUnixNano=str(number), endTimeUnixNano="9", attributes=facts)
        )
    found = otlp.traces(otlp.read_json(json.dumps(request(*spans))))
    assert [trace.trace_id[-1] for trace in found] == ["1", "2", "3"]


def test_one_span_id_in_two_otel_traces_is_two_spans() -> None:
    """Span ids are unique inside an OTel trace only."""
    other = TRACE[::-1]
    facts = [attribute(a.RUN_ID, f"{other}-{ROOT}"), attribute(a.OPENS, "begin")]
    twin = span(traceId=other, attributes=facts)
    found = otlp.traces(otlp.read_json(json.dumps(request(span(), twin))))
    assert {trace.trace_id for trace in found} == {RUN, f"{other}-{ROOT}"}
    assert all("duplicate_spans" not in trace.flags for trace in found)


def test_only_the_run_whose_spans_differ_is_flagged() -> None:
    """Two versions of one span say nothing of the run beside it."""
    second = "00f067aa0ba902b9"
    beside = span(
        spanId=second,
        attributes=[attribute(a.RUN_ID, f"{TRACE}-{second}"), attribute(a.OPENS, "begin")],
    )
    versions = [span(), span(endTimeUnixNano="1700000002000000000")]
    for sent in (versions, versions[::-1]):
        found = {
            trace.trace_id: trace.flags
            for trace in otlp.traces(otlp.read_json(json.dumps(request(*sent, beside))))
        }
        assert found == {
            RUN: ("duplicate_spans", "no_stop"),
            f"{TRACE}-{second}": ("no_stop",),
        }


def point(number: int, parent: int, state: str = "") -> dict[str, Any]:
    """A decision of a lead."""
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}",
        "traceState": state,
        "startTimeUnixNano": "1700000000500000000",
        "endTimeUnixNano": "1700000000500000000",
        "attributes": [attribute(a.VERB, "decide"), attribute(a.AGENT_NAME, "lead")],
    }


def beside(root: str) -> dict[str, Any]:
    """The root of another run in the same OTel trace."""
    facts = [attribute(a.RUN_ID, f"{TRACE}-{root}"), attribute(a.OPENS, "begin")]
    return span(spanId=root, attributes=facts)


def runs_of(*spans: dict[str, Any]) -> dict[str, tuple[list[str], bool]]:
    """Run to its verbs, and whether it says that some spans lack what is above them."""
    return {
        one.trace_id: ([event.verb for event in one.events], "orphans" in one.flags)
        for one in otlp.traces(otlp.read_json(json.dumps(request(*spans))))
    }


def test_a_tracestate_tells_the_run_whatever_of_it_is_missing() -> None:
    """A span may come without its parent, before its root, or beside another run."""
    lost = point(7, 6, f"ot=th:8,orchtrace={ROOT}")
    other = "00f067aa0ba902b9"
    with_stop = ["begin", "decide", "stop"]
    assert list(runs_of(lost)) == [RUN]
    assert runs_of(lost, span()) == {RUN: (with_stop, True)}
    assert runs_of(beside(other), lost, span()) == {
        RUN: (with_stop, True),
        f"{TRACE}-{other}": (["begin", "stop"], False),
    }


def test_without_a_tracestate_what_is_above_tells_the_run_else_the_only_one_there_is() -> None:
    """Of two runs it is not known which, so that both say that spans may be missing."""
    below, lost = point(7, int(ROOT, 16)), point(8, 6)
    other = "00f067aa0ba902b9"
    assert runs_of(lost) == {}
    assert runs_of(below, span(), beside(other)) == {
        RUN: (["begin", "decide", "stop"], False),
        f"{TRACE}-{other}": (["begin", "stop"], False),
    }
    assert runs_of(lost, span()) == {RUN: (["begin", "decide", "stop"], True)}
    assert runs_of(lost, span(), beside(other)) == {
        RUN: (["begin", "stop"], True),
        f"{TRACE}-{other}": (["begin", "stop"], True),
    }


@pytest.mark.parametrize(
    ("state", "root"),
    [
        (f"orchtrace={ROOT}", ROOT),
        (f"a=1 , orchtrace={ROOT} ,b=2", ROOT),
        ("", None),
        ("orchtrace=1", None),
        (f"xorchtrace={ROOT}", None),
        (f"orchtrace={ROOT}0", None),
        (f"orchtrace={ROOT.upper()}", None),
        (f"orchtrace={'0' * 16}", None),
    ],
    ids=["alone", "among others", "empty", "short", "another key", "long", "upper case", "zeros"],
)
def test_a_tracestate_is_read_by_its_own_rules(state: str, root: str | None) -> None:
    """Members are apart by commas, with blanks around them; a value that is no id is none."""
    assert otlp.root_of(state) == root


@pytest.mark.parametrize("state", [None, 7, True, [], {}, "\t,,="])
def test_a_tracestate_that_is_none_tells_nothing(state: object) -> None:
    """The span is read as one that came without."""
    below = {**point(7, int(ROOT, 16)), "traceState": state}
    assert runs_of(below, span()) == {RUN: (["begin", "decide", "stop"], False)}


def test_what_a_root_says_of_itself_goes_before_its_tracestate() -> None:
    """A root whose span could not be given a tracestate has that of what it is below."""
    outer = "00f067aa0ba902b9"
    inner = span(traceState=f"orchtrace={outer}", parentSpanId=outer)
    cut = span(traceState=f"orchtrace={ROOT}", attributes=[attribute(a.RUN_ID, RUN[:40])])
    assert list(runs_of(inner)) == [RUN]
    assert list(runs_of(cut)) == [RUN]


def test_of_a_span_that_came_twice_the_one_that_tells_its_run_is_taken() -> None:
    """Sent over two ways, of which one loses tracestate; in either order."""
    told, untold = point(7, 6, f"orchtrace={ROOT}"), point(7, 6)
    roots = [span(), beside("00f067aa0ba902b9")]
    found = runs_of(told, untold, *roots)
    assert found[RUN] == (["begin", "decide", "stop"], True)
    assert runs_of(untold, told, *roots) == found


def test_protobuf_is_read_as_json_is() -> None:
    """The same spans in both wires are the same records."""
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")

    @orchtrace.agent
    def critic() -> None:
        orchtrace.decide("route", chosen="a", candidates=["a", "b"])
        orchtrace.record_reward("style", 0.5)

    with capture() as captured:
        critic()
    data = encoder.encode_spans(captured.spans).SerializeToString()
    (trace,) = otlp.traces(otlp.read_protobuf(data))
    assert trace == captured.trace


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"resourceSpans": null}',
        '{"resourceSpans": [1]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}',
        json.dumps(request({"traceId": TRACE})),
        json.dumps(request(span(startTimeUnixNano="soon"))),
        json.dumps(request(span(attributes=[{"value": {}}]))),
        json.dumps(request(span(attributes=[1]))),
        json.dumps(request(span(attributes=[{"key": "a", "value": 7}]))),
        json.dumps(request(span(status=7))),
        b"\xff\xfe",
    ],
)
def test_what_is_no_request_is_refused(text: str | bytes) -> None:
    """The error says what must hold and how much came, never what was in it."""
    with pytest.raises(TraceFormatError, match="OTLP JSON must be an ExportTraceServiceRequest"):
        otlp.read_json(text)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"traceId": "CvdlGRbNQ92ESOshHIAxnA=="}, "must have 32 hexadecimal digits"),
        ({"spanId": "APBnqgupArc="}, "must have 16 hexadecimal digits"),
        ({"spanId": ""}, "must have 16 hexadecimal digits"),
        ({"startTimeUnixNano": str(2**64)}, "must be nanoseconds in 64 bits"),
        ({"endTimeUnixNano": "-1"}, "must be nanoseconds in 64 bits"),
        (
            {"attributes": [{"key": "a", "value": {"intValue": str(2**63)}}]},
            "must fit in 64 bits",
        ),
    ],
)
def test_ids_and_numbers_that_cannot_be_are_refused(more: dict[str, Any], said: str) -> None:
    """Ids in base64, as a generic writer of protobuf's JSON has them, are the usual mistake."""
    with pytest.raises(TraceFormatError, match=said):
        otlp.read_json(json.dumps(request(span(**more))))


def test_nesting_without_end_is_refused() -> None:
    """A value of a thousand arrays in each other is nobody's attribute."""
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(300):
        value = {"arrayValue": {"values": [value]}}
    text = json.dumps(request(span(attributes=[{"key": "a", "value": value}])))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 200)
    try:
        with pytest.raises(TraceFormatError):
            otlp.read_json(text)
    finally:
        sys.setrecursionlimit(limit)


@given(st.binary(max_size=60))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    """Whatever came, a reader raises our error or none."""
    for read in (otlp.read_protobuf, otlp.read_json):
        try:
            found = read(data)
        except TraceFormatError:
            continue
        otlp.traces(found)


_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8))
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["key", "value", "stringValue", "intValue", "arrayValue", "values"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)
_FIELDS = st.sampled_from(
    (
        "traceId",
        "spanId",
        "parentSpanId",
        "startTimeUnixNano",
        "endTimeUnixNano",
        "attributes",
        "status",
        "droppedLinksCount",
        "droppedAttributesCount",
    )
)


@given(st.dictionaries(_FIELDS, _JSON, max_size=3))
def test_spans_of_any_shape_are_read_or_refused(more: dict[str, Any]) -> None:
    """A span with wrong fields raises our error or gives sound traces."""
    try:
        received = otlp.read_json(json.dumps(request(span(), span(**more))))
    except TraceFormatError:
        return
    for trace in otlp.traces(received):
        assert list(schema.check(trace.to_dict())) == []


def test_bytes_that_are_no_protobuf_are_refused() -> None:
    """The error says what must hold and how many bytes came."""
    pytest.importorskip("opentelemetry.proto")
    with pytest.raises(TraceFormatError, match="must be an ExportTraceServiceRequest, got 3 bytes"):
        otlp.read_protobuf(b"\xff\xff\xff")


def test_protobuf_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named in the message."""
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'orchtrace-otel\[otlp\]'"):
        otlp.read_protobuf(b"")
