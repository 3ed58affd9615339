"""A server that is away, not trusted or silent holds nobody up, and gets the runs later."""

import time
from pathlib import Path

import pytest

from orchtrace_otel.delivery import Delivery
from orchtrace_otel.model import Reward
from orchtrace_otel.testing._samples import own_traces
from tests.exporters.http.pushing import (
    by_id,
    documents,
    exporter_to,
    files,
    unused_port,
)
from tests.exporters.http.receiver import TLS, Receiver, receiver


def test_what_could_not_be_sent_is_sent_by_the_next_exporter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody listens, a shutdown leaves the runs in the spool; one warning, no loss."""
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    traces = own_traces(3)
    exporter = exporter_to(url, tmp_path)
    for trace in traces[:2]:
        exporter.export(trace)
        exporter.flush(10)
    assert "bytes wait in" in exporter.complaints()[0]
    exporter.shutdown()
    assert exporter.dropped == {}
    assert len(files(tmp_path)) == 2
    (told,) = [one.getMessage() for one in caplog.records]
    assert told == (
        f"orchtrace cannot deliver finished runs to {url} now: it does not take them "
        "(ConnectError: Connection refused); they wait, and are tried again"
    )
    with receiver(port) as server:
        exporter = exporter_to(url, tmp_path)
        exporter.export(traces[2])
        exporter.flush(10)
        assert exporter.complaints() == []
        exporter.shutdown()
        assert by_id(server.traces()) == by_id(documents(traces))
    assert list(tmp_path.rglob("*-*")) == []


def test_a_flush_alone_sends_what_others_left(tmp_path: Path) -> None:
    """A process that exports nothing may be the one that delivers."""
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    first = exporter_to(url, tmp_path)
    first.export(own_traces(1)[0])
    first.shutdown()
    with receiver(port) as server:
        second = exporter_to(url, tmp_path)
        second.flush(10)
        second.shutdown()
        assert len(server.traces()) == 1


def test_a_certificate_that_is_not_trusted_keeps_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are sent once it is: `SSL_CERT_FILE` names who is trusted."""
    traces = own_traces(1)
    with receiver(tls=True) as server:
        exporter = exporter_to(server.url, tmp_path)
        exporter.export(traces[0])
        exporter.flush(10)
        exporter.shutdown()
        assert (server.traces(), exporter.dropped) == ([], {})
        (told,) = [one.getMessage() for one in caplog.records]
        assert "ConnectError: TLS, self-signed certificate" in told
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "loopback.crt"))
        exporter = exporter_to(server.url, tmp_path)
        exporter.flush(10)
        exporter.shutdown()
        assert server.traces() == documents(traces)


def test_certificates_that_are_none_keep_the_runs(
    server: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever goes wrong before a request can be made, the thread goes on and tries again."""
    (tmp_path / "trusted.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    exporter = exporter_to(server.url, tmp_path)
    exporter.export(own_traces(1)[0])
    exporter.flush(10)
    assert "they wait, and are tried again" in caplog.text
    monkeypatch.delenv("SSL_CERT_FILE")
    exporter.flush(10)
    exporter.shutdown()
    assert len(server.traces()) == 1
    assert exporter.dropped == {}


def test_a_server_that_never_answers_holds_nobody_up(
    server: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither export, nor a flush beyond its time, nor a shutdown; where the runs are is told."""
    server.may_answer.clear()
    exporter = exporter_to(server.url, tmp_path, "&timeout=60")
    began = time.monotonic()
    for trace in own_traces(3):
        exporter.export(trace)
    exporter.flush(0.2)
    exporter.shutdown()
    assert time.monotonic() - began < 25
    assert files(tmp_path)
    assert exporter.dropped == {}
    (told,) = [one.getMessage() for one in caplog.records]
    assert f"it does not answer; what is sent waits in {exporter.target.folder}" in told


def test_what_waits_in_the_spool_at_the_end_is_not_told_as_lost(
    server: Receiver, tmp_path: Path
) -> None:
    """A server that is silent for all of the shutdown's time: the exporter is done within it."""
    server.may_answer.clear()
    lost: list[str] = []
    exporter = exporter_to(server.url, tmp_path, "&timeout=60")
    delivery = Delivery(
        [exporter],
        10,
        lambda kind, *_, **__: lost.append(kind),
        lambda kind, _: lost.append(kind),
    )
    delivery.put(("run", Reward(id="a", component="correct", value=1.0)))
    delivery.shutdown(2.0)
    assert lost == []
    assert files(tmp_path)


def test_a_server_that_is_silent_too_long_is_tried_again(server: Receiver, tmp_path: Path) -> None:
    """After `timeout` seconds; it may have taken the batch, so the key is the same."""
    server.may_answer.clear()
    exporter = exporter_to(server.url, tmp_path, "&timeout=0.2")
    exporter.export(own_traces(1)[0])
    while len(server.requests) < 3:
        exporter.flush(10)
    server.may_answer.set()
    while files(tmp_path):
        exporter.flush(10)
    exporter.shutdown()
    assert len({one.headers["idempotency-key"] for one in server.requests}) == 1
    assert len({line["key"] for line in server.lines()}) == 1
