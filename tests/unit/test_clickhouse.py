"""Rows of ClickHouse's otel_traces are the same traces as the spans they were made of."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a
from orchtrace_otel import clickhouse, otlp, schema
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.testing import capture
from tests.unit.dialects.stories import TELLERS, request


def plain(value: dict[str, Any]) -> Any:
    """An OTLP value as Go has it."""
    for kind, held in value.items():
        if kind == "arrayValue":
            return [plain(one) for one in held.get("values", ())]
        if kind == "intValue":
            return int(held)
        return held
    return None


def text(value: Any) -> str:
    """An OTLP value as the exporter writes it into a map of texts."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def nested(found: dict[str, Any]) -> str:
    """Attributes as a JSON column of ClickHouse writes them: cut at the dots.

    A path that is a value and has more below it comes twice, seen with ClickHouse 26.9.
    """
    values = {key: json.dumps(value) for key, value in found.items() if "." not in key}
    below: dict[str, dict[str, Any]] = {}
    for key, value in found.items():
        first, dot, rest = key.partition(".")
        if dot:
            below.setdefault(first, {})[rest] = value
    parts = list(values.items())
    parts += [(key, nested(rest)) for key, rest in below.items()]
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in sorted(parts)) + "}"


def line(span: dict[str, Any], layout: str) -> str:
    """A span as ClickHouse gives it back in JSONEachRow."""
    made = json.dumps({**row(span), "SpanAttributes": "HERE"})
    return made.replace('"HERE"', attributes(span, layout))


def attributes(span: dict[str, Any], layout: str) -> str:
    found = {one["key"]: plain(one["value"]) for one in span.get("attributes", ())}
    as_map = {key: text(value) for key, value in found.items()}
    return json.dumps(as_map) if layout == "map" else nested(found)


def row(span: dict[str, Any]) -> dict[str, Any]:
    """A span as the Collector's exporter stores it, attributes as a map."""
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    seconds = datetime.fromtimestamp(start // 10**9, UTC)
    events = span.get("events", ())
    return {
        "Timestamp": f"{seconds:%Y-%m-%d %H:%M:%S}.{start % 10**9:09d}",
        "TraceId": span["traceId"],
        "SpanId": span["spanId"],
        "ParentSpanId": span.get("parentSpanId", ""),
        "TraceState": "",
        "SpanName": span.get("name", ""),
        "SpanKind": "Internal",
        "ServiceName": "bakery",
        "ResourceAttributes": {"service.name": "bakery"},
        "SpanAttributes": json.loads(attributes(span, "map")),
        "Duration": str(end - start),
        "StatusCode": "Error" if span.get("status", {}).get("code") == 2 else "Unset",
        "Events.Name": [event["name"] for event in events],
        "Events.Attributes": [
            {one["key"]: text(plain(one["value"])) for one in event["attributes"]}
            for event in events
        ],
    }


def our_run() -> list[dict[str, Any]]:
    """Spans of a run of ours in which every type of attribute occurs, as OTLP JSON."""
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    to_dict = pytest.importorskip("google.protobuf.json_format").MessageToDict

    @orchtrace.tool
    def search() -> str:
        return "found"

    @orchtrace.agent
    def critic() -> None:
        search()
        orchtrace.decide("route", chosen="a", candidates=["a", "b"], probability=0.25)
        orchtrace.decide("sizes", chosen=["a"], candidates=["a", "b"], probability=1)
        orchtrace.decide("sure", chosen="[1, 2]", candidates=["[1, 2]"], probability=1e-7)

    @orchtrace.team("bakery", tags={"day": "monday"})
    def bake() -> None:
        critic()
        orchtrace.message("critic", "more salt")
        critic()
        orchtrace.record_reward("taste", 0.5)

    with capture() as captured:
        bake()
    spans = [
        span
        for resource in to_dict(encoder.encode_spans(captured.spans))["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    for span in spans:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = base64.b64decode(span[key]).hex()
        for key in (a.WEIGHT, a.STOP_PROBABILITY):
            span["attributes"].append({"key": key, "value": {"doubleValue": 4.0}})
    return spans


def told(dialect: str) -> list[dict[str, Any]]:
    """The spans of one telling, a failure among them."""
    spans = TELLERS[dialect]()
    spans[-2].raised, spans[-2].failed = "asyncio.CancelledError", True
    return json.loads(request(spans))["resourceSpans"][0]["scopeSpans"][0]["spans"]


def documents(received: Any) -> list[bytes]:
    return [schema.dump(trace) for trace in otlp.traces(received)]


@pytest.mark.parametrize("layout", ["map", "json"])
@pytest.mark.parametrize("teller", ["ours", *TELLERS])
def test_rows_are_the_traces_of_their_spans(teller: str, layout: str) -> None:
    """Bit for bit, in both layouts, for spans of ours and of others."""
    spans = our_run() if teller == "ours" else told(teller)
    sent = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    lines = "\n".join(line(span, layout) for span in spans)
    found = documents(otlp.read_json(sent))
    assert len(found) == 1
    assert documents(clickhouse.read_rows(lines)) == found


@pytest.mark.parametrize("teller", ["ours", "openinference"])
def test_parquet_holds_the_same_rows(teller: str, tmp_path) -> None:
    """Times keep their nanoseconds, maps and nested columns come as Parquet has them."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    spans = our_run() if teller == "ours" else told(teller)
    rows = [row(span) for span in spans]
    texts = pa.map_(pa.string(), pa.string())
    times = [int(span["startTimeUnixNano"]) for span in spans]
    columns = {
        "Timestamp": pa.array(times, pa.int64()).cast(pa.timestamp("ns", "UTC")),
        "Duration": pa.array([int(one["Duration"]) for one in rows], pa.uint64()),
        "SpanAttributes": pa.array([list(one["SpanAttributes"].items()) for one in rows], texts),
        "Events.Attributes": pa.array(
            [[list(held.items()) for held in one["Events.Attributes"]] for one in rows],
            pa.list_(texts),
        ),
        "Events.Name": pa.array([one["Events.Name"] for one in rows], pa.list_(pa.string())),
    }
    for name in ("TraceId", "SpanId", "ParentSpanId", "SpanName", "StatusCode", "ServiceName"):
        columns[name] = [one[name] for one in rows]
    path = tmp_path / "otel_traces.parquet"
    parquet.write_table(pa.table(columns), path)
    sent = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    assert documents(clickhouse.read_parquet(path)) == documents(otlp.read_json(sent))


@pytest.mark.parametrize(
    "written",
    [
        "2023-11-14 22:13:20.000000005",
        "2023-11-14T22:13:20.000000005Z",
        "1700000000.000000005",
        1_700_000_000_000_000_005,
    ],
)
def test_times_are_exact_however_clickhouse_writes_them(written: object) -> None:
    """As text, as ISO text, as seconds with a fraction, as whole nanoseconds."""
    given = {"Timestamp": written, "Duration": 1, "TraceId": "a" * 32, "SpanId": "b" * 16}
    assert clickhouse.read_row(given)[1].start == 1_700_000_000_000_000_005


def test_a_span_that_ended_before_it_began_keeps_its_times() -> None:
    """The exporter's unsigned difference wraps around, and is wrapped back."""
    given = {"Timestamp": 9, "Duration": 2**64 - 4, "TraceId": "a" * 32, "SpanId": "b" * 16}
    assert clickhouse.read_row(given)[1].end == 5


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "must be a line of JSON"),
        ("[]", "must have the columns"),
        ('{"Timestamp": 1}', "must have the columns"),
        ('{"Timestamp": "soon", "Duration": 1}', "must be a time with nanoseconds in UTC"),
        ('{"Timestamp": 1, "Duration": 1, "SpanId": "x"}', "must have 16 hexadecimal digits"),
    ],
)
def test_what_is_no_row_is_refused(line: str, said: str) -> None:
    """The error says what must hold and what to do."""
    with pytest.raises(TraceFormatError, match=said):
        list(clickhouse.read_rows(line))


def test_what_is_no_parquet_is_refused(tmp_path) -> None:
    """A file of another kind is named in the error."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "spans.parquet"
    path.write_text("no")
    with pytest.raises(TraceFormatError, match="must be a Parquet file"):
        list(clickhouse.read_parquet(path))


DDL = """
CREATE TABLE {name} (
    Timestamp DateTime64(9), TraceId String, SpanId String, ParentSpanId String,
    TraceState String, SpanName LowCardinality(String), SpanKind LowCardinality(String),
    ServiceName LowCardinality(String), ResourceAttributes {kind}, SpanAttributes {kind},
    Duration UInt64, StatusCode LowCardinality(String),
    Events Nested (Name LowCardinality(String), Attributes {kind})
) ENGINE = MergeTree ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))
"""


@pytest.mark.parametrize("layout", ["map", "json"])
@pytest.mark.parametrize("teller", ["ours", *TELLERS])
def test_a_real_clickhouse_gives_the_same_rows(teller: str, layout: str, tmp_path) -> None:
    """Inserted with every column the exporter writes, selected as JSONEachRow and as Parquet."""
    session = pytest.importorskip(
        "chdb.session", reason="ClickHouse itself is heavy: `make test-engines` installs it"
    )
    spans = our_run() if teller == "ours" else told(teller)
    flat = []
    for span in spans:
        found = {one["key"]: plain(one["value"]) for one in span.get("attributes", ())}
        flat.append(row(span) if layout == "map" else {**row(span), "SpanAttributes": found})
    with session.Session(str(tmp_path / "clickhouse")) as clickhouse_itself:
        ask = clickhouse_itself.query
        ask("CREATE DATABASE otel ENGINE = Atomic")
        kind = "JSON" if layout == "json" else "Map(LowCardinality(String), String)"
        ask(DDL.format(name="otel.otel_traces", kind=kind))
        ask("INSERT INTO otel.otel_traces FORMAT JSONEachRow " + "\n".join(map(json.dumps, flat)))
        lines = ask("SELECT * FROM otel.otel_traces", "JSONEachRow").bytes()
        path = tmp_path / "spans.parquet"
        path.write_bytes(ask("SELECT * FROM otel.otel_traces", "Parquet").bytes())
    sent = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    found = documents(otlp.read_json(sent))
    assert documents(clickhouse.read_rows(lines)) == found
    assert documents(clickhouse.read_parquet(path)) == found
