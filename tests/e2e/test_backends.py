"""Our spans in back ends that people use: what these keep is enough for the trace.

Each needs a server of 850 MB that no environment of ours holds, named by
`ORCHTRACE_MLFLOW` and `ORCHTRACE_PHOENIX` or found on PATH; `make test-backends`
installs them.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchtrace_otel import attributes as a
from orchtrace_otel import otlp
from orchtrace_otel.builder import SpanRecord, is_ours
from orchtrace_otel.model import Trace
from tests.collecting import PROTOBUF, as_stored, encoded, eventually, free_port, recorded

pytestmark = [pytest.mark.backend, pytest.mark.timeout(600)]


def command(name: str) -> str:
    """Return the command that starts a back end, or skip."""
    found = os.environ.get(f"ORCHTRACE_{name.upper()}") or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; `make test-backends` has it")
    return found


@contextmanager
def server(*arguments: str, ready: str, cwd: Path, **environment: str) -> Iterator[None]:
    """Run a back end until the block ends, once it says that it is ready."""
    process = subprocess.Popen(
        arguments,
        cwd=cwd,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_ready() -> bool:
        assert process.poll() is None, "the back end ended before it was ready"
        try:
            return httpx.get(ready, timeout=5).is_success
        except httpx.TransportError:
            return False

    try:
        eventually(is_ready, 300)
        yield
    finally:
        process.terminate()
        process.wait(60)


def received(trace_id: str, span_id: str, parent_id: str | None, held: dict[str, Any]) -> Any:
    """A span as a back end kept it."""
    attributes = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in held["attributes"].items()
    }
    times = held["start"], held["end"]
    record = SpanRecord(span_id, parent_id, *times, attributes, is_error=held["is_error"])
    if not is_ours(attributes):
        otlp.keep_foreign(record, held["name"])
    return trace_id, record


def as_sent(attributes: dict[str, str]) -> dict[str, Any]:
    """Attributes as they were before MLflow wrote each as JSON; a text that is JSON it leaves."""
    return {
        key: text if key == a.REWARD_RECORDS else json.loads(text)
        for key, text in attributes.items()
    }


def send(url: str, **headers: str) -> tuple[list[Trace], int]:
    """Send some runs in one request; return them, and how many spans they have."""
    traces, spans = recorded(5, random.Random(1))  # noqa: S311 - a load, not a secret
    told = httpx.post(url, content=encoded(spans), headers=PROTOBUF | headers, timeout=60)
    assert told.is_success, told.text
    return traces, len(spans)


def test_what_mlflow_keeps_is_the_trace(tmp_path: Path) -> None:
    """Every span, attribute and link is in its database, and the runs are equal to inline."""
    mlflow = command("mlflow")
    port, database = free_port(), tmp_path / "mlflow.db"
    with server(
        *(mlflow, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{database}"),
        *("--default-artifact-root", str(tmp_path / "artifacts")),
        ready=f"http://127.0.0.1:{port}/health",
        cwd=tmp_path,
        MLFLOW_DISABLE_TELEMETRY="true",
    ):
        url = f"http://127.0.0.1:{port}/v1/traces"
        traces, count = send(url, **{"x-mlflow-experiment-id": "0"})
        with closing(sqlite3.connect(database)) as kept:
            ask = "SELECT trace_id, span_id, parent_span_id, content FROM spans"
            eventually(lambda: len(kept.execute(ask).fetchall()) == count)
            rows = kept.execute(ask).fetchall()
    links = 0
    found = []
    for trace_id, span_id, parent_id, content in rows:
        held = json.loads(content)
        links += len(held["links"])
        found.append(
            received(
                trace_id.removeprefix("tr-"),
                span_id,
                parent_id,
                {
                    "name": held["name"],
                    "start": held["start_time_unix_nano"],
                    "end": held["end_time_unix_nano"],
                    "attributes": as_sent(held["attributes"]),
                    "is_error": held["status"]["code"] == "STATUS_CODE_ERROR",
                },
            )
        )
    assert as_stored(otlp.traces(found)) == as_stored(traces)
    edges = {edge for trace in traces for edge in trace.edges}
    own = {edge for edge in edges if edge.src[:16] == edge.dst[:16]}
    assert links >= len(edges - own), "there is a link for each edge but those inside one span"


def test_phoenix_keeps_parents_attributes_and_so_the_edges(tmp_path: Path) -> None:
    """It drops links; the arrays of edges stay, which is what the trace is built of."""
    phoenix = command("phoenix")
    port, grpc = free_port(), free_port()
    with server(
        phoenix,
        "serve",
        ready=f"http://127.0.0.1:{port}/healthz",
        cwd=tmp_path,
        PHOENIX_WORKING_DIR=str(tmp_path),
        PHOENIX_SQL_DATABASE_URL=f"sqlite:///{tmp_path / 'phoenix.db'}",
        PHOENIX_HOST="127.0.0.1",
        PHOENIX_PORT=str(port),
        PHOENIX_GRPC_PORT=str(grpc),
        PHOENIX_TELEMETRY_ENABLED="false",
        PHOENIX_ALLOW_EXTERNAL_RESOURCES="false",
    ):
        traces, count = send(f"http://127.0.0.1:{port}/v1/traces")
        url = f"http://127.0.0.1:{port}/v1/projects/default/spans?limit=1000"
        eventually(lambda: len(httpx.get(url, timeout=30).json()["data"]) == count)
        spans = httpx.get(url, timeout=30).json()["data"]
    kept = {span["context"]["span_id"]: span for span in spans}
    for trace in traces:
        for event in trace.events:
            assert kept[event.id[:16]]["context"]["trace_id"] == trace.trace_id[:32]
    written = {
        (item.partition(":")[2], span_id)
        for span_id, span in kept.items()
        for key in ("orchtrace.edges", "orchtrace.edges.close")
        for item in span["attributes"].get(key, ())
    }
    own = {(edge.src, edge.dst) for trace in traces for edge in trace.edges}
    assert {(src, dst[:16]) for src, dst in own if src[:16] != dst[:16]} <= written
