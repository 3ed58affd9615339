"""Files of spans are told apart by what is in them, and read to the same runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from orchtrace_otel import otlp, schema
from orchtrace_otel.cli.convert import command
from orchtrace_otel.cli.export import command as export
from orchtrace_otel.sources import Unread, kind_of, read_spans
from tests.fuzz.make_corpus import ROW, base64
from tests.unit.dialects.stories import TELLERS, request

SPANS = TELLERS["openinference"]()
EXPECTED = [schema.dump(trace) for trace in otlp.traces(otlp.read_json(request(SPANS)))]


def messages() -> bytes:
    """Two requests in protobuf, each behind its length."""
    parse = pytest.importorskip("google.protobuf.json_format").ParseDict
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    made = b""
    for part in (SPANS[:5], SPANS[5:]):
        told = json.loads(request(part))
        for one in told["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for key in {"traceId", "spanId", "parentSpanId"} & one.keys():
                one[key] = base64(one[key])
        data = parse(told, service.ExportTraceServiceRequest()).SerializeToString()
        made += len(data).to_bytes(4) + data
    return made


def lines() -> bytes:
    """A request a line, as the Collector's file exporter writes."""
    return b"".join(request([span]) + b"\n" for span in SPANS)


def pretty() -> bytes:
    """One request over many lines."""
    return json.dumps(json.loads(request(SPANS)), indent=2).encode()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("make", "kind"),
    [(lines, "otlp_json"), (pretty, "otlp_json"), (messages, "otlp_messages")],
)
def test_what_a_collector_writes_is_read(make, kind: str, packed: bool, tmp_path: Path) -> None:
    """JSON lines, one document, protobuf behind lengths; packed with gzip or not."""
    file = tmp_path / "spans"
    file.write_bytes(gzip.compress(make()) if packed else make())
    assert kind_of(file) == kind
    received = [one for one in read_spans(file) if not isinstance(one, Unread)]
    assert [schema.dump(trace) for trace in otlp.traces(received)] == EXPECTED


def test_rows_are_told_from_requests_and_traces(tmp_path: Path) -> None:
    """Rows of ClickHouse are rows; a trace of ours, a text and a folder hold no spans."""
    rows, trace, text = (tmp_path / name for name in ("rows", "trace.jsonl", "text"))
    rows.write_text(json.dumps(ROW))
    trace.write_bytes(EXPECTED[0])
    text.write_text("no")
    kinds = [kind_of(path) for path in (rows, trace, text, tmp_path, tmp_path / "none")]
    assert kinds == ["rows", None, None, None, None]
    assert [type(one) for one in read_spans(text)] == [Unread]


def test_what_cannot_be_read_costs_itself_alone(tmp_path: Path) -> None:
    """A broken line, a message that ends early, a packed file that does; the rest is read."""
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(request(SPANS[:6]) + b"\n{\n" + request(SPANS[6:]))
    found = list(read_spans(broken))
    assert [one.where for one in found if isinstance(one, Unread)] == [f"{broken}:2"]
    assert len(found) == len(SPANS) + 1
    cut = tmp_path / "cut"
    cut.write_bytes(messages()[:-9])
    *read, unread = read_spans(cut)
    assert len(read) == 5
    assert "behind its length" in unread.why
    packed = tmp_path / "packed.gz"
    packed.write_bytes(gzip.compress(lines() * 99)[:-200])
    assert kind_of(packed) == "otlp_json"
    assert isinstance(list(read_spans(packed))[-1], Unread)


def test_a_file_that_is_not_there_or_holds_none_is_told_apart(tmp_path: Path) -> None:
    """A slip in a path is not a fault of what was written."""
    (tmp_path / "notes").write_text("milk\n")
    told = [list(read_spans(tmp_path / name)) for name in ("nots", "notes")]
    assert told == [
        [Unread(str(tmp_path / "nots"), "must be a file that is there")],
        [Unread(str(tmp_path / "notes"), "must hold spans: OTLP, or rows of otel_traces")],
    ]


def test_messages_that_are_packed_say_what_to_do(tmp_path: Path) -> None:
    """zstd, which the file exporter can use, is named."""
    with pytest.raises(otlp.TraceFormatError, match="got zstd"):
        list(otlp.read_messages((8).to_bytes(4) + b"\x28\xb5\x2f\xfd" + bytes(4)))


def test_convert_builds_runs_from_rotated_files(tmp_path: Path, capsys) -> None:
    """A run whose spans lie in two files of a folder is one run."""
    folder = tmp_path / "spans"
    folder.mkdir()
    (folder / "data-2026-11-29T05-02-14.173.json").write_bytes(request(SPANS[:5]) + b"\n")
    (folder / "data.json").write_bytes(request(SPANS[5:]) + b"\n")
    target = tmp_path / "runs.jsonl"
    assert command.main([str(folder), "--to", f"jsonl:{target}"], standalone_mode=False) == 0
    assert target.read_bytes().splitlines() == EXPECTED
    assert capsys.readouterr().out.startswith("1 run written")


def test_convert_builds_runs_from_files_that_are_named_one_by_one(tmp_path: Path, capsys) -> None:
    """As a shell names them; files of spans in folders of their own are part of it, too."""
    (tmp_path / "b").mkdir()
    files = [tmp_path / "a.json", tmp_path / "b" / "more.json"]
    for file, held in zip(files, (SPANS[:5], SPANS[5:]), strict=True):
        file.write_bytes(request(held) + b"\n")
    target = tmp_path / "runs.jsonl"
    places = [str(files[0]), str(tmp_path / "b")]
    assert command.main([*places, "--to", f"jsonl:{target}"], standalone_mode=False) == 0
    assert target.read_bytes().splitlines() == EXPECTED
    assert "1 run written" in (said := capsys.readouterr().out)
    assert "0 older revisions" in said
    given = ["--to", "trl-sft", "--dry-run", "--json"]
    export.main([*places, *given], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["read"]["superseded"] == 0


@pytest.mark.parametrize("others", [b'{"resourceMetrics":[]}\n', b'{"resourceProfiles":[]}\n', b""])
def test_spans_are_found_behind_a_mark_and_among_other_signals(
    others: bytes, tmp_path: Path
) -> None:
    """The Collector writes all signals into one file where it is told to, in any order."""
    file = tmp_path / "otel.json"
    file.write_bytes(b"\xef\xbb\xbf" + others + request(SPANS) + b"\n" + others)
    assert kind_of(file) == "otlp_json"
    received = list(read_spans(file))
    assert [schema.dump(trace) for trace in otlp.traces(received)] == EXPECTED


def test_a_url_of_no_parquet_is_told(tmp_path: Path, capsys) -> None:
    """Lines are read where they lie on this machine; a password in a URL is not shown."""
    pytest.importorskip("fsspec")
    given = ["memory://me:secret@bucket/traces.jsonl", "--to", f"jsonl:{tmp_path / 'runs.jsonl'}"]
    assert command.main(given, standalone_mode=False) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: memory://bucket/traces.jsonl: must be a folder of Parquet")
    assert "secret" not in said


VERDICT = {
    "gen_ai.evaluation.name": {"stringValue": "correct"},
    "gen_ai.evaluation.score.value": {"doubleValue": 1.0},
    "orchtrace.reward.id": {"stringValue": "v1"},
    "orchtrace.reward.estimator": {"stringValue": "judge"},
}


def log_events(**more: str) -> bytes:
    """A line of log events: a verdict, and one of the application's own."""
    told = {**VERDICT, **{name: {"stringValue": text} for name, text in more.items()}}
    attributes = [{"key": key, "value": value} for key, value in told.items()]
    records = [
        {"eventName": "gen_ai.evaluation.result", "attributes": attributes},
        {"eventName": "app.started", "body": {"stringValue": "hello"}},
    ]
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode() + b"\n"


@pytest.mark.parametrize("is_mixed", [True, False])
def test_convert_joins_the_rewards_of_log_events_with_their_runs(
    is_mixed: bool, tmp_path: Path, capsys
) -> None:
    """In lines among those of spans, also before them, or in a file of their own."""
    run_id = json.loads(EXPECTED[0])["trace_id"]
    verdict = log_events(**{"orchtrace.run.id": run_id})
    folder = tmp_path / "otel"
    folder.mkdir()
    (folder / "data.json").write_bytes(verdict * is_mixed + request(SPANS) + b"\n")
    if not is_mixed:
        (folder / "logs.json").write_bytes(verdict)
    target = tmp_path / "runs.jsonl"
    assert command.main([str(folder), "--to", f"jsonl:{target}"], standalone_mode=False) == 0
    assert "1 run written" in capsys.readouterr().out
    (found,) = map(schema.load, target.read_bytes().splitlines())
    assert {reward.component: reward.value for reward in found.reward_records}["correct"] == 1.0
    assert found.rewards["correct"] == 1.0


def test_an_evaluation_that_names_no_run_is_told(tmp_path: Path, capsys) -> None:
    """In a file nothing says which run its context was part of; other log events are no fault."""
    file = tmp_path / "logs.json"
    file.write_bytes(log_events())
    target = tmp_path / "runs.jsonl"
    assert command.main([str(file), "--to", f"jsonl:{target}"], standalone_mode=False) == 1
    said = capsys.readouterr().err
    assert f"{file}:1: an evaluation must carry orchtrace.run.id or the context" in said
    file.write_bytes(log_events(**{"orchtrace.run.id": "run-7"}) + b'{"resourceLogs": 3}\n')
    assert command.main([str(file), "--to", f"jsonl:{target}"], standalone_mode=False) == 1
    said = capsys.readouterr().err
    assert f"{file}:1: orchtrace.run.id must be <OTel trace id>-<span id of the root>" in said
    assert f"{file}:2: a body must be an ExportLogsServiceRequest in JSON" in said
