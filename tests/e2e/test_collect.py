"""`orchtrace collect` through everything that may happen to it: kills, a full disk, late facts."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.trace import NonRecordingSpan

import orchtrace_otel as orchtrace
from orchtrace_otel import schema
from orchtrace_otel.collect.index import Index
from orchtrace_otel.evaluation import Evaluations
from orchtrace_otel.exporter import TraceExporter, open_exporter
from orchtrace_otel.model import Reward
from orchtrace_otel.testing import capture
from tests.collecting import (
    PROTOBUF,
    Collecting,
    Sender,
    as_stored,
    at_first,
    batches,
    collecting,
    encoded,
    eventually,
    lines,
    recorded,
    research,
    stored,
)
from tests.processes import run
from tests.properties.test_random_programs import Program

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("ORCHTRACE_KILLS", "3"))
PROGRAMS = int(os.environ.get("ORCHTRACE_COLLECTED_PROGRAMS", "40"))
RUNS = 60
BATCH = 25
SOON = ("--grace", "0.1", "--fsync", "never")


def post(collector: Collecting, body: bytes) -> httpx.Response:
    """Send a batch once."""
    return httpx.post(f"{collector.url}/v1/traces", content=body, headers=PROTOBUF)


def settled(collector: Collecting) -> bool:
    """Whether all that was acknowledged is in the store."""
    return collector.metric("waiting_bytes") == collector.metric("open_traces") == 0


def judge(collector: Collecting, run_id: str, *rewards: Reward) -> None:
    """Send late rewards as a judge's process does."""
    exporter = OTLPLogExporter(f"{collector.url}/v1/logs")
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    for reward in rewards:
        Evaluations(provider).emit_late(run_id, reward)
    provider.shutdown()


# --- kills --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_kill_under_load_loses_nothing_and_doubles_nothing(seed: int, tmp_path: Path) -> None:
    """Whatever was acknowledged, over HTTP or gRPC, is in the store once, each run as inline."""
    dice = random.Random(seed)  # noqa: S311 - a load, not a secret
    traces, spans = recorded(RUNS, dice)
    sent = batches(spans, dice, BATCH)
    collector = Collecting(tmp_path, *SOON)
    collector.start()
    try:
        # Runs are cut across both ways in.
        halves = ("http", sent[::2]), ("grpc", sent[1::2])
        senders = [Sender(collector, way, half, dice) for way, half in halves]
        for sender in senders:
            sender.start()
        goal = dice.randrange(len(sent))
        eventually(lambda: sum(sender.acknowledged for sender in senders) >= goal)
        collector.kill()
        collector.start()
        for sender in senders:
            sender.join(60)
        assert all(sender.is_done for sender in senders)
        eventually(lambda: settled(collector))
    finally:
        collector.stop()
    assert all(path.read_bytes().endswith(b"\n") for path in tmp_path.glob("traces*.jsonl"))
    found = stored(tmp_path)
    assert {run_id: at_first(found[run_id]) for run_id in found} == as_stored(traces)
    assert all(schema.check(document) == [] for document in found.values())
    assert list((tmp_path / "spool").iterdir()) == []


def test_what_is_open_at_the_end_goes_on_at_the_next_start(tmp_path: Path) -> None:
    """SIGTERM ends with 0; a run without its root waits in the spool for the rest of it."""
    with capture(deterministic=False) as captured:
        research(3)
    *most, root = captured.spans
    collector = Collecting(tmp_path, *SOON)
    collector.start()
    assert post(collector, encoded(most)).status_code == 200
    assert collector.stop() == 0
    assert lines(tmp_path) == []
    collector.start()
    assert collector.metric("open_traces") == 1
    assert post(collector, encoded([root])).status_code == 200
    assert collector.stop() == 0
    assert stored(tmp_path) == as_stored(captured.traces)


def test_a_store_of_parquet_takes_runs_as_one_of_lines_does(tmp_path: Path) -> None:
    """Through a kill before its parts are written, and resends: each run once, as inline."""
    traces, spans = recorded(5, random.Random(6))  # noqa: S311
    store = tmp_path / "store"
    collector = Collecting(store, *SOON, "--tables", "parquet")
    collector.start()
    assert post(collector, encoded(spans)).status_code == 200
    eventually(lambda: collector.metric("runs_total", "new") == len(traces))
    collector.kill()
    collector.start()
    assert post(collector, encoded(spans)).content == b""
    assert collector.stop() == 0
    converted = tmp_path / "lines"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "orchtrace_otel.cli",
            "convert",
            store,
            "--to",
            f"jsonl:{converted}/",
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert stored(converted) == as_stored(traces)
    assert list((store / "spool").iterdir()) == []


# --- the same facts again, and late ones ------------------------------------------------------


def test_spans_that_are_sent_again_change_nothing_after_a_restart_either(tmp_path: Path) -> None:
    """A stored run stays as it is, whoever sends its spans once more, in other batches."""
    traces, spans = recorded(4, random.Random(0))  # noqa: S311
    with collecting(tmp_path, *SOON) as collector:
        assert post(collector, encoded(spans)).status_code == 200
        eventually(lambda: settled(collector))
        assert post(collector, encoded(spans[::-1])).content == b""
        eventually(lambda: settled(collector))
        assert collector.metric("spans_total", "resent") == len(spans)
    with collecting(tmp_path, *SOON) as collector:
        for at in range(0, len(spans), 3):
            assert post(collector, encoded(spans[at : at + 3])).content == b""
        eventually(lambda: settled(collector))
        assert collector.metric("spans_total", "resent") == len(spans)
    assert len(lines(tmp_path)) == len(traces)
    assert stored(tmp_path) == as_stored(traces)


def test_late_spans_amend_a_run_under_a_higher_revision(tmp_path: Path) -> None:
    """A stored run whose other half comes later is whole in its next revision, scored anew."""
    with capture(deterministic=False) as captured:
        research(4)
    half = len(captured.spans) // 2
    with collecting(tmp_path, *SOON) as collector:
        assert post(collector, encoded(captured.spans[half:])).status_code == 200
        eventually(lambda: collector.metric("runs_total", "new") == 1)
    with collecting(tmp_path, *SOON) as collector:
        assert post(collector, encoded(captured.spans[:half])).status_code == 200
        eventually(lambda: collector.metric("runs_total", "amended") == 1)
    first, second = lines(tmp_path)
    assert "missing_causes" in first["events"][-1]["flags"]
    assert (first["events"][-1]["revision"], second["events"][-1]["revision"]) == (0, 1)
    assert {second["trace_id"]: at_first(second)} == as_stored(captured.traces)


def test_late_rewards_are_given_once_and_stay_through_what_comes_after(tmp_path: Path) -> None:
    """A verdict hours later, sent twice, and spans after it: one reward, the newest revision."""
    with capture(deterministic=False) as captured:
        research(2)
    run_id = captured.trace.trace_id
    verdict = Reward(
        id="v1", component="helpfulness", value=0.2, estimator="judge", provisional=True, n=5,
        se=0.1, version="judge-2",
    )  # fmt: skip
    with collecting(tmp_path, *SOON) as collector:
        assert post(collector, encoded(captured.spans[1:])).status_code == 200
        eventually(lambda: collector.metric("runs_total", "new") == 1)
        judge(collector, run_id, verdict, verdict)
        eventually(lambda: collector.metric("runs_total", "amended") == 1)
    with collecting(tmp_path, *SOON) as collector:
        judge(collector, run_id, verdict)
        assert post(collector, encoded(captured.spans[:1])).status_code == 200
        eventually(lambda: collector.metric("runs_total", "amended") == 1)
        assert collector.metric("rewards_total", "resent") == 1
    found = stored(tmp_path)[run_id]
    assert found["events"][-1]["revision"] == 2
    given = found["events"][-1]["reward_records"]
    assert [record for record in given if record["id"] == "v1"] == [verdict.to_dict()]
    assert found["rewards"] == {**captured.trace.rewards, "helpfulness": 0.2}
    assert len(found["events"]) == len(captured.trace.events)
    assert found["metrics"] == captured.trace.metrics


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_verdict_of_another_process_arrives_as_the_page_says(
    protocol: str, tmp_path: Path
) -> None:
    """Two variables send it, over either protocol, and the run's next revision has it."""
    with capture(deterministic=False) as captured:
        research(1)
    run_id = captured.trace.trace_id
    page = (ROOT / "docs" / "operations.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    with collecting(tmp_path, *SOON) as collector:
        assert post(collector, encoded(captured.spans)).status_code == 200
        eventually(lambda: collector.metric("runs_total", "new") == 1)
        endpoint = (
            collector.url
            if protocol.startswith("http")
            else f"http://127.0.0.1:{collector.grpc_port}"
        )
        told = run(
            code.replace("RUN_ID", repr(run_id)),
            OTEL_LOGS_EXPORTER="otlp",
            OTEL_EXPORTER_OTLP_ENDPOINT=endpoint,
            OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        )
        eventually(lambda: collector.metric("runs_total", "amended") == 1)
    assert told == ""
    found = stored(tmp_path)[run_id]
    assert found["rewards"] == {**captured.trace.rewards, "correct": 1.0}


def test_what_a_process_tells_of_its_own_run_as_events_changes_nothing(tmp_path: Path) -> None:
    """Its measures and built-in rewards are computed here, of what is here, and given by nobody."""
    with capture(deterministic=False) as captured:
        research(3)
    root = NonRecordingSpan(captured.spans[-1].context)
    provider = LoggerProvider(shutdown_on_exit=False)
    with collecting(tmp_path, *SOON) as collector:
        exporter = OTLPLogExporter(f"{collector.url}/v1/logs")
        provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
        for part in (captured.spans[2:], captured.spans[:2]):
            # Before the whole run is here, and once more when it is.
            Evaluations(provider).emit(captured.trace, root)
            assert post(collector, encoded(part)).status_code == 200
            eventually(lambda: settled(collector) and len(lines(tmp_path)) > 0)
            Evaluations(provider).emit(captured.trace, root)
        eventually(lambda: collector.metric("runs_total", "amended") == 1)
        assert collector.metric("log_records_total", "rejected") == 0
    provider.shutdown()
    partial, whole = lines(tmp_path)
    assert "waste" in partial["metrics"]
    assert len(partial["events"]) < len(whole["events"])
    for document in (partial, whole):
        identities = [record["id"] for record in document["events"][-1]["reward_records"]]
        assert len(set(identities)) == len(identities)
    assert {whole["trace_id"]: at_first(whole)} == as_stored(captured.traces)


def test_a_reward_may_come_before_its_run(tmp_path: Path) -> None:
    """It waits, through a kill as well, and is in the run's first revision."""
    with capture(deterministic=False) as captured:
        research(2)
    collector = Collecting(tmp_path, *SOON)
    collector.start()
    early = Reward(id="v1", component="style", value=1.0)
    judge(collector, captured.trace.trace_id, early)
    collector.kill()
    collector.start()
    assert post(collector, encoded(captured.spans)).status_code == 200
    collector.stop()
    (found,) = lines(tmp_path)
    assert found["events"][-1]["revision"] == 0
    assert found["rewards"]["style"] == 1.0


def test_a_run_whose_spans_are_kept_no_longer_takes_rewards_and_refuses_spans(
    tmp_path: Path,
) -> None:
    """What cannot be merged is rejected to the sender's face, never acknowledged and lost."""
    with capture(deterministic=False) as captured:
        research(2)
    run_id = captured.trace.trace_id
    with collecting(tmp_path, *SOON) as collector:
        post(collector, encoded(captured.spans[1:]))
        eventually(lambda: collector.metric("runs_total", "new") == 1)
    (tmp_path / "archive.sqlite").unlink()
    with collecting(tmp_path, *SOON) as collector:
        answer = post(collector, encoded(captured.spans[:1]))
        assert answer.status_code == 200
        assert b"stored long ago" in answer.content
        judge(collector, run_id, Reward(id="v1", component="style", value=1.0))
        eventually(lambda: collector.metric("runs_total", "amended") == 1)
    found = stored(tmp_path)[run_id]
    assert (found["events"][-1]["revision"], found["rewards"]["style"]) == (1, 1.0)


# --- the disk -----------------------------------------------------------------------------------


def test_a_full_disk_costs_time_and_no_run(tmp_path: Path) -> None:
    """503 with Retry-After and not ready, until there is room; then all goes on by itself."""
    traces, spans = recorded(4, random.Random(1))  # noqa: S311
    body = encoded(spans)
    with collecting(tmp_path, *SOON) as collector:
        size = max(path.stat().st_size for path in tmp_path.iterdir() if path.is_file())
        _, hard = resource.prlimit(collector.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (1_000, hard))
        refused = post(collector, body)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        ready = httpx.get(f"{collector.url}/readyz")
        assert (ready.status_code, "spool cannot be written" in ready.text) == (503, True)
        # Now the spool has room, but not the store.
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (max(size, len(body)) + 1_000, hard))
        assert post(collector, body).status_code == 200
        eventually(lambda: collector.metric("failures_total", "store") > 0)
        refused = post(collector, body)
        assert (refused.status_code, b"store cannot be written" in refused.content) == (503, True)
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (hard, hard))
        eventually(lambda: settled(collector))
        assert httpx.get(f"{collector.url}/readyz").text == "ready\n"
    assert stored(tmp_path) == as_stored(traces)
    assert len(lines(tmp_path)) == len(traces)


def test_an_index_that_is_gone_is_made_anew_from_the_store(tmp_path: Path) -> None:
    """Its rows, the places they point to, and what is known as stored already."""
    traces, spans = recorded(5, random.Random(2))  # noqa: S311
    with collecting(tmp_path, *SOON) as collector:
        post(collector, encoded(spans))
        eventually(lambda: settled(collector))
    index = Index(tmp_path / "index.sqlite", tmp_path)
    before = list(index)
    index.close()
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    with collecting(tmp_path, *SOON) as collector:
        post(collector, encoded(spans))
        eventually(lambda: settled(collector))
    index = Index(tmp_path / "index.sqlite", tmp_path)
    assert list(index) == before
    assert {entry.run_id for entry in before} == {trace.trace_id for trace in traces}
    assert [index.read(entry) for entry in before] == sorted(
        traces, key=lambda trace: trace.events[0]["start_unix_nano"]
    )
    index.close()
    assert len(lines(tmp_path)) == len(traces)


@pytest.mark.parametrize("verb", ["show", "validate"])
def test_a_store_is_read_while_a_line_of_it_is_written(verb: str, tmp_path: Path) -> None:
    """What is whole is shown; that half a line was left out is said, and is no fault."""
    traces, _ = recorded(2, random.Random(9))  # noqa: S311
    exporter = open_exporter(f"jsonl:{tmp_path}/")
    assert isinstance(exporter, TraceExporter)
    for trace in traces:
        exporter.export(trace)
    with (tmp_path / "traces.jsonl").open("ab") as file:
        file.write(schema.dump(traces[0])[:99])
    done = subprocess.run(
        [sys.executable, "-m", "orchtrace_otel.cli", verb, tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "traces.jsonl:3: left out, for it is not written to its end" in done.stderr
    assert "2" in done.stdout
    exporter.export(traces[0])
    assert [len(document["events"]) for document in lines(tmp_path)][2] == len(traces[0].events)


# --- inline and collected are equal -------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["plain_team", "plain_parallel", "plain_stream", "plain_late_reward"]
)
def test_an_example_is_collected_as_it_was_built_inline(name: str, tmp_path: Path) -> None:
    """The example's own process exports over OTLP; what it wrote itself is what is stored."""
    with collecting(tmp_path / "store", *SOON) as collector:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "ORCHTRACE_"))}
        subprocess.run(
            [sys.executable, ROOT / "examples" / f"{name}.py"],
            cwd=tmp_path,
            env=kept | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url},
            check=True,
            capture_output=True,
            timeout=60,
        )
        eventually(lambda: settled(collector) and lines(tmp_path / "store"))
    inline = [
        orjson.loads(line)
        for line in (tmp_path / "orchtrace-data" / "traces.jsonl").read_bytes().splitlines()
    ]
    assert stored(tmp_path / "store") == {document["trace_id"]: document for document in inline}


def test_random_programs_are_collected_as_they_were_built_inline(tmp_path: Path) -> None:
    """Whatever a program does, its spans build the same run here, in batches of any order."""
    dice = random.Random(7)  # noqa: S311
    with capture(deterministic=False) as captured:
        for seed in range(PROGRAMS):
            Program(seed, is_traced=True).outcome()
    with collecting(tmp_path, "--grace", "0.5", "--fsync", "never") as collector:
        for batch in batches(captured.spans, dice, 50):
            assert post(collector, batch).content == b""
        eventually(lambda: settled(collector), 60)
    found = stored(tmp_path)
    assert {run_id: at_first(found[run_id]) for run_id in found} == as_stored(captured.traces)


REMOTE = textwrap.dedent("""
    import json, os, sys
    import orchtrace_otel as orchtrace

    @orchtrace.tool
    def look_up(): ...

    @orchtrace.agent("remote", role="executor")
    def remote():
        look_up()

    orchtrace.configure(exporters=[])
    with orchtrace.extract(json.loads(sys.argv[1])):
        remote()
    orchtrace.shutdown()
""")


def test_a_run_through_two_processes_arrives_as_one(tmp_path: Path) -> None:
    """The callee's spans come by its own exporter, and lie under the caller's agent."""

    def call() -> None:
        headers = dict(orchtrace.inject())
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "ORCHTRACE_"))}
        subprocess.run(
            [sys.executable, "-c", REMOTE, json.dumps(headers)],
            env=kept | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url},
            check=True,
            timeout=60,
        )

    @orchtrace.team("front")
    def front() -> None:
        call()
        orchtrace.stop("information_complete")

    with collecting(tmp_path, "--grace", "1", "--fsync", "never") as collector:
        with capture(deterministic=False) as captured:
            front()
        OTLPSpanExporter(f"{collector.url}/v1/traces").export(captured.spans)
        eventually(lambda: collector.metric("runs_total", "new") == 1)
    (found,) = lines(tmp_path)
    assert found["trace_id"] == captured.trace.trace_id
    told: list[tuple[Any, ...]] = [
        (event["agent"], event["verb"], event.get("to")) for event in found["events"]
    ]
    assert told == [
        ("user", "begin", "front"),
        ("front", "spawn", "remote"),
        ("remote", "tool_call", None),
        ("remote", "tool_result", None),
        ("remote", "return", "front"),
        ("front", "stop", None),
    ]
    assert found["events"][-1]["flags"] == []
