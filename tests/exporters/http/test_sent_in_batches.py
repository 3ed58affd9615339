"""Runs are sent as lines, packed, in batches that are not too large."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from orchtrace_otel.model import Reward
from orchtrace_otel.schema import dump
from orchtrace_otel.testing._samples import own_traces
from tests.exporters.http.pushing import documents, exporter_to, files, push
from tests.exporters.http.receiver import Receiver

REWARD = Reward(id="late", component="correctness", value=0.5)


def test_a_body_is_the_traces_as_lines_packed(server: Receiver, tmp_path: Path) -> None:
    """Each with its type and key; the request has the key of the whole batch."""
    traces = own_traces()
    exporter = exporter_to(f"{server.url}/runs?tenant=a", tmp_path, "&every=30")
    for trace in traces:
        exporter.export(trace)
    exporter.amend(traces[0].trace_id, REWARD)
    exporter.flush(10)
    exporter.shutdown()
    (request,) = server.requests
    lines = [
        *(
            {"type": "trace", "key": f"{one['trace_id']}:0", "trace": one}
            for one in documents(traces)
        ),
        {
            "type": "reward",
            "key": f"{traces[0].trace_id}:late",
            "run_id": traces[0].trace_id,
            "reward": REWARD.to_dict(),
        },
    ]
    assert request.lines == lines
    assert request.path == "/runs?tenant=a"
    body = gzip.decompress(request.body)
    assert len(request.body) < len(body) / 3
    assert {name: request.headers[name] for name in ("content-type", "content-encoding")} == {
        "content-type": "application/x-ndjson",
        "content-encoding": "gzip",
    }
    assert request.headers["idempotency-key"] == hashlib.sha256(body).hexdigest()[:32]
    assert request.headers["user-agent"].startswith("orchtrace-otel/")
    assert files(tmp_path) == []
    assert list(tmp_path.rglob("*-*")) == []


def test_a_batch_has_no_more_than_its_bytes(server: Receiver, tmp_path: Path) -> None:
    """One record may have more; none is parted, none is joined with too many others."""
    traces = own_traces(12)
    size = max(len(dump(trace)) for trace in traces)
    exporter = exporter_to(server.url, tmp_path, f"&every=30&batch_kib={3 * size / 1024:.6f}")
    push(exporter, *traces)
    assert server.traces() == documents(traces)
    bodies = [gzip.decompress(one.body) for one in server.requests]
    assert len(bodies) >= 3
    assert all(len(body) <= 3 * size for body in bodies)


def test_a_lone_trace_is_sent_without_a_flush(server: Receiver, tmp_path: Path) -> None:
    """After `every` seconds, by the exporter's own thread."""
    exporter = exporter_to(server.url, tmp_path)
    exporter.export(own_traces(1)[0])
    assert server.silent.wait(20)
    exporter.shutdown()
    assert len(server.traces()) == 1


def test_nothing_is_exported_after_a_shutdown(server: Receiver, tmp_path: Path) -> None:
    """It raises, so that the pipeline counts it."""
    exporter = exporter_to(server.url, tmp_path)
    exporter.shutdown()
    with pytest.raises(OSError, match="was shut down"):
        exporter.export(own_traces(1)[0])
