"""Write the corpus anew: `python -m tests.fuzz.make_corpus`. Found cases are kept as they are."""

from __future__ import annotations

import json
from pathlib import Path

from orchtrace_otel import attributes as a
from tests.fuzz.strategies import IDS, TRACES, request
from tests.unit.dialects.stories import TELLERS
from tests.unit.dialects.stories import request as tell

CORPUS = Path(__file__).parent / "corpus"


def span(**more: object) -> dict[str, object]:
    """A span of an agent by the GenAI conventions, or what `more` makes of it."""
    return {
        "traceId": TRACES[0],
        "spanId": IDS[0],
        "name": "invoke_agent a",
        "startTimeUnixNano": "5",
        "endTimeUnixNano": "9",
        "attributes": [{"key": a.OPERATION, "value": {"stringValue": "invoke_agent"}}],
        **more,
    }


def deep(levels: int) -> dict[str, object]:
    """A value of arrays in each other."""
    value: dict[str, object] = {"stringValue": "x"}
    for _ in range(levels):
        value = {"arrayValue": {"values": [value]}}
    return value


ROW = {
    "Timestamp": "2026-01-01 00:00:00.123456789",
    "TraceId": TRACES[0],
    "SpanId": IDS[0],
    "ParentSpanId": "",
    "SpanName": "invoke_agent a",
    "SpanAttributes": {a.OPERATION: "invoke_agent"},
    "Duration": "5",
    "StatusCode": "Ok",
    "Events.Name": ["exception"],
    "Events.Attributes": [{"exception.type": "ValueError"}],
}

FILES: dict[str, bytes] = {
    **{f"ok-{name}.json": tell(teller()) for name, teller in TELLERS.items()},
    "ok-cycle.json": request([span(parentSpanId=IDS[1]), span(spanId=IDS[1], parentSpanId=IDS[0])]),
    "ok-two-cycles.json": request(
        [
            span(spanId=IDS[one], parentSpanId=IDS[other])
            for one, other in ((0, 1), (1, 0), (2, 3), (3, 2))
        ]
    ),
    "ok-own-parent.json": request([span(parentSpanId=IDS[0])]),
    "ok-end-before-start.json": request([span(startTimeUnixNano="9", endTimeUnixNano="5")]),
    "ok-from-the-future.json": request([span(endTimeUnixNano=str(2**64 - 1))]),
    "ok-odd-parent.json": request([span(parentSpanId="not hexadecimal")]),
    "ok-deep-value.json": request([span(attributes=[{"key": "k", "value": deep(40)}])]),
    "bad-base64-id.json": request([span(spanId="APBnqgupArc=")]),
    "bad-time.json": request([span(startTimeUnixNano=str(2**64))]),
    "bad-infinite-number.json": b'{"resourceSpans": [{"scopeSpans": [{"spans": [1e999]}]}]}',
    "bad-nesting.json": b'{"resourceSpans":' * 3000,
    "bad-truncated.json": tell(TELLERS["genai"]())[:-40],
    "ok-lines.jsonl": b"\n".join(tell([one]) for one in TELLERS["openinference"]()) + b"\n\n",
    "bad-half-line.jsonl": tell(TELLERS["genai"]()) + b"\n" + tell(TELLERS["genai"]())[:99],
    "ok-row.rows": json.dumps(ROW).encode(),
    "ok-wrapped.rows": json.dumps({**ROW, "Duration": str(2**64 - 3)}).encode(),
    "ok-json-layout.rows": json.dumps(
        {**ROW, "SpanAttributes": {"gen_ai": {"operation": {"name": "invoke_agent"}}}}
    ).encode(),
    "bad-timestamp.rows": json.dumps({**ROW, "Timestamp": "yesterday"}).encode(),
    "bad-month.rows": json.dumps({**ROW, "Timestamp": "2026-13-01 00:00:00"}).encode(),
    "bad-attributes.rows": json.dumps({**ROW, "SpanAttributes": "["}).encode(),
    "ok-empty.pb": b"",
    "bad-cut.pb": b"\x0a\xff",
}


def protobuf() -> bytes:
    """The run of one teller in protobuf."""
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    told = json.loads(tell(TELLERS["openllmetry"]()))
    for one in told["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in one:
                one[key] = base64(one[key])
    return ParseDict(told, ExportTraceServiceRequest()).SerializeToString()


def base64(digits: str) -> str:
    """Return an id as protobuf's own JSON writes bytes."""
    from base64 import b64encode

    return b64encode(bytes.fromhex(digits)).decode()


if __name__ == "__main__":
    for name, held in {**FILES, "ok-openllmetry.pb": protobuf()}.items():
        (CORPUS / name).write_bytes(held)
