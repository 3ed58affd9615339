"""Pushed over real sockets: what is exported arrives, whatever the server and the disk do."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from opentelemetry.sdk.trace import TracerProvider

pytest.importorskip("httpx")

import orchtrace_otel as orchtrace
from orchtrace_http import HttpExporter, _exporter, _outbox, open_http
from orchtrace_http._pace import Pace
from orchtrace_http._post import seconds_of
from orchtrace_http._target import read_target
from orchtrace_otel import _guard
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.schema import dump
from orchtrace_otel.testing._samples import own_traces
from orchtrace_otel.testing.conformance_exporters import ExporterConformance
from tests.exporters.http.receiver import TLS, Receiver, receiver
from tests.processes import run

REWARD = Reward(id="late", component="correctness", value=0.5)


@pytest.fixture
def server() -> Iterator[Receiver]:
    """A server that takes everything."""
    with receiver() as running:
        yield running


@pytest.fixture(autouse=True)
def told_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was warned of before may be warned of again; no proxy stands before loopback."""
    monkeypatch.setattr(_guard, "_told", set())
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def unused_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Quick(Pace):
    """Tries again at once, and remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    def failed(self, asked_s: float | None = None) -> float:
        self.asked.append(asked_s)
        return 0.001


def exporter_to(
    url: str, folder: Path, options: str = "", pace: Pace | None = None
) -> HttpExporter:
    """An exporter with its spool in a folder."""
    exporter = HttpExporter(
        read_target(f"{url}#spool={folder}&every=0.01{options}"), pace or Quick()
    )
    exporter.check()
    return exporter


def documents(traces: list[Trace]) -> list[Any]:
    """Traces as they arrive."""
    return [json.loads(dump(trace)) for trace in traces]


def by_id(found: list[Any]) -> list[Any]:
    """Documents in one order."""
    return sorted(found, key=lambda one: str(one["trace_id"]))


def files(folder: Path) -> list[Path]:
    """What lies in a spool, locks aside."""
    return sorted(path for path in folder.rglob("*.jsonl"))


class TestHttp(ExporterConformance):
    """The exporter to a URL keeps every promise that an exporter makes."""

    can_break = True

    @pytest.fixture(autouse=True)
    def _served(self, server: Receiver) -> None:
        self.server = server

    def open(self, folder):
        return open_http(f"{self.server.url}{quote(str(folder))}#spool={folder}/spool&every=0.01")

    def read(self, folder):
        return self.server.traces(quote(str(folder)))

    def read_rewards(self, folder):
        return self.server.rewards(quote(str(folder)))

    def break_target(self, folder):
        self.server.otherwise = (400, {})


# --- what is sent -----------------------------------------------------------------------


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
    for trace in traces:
        exporter.export(trace)
    exporter.flush(10)
    exporter.shutdown()
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


# --- what the server answers -------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_go_away_is_tried_again(server: Receiver, tmp_path: Path, status: int) -> None:
    """The very same request, until it is taken; nothing counts as lost."""
    traces = own_traces(2)
    server.script.extend([(status, {})] * 2)
    exporter = exporter_to(server.url, tmp_path, "&every=30")
    for trace in traces:
        exporter.export(trace)
    exporter.flush(10)
    exporter.shutdown()
    assert server.traces() == documents(traces)
    assert len(server.requests) == 3
    assert len({(one.body, one.headers["idempotency-key"]) for one in server.requests}) == 1
    assert exporter.dropped == {}


def test_a_server_says_when_to_come_back(server: Receiver, tmp_path: Path) -> None:
    """`Retry-After` in seconds or as a date goes to the pace; nonsense does not."""
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    server.script.extend((503, {"Retry-After": text}) for text in ("7", date, "soon"))
    pace = Quick()
    exporter = exporter_to(server.url, tmp_path, pace=pace)
    exporter.export(own_traces(1)[0])
    while len(server.taken) < 1:
        exporter.flush(10)
    exporter.shutdown()
    seven, hour, nothing = pace.asked
    assert (seven, nothing) == (7, None)
    assert hour is not None
    assert 3_500 < hour <= 3_600


def test_a_pause_that_was_asked_for_is_kept(server: Receiver, tmp_path: Path) -> None:
    """No try before it is over, and a flush that ends sooner leaves the rest to the spool."""
    server.script.append((429, {"Retry-After": "3000"}))
    exporter = exporter_to(server.url, tmp_path, pace=Pace())
    exporter.export(own_traces(1)[0])
    exporter.flush(60)
    exporter.flush(60)
    assert len(server.requests) == 1
    assert len(files(tmp_path)) == 1
    exporter.shutdown()
    assert exporter.dropped == {}


def test_seconds_in_the_past_are_none_to_wait() -> None:
    """A date that is over, or without a zone, is no reason to fail."""
    now = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert seconds_of("Sun, 29 Nov 2026 11:00:00 GMT", now) == 0
    assert seconds_of("Sun, 29 Nov 2026 12:00:05 -0000", now) == 5
    assert seconds_of("-5", now) is None
    assert seconds_of("9" * 400, now) == 999_999_999


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_what_is_refused_for_good_is_dropped_and_counted(
    server: Receiver, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """In `losses()`, by records; told once; later runs go on."""
    server.script.extend([(status, {})] * 2)
    exporter = exporter_to(server.url, tmp_path, "&every=30")
    orchtrace.configure(TracerProvider(shutdown_on_exit=False), exporters=[exporter])
    critic = orchtrace.agent("critic")(len)
    for calls in (2, 3, 1):
        for _ in range(calls):
            critic("fine")
        assert orchtrace.flush() is (calls == 1)
    orchtrace.shutdown()
    assert orchtrace.losses()["http_refused"] == 5
    assert len(server.traces()) == 1
    told = [one.getMessage() for one in caplog.records if "http_refused" in one.getMessage()]
    assert told == [
        f"orchtrace lost data on its way to {server.url} (http_refused, status {status}); "
        "further losses are counted"
    ]


def test_a_batch_that_is_too_large_is_parted(server: Receiver, tmp_path: Path) -> None:
    """Until the server takes it; each part has a key of its own."""
    traces = own_traces(7)
    server.most_lines = 2
    exporter = exporter_to(server.url, tmp_path, "&every=30")
    for trace in traces:
        exporter.export(trace)
    exporter.flush(10)
    exporter.shutdown()
    assert server.traces() == documents(traces)
    assert exporter.dropped == {}
    keys = [one.headers["idempotency-key"] for one in server.requests]
    assert len(set(keys)) == len(keys)


def test_a_record_that_alone_is_too_large_is_counted(server: Receiver, tmp_path: Path) -> None:
    """It cannot be parted, and would stand in the way for ever."""
    server.most_lines = 0
    exporter = exporter_to(server.url, tmp_path, "&every=30")
    for trace in own_traces(3):
        exporter.export(trace)
    with pytest.raises(OSError, match=r"3 records .* were lost \(http_refused: 3\)"):
        exporter.flush(10)
    exporter.shutdown()
    assert files(tmp_path) == []


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_server_is_followed(
    server: Receiver, tmp_path: Path, status: int
) -> None:
    """With method and body."""
    server.script.append((status, {"Location": "/elsewhere"}))
    exporter = exporter_to(f"{server.url}/here", tmp_path)
    traces = own_traces(1)
    exporter.export(traces[0])
    exporter.flush(10)
    exporter.shutdown()
    assert server.traces("/elsewhere") == documents(traces)


def test_a_redirect_elsewhere_gets_neither_data_nor_headers(
    server: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that would make a GET of it, nor one that goes round: refused, and counted."""
    monkeypatch.setenv("ORCHTRACE_HTTP_TOKEN", "s3cret")
    with receiver() as other:
        exporter = exporter_to(server.url, tmp_path)
        for answer in (
            (307, {"Location": other.url}),
            (302, {"Location": "/login"}),
            (307, {}),
        ):
            server.script.append(answer)
            exporter.export(own_traces(1)[0])
            with pytest.raises(OSError, match="1 records"):
                exporter.flush(10)
        server.otherwise = (307, {"Location": "/round"})
        exporter.export(own_traces(1)[0])
        with pytest.raises(OSError, match="1 records"):
            exporter.flush(10)
        exporter.shutdown()
        assert other.requests == []
    assert [one.path for one in server.requests] == ["/"] * 4 + ["/round"] * 3
    assert exporter.dropped == {"http_refused": 4}


# --- a server that is not there, or not itself -------------------------------------------


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


def test_a_server_that_never_answers_holds_nobody_up(server: Receiver, tmp_path: Path) -> None:
    """Neither export, nor a flush beyond its time, nor a shutdown; the run stays in the spool."""
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


# --- processes that end ------------------------------------------------------------------

DYING = """
    import os, signal, sys
    from dataclasses import replace
    from orchtrace_otel.testing._samples import own_traces
    from orchtrace_http import open_http
    exporter = open_http({target!r})
    for trace in own_traces({count}):
        trace = replace(trace, trace_id=f"{{trace.trace_id}} of {{os.getpid()}}")
        exporter.export(trace)
        print(trace.to_json(), flush=True)
    {last}
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(target: str, count: int = 5, last: str = "pass") -> list[Any]:
    """Export some runs in a process that is killed thereafter; return their documents."""
    code = textwrap.dedent(DYING).format(target=target, count=count, last=last)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_killed_process_loses_nothing_that_was_exported(tmp_path: Path) -> None:
    """The next one sends it. Half a line is none; one that a bad disk spoiled is counted."""
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    exported = killed(f"{url}#spool={tmp_path}")
    (batch,) = files(tmp_path)
    with batch.open("ab") as file:
        file.write(b'\0\0\0\n{"type":"trace","key":"cut')
    with receiver(port) as server:
        exporter = exporter_to(url, tmp_path)
        with pytest.raises(OSError, match="http_spool_damaged: 1"):
            exporter.flush(10)
        exporter.shutdown()
        assert server.traces() == exported
        assert len(exported) == 5
    assert files(tmp_path) == []


def test_a_process_killed_while_it_sends_sends_the_same_again(
    server: Receiver, tmp_path: Path
) -> None:
    """The server had the batch and did not say so: it comes again, under the same keys."""
    server.script.append((503, {"Retry-After": "3000"}))
    killed(f"{server.url}#spool={tmp_path}", last="exporter.flush(60)")
    assert len(server.requests) == 1
    exporter = exporter_to(server.url, tmp_path)
    exporter.flush(10)
    exporter.shutdown()
    assert len({one.headers["idempotency-key"] for one in server.requests}) == 1
    assert len({line["key"] for line in server.lines()}) == 5


def test_processes_share_a_spool(server: Receiver, tmp_path: Path) -> None:
    """Each run of each arrives, once, while all write and some are killed."""
    for _ in range(3):
        server.script.append((503, {}))
    target = f"{server.url}#spool={tmp_path}&every=0.01&batch_kib=8"
    ends = ["exporter.flush(20); exporter.shutdown()", "pass", "exporter.flush(20)"]
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(DYING).format(target=target, count=10, last=last),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for last in ends
    ]
    for process in running:
        _, error = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL, error
    exporter = exporter_to(server.url, tmp_path)
    exporter.flush(20)
    exporter.shutdown()
    assert len({line["key"] for line in server.lines()}) == 30
    assert files(tmp_path) == []


def test_a_live_process_keeps_its_drawer(tmp_path: Path) -> None:
    """Another exporter sends what the dead left, and never what one that lives still has."""
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    alive = exporter_to(url, tmp_path, "&every=3000")
    alive.export(own_traces(1)[0])
    with receiver(port) as server:
        other = exporter_to(url, tmp_path)
        other.flush(10)
        other.shutdown()
        assert server.requests == []
        alive.flush(10)
        alive.shutdown()
        assert len(server.traces()) == 1


def test_one_urls_runs_are_never_sent_to_another(server: Receiver, tmp_path: Path) -> None:
    """Though they share a spool."""
    first = exporter_to(f"http://127.0.0.1:{unused_port()}", tmp_path)
    first.export(own_traces(1)[0])
    first.shutdown()
    second = exporter_to(server.url, tmp_path)
    second.flush(10)
    second.shutdown()
    assert server.requests == []
    assert len(files(tmp_path)) == 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_sends_its_own_alone(server: Receiver, tmp_path: Path) -> None:
    """What the parent had taken is the parent's; each arrives once."""
    exporter = exporter_to(server.url, tmp_path, "&every=3000")
    traces = own_traces(2)
    exporter.export(traces[0])
    child = os.fork()
    if child == 0:
        try:
            exporter.export(traces[1])
            exporter.flush(10)
            exporter.shutdown()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert server.traces() == documents(traces[1:])
    exporter.flush(10)
    exporter.shutdown()
    assert server.traces() == documents([traces[1], traces[0]])
    assert list(tmp_path.rglob("*-*")) == []


SCRIPT = """
    import orchtrace_otel as orchtrace
    orchtrace.configure()
    @orchtrace.team("research")
    def research(): return orchtrace.agent("searcher")(len)("abc")
    research()
    {last}
"""


@pytest.mark.parametrize("last", ["", "orchtrace.shutdown()", "raise SystemExit(0)"])
def test_a_script_that_ends_delivers(server: Receiver, tmp_path: Path, last: str) -> None:
    """Named in the environment alone, without a flush."""
    target = f"http:{server.url}/runs#spool={tmp_path}"
    said = run(SCRIPT.format(last=last), ORCHTRACE_EXPORTERS=target)
    assert said == ""
    assert len(server.traces("/runs")) == 1
    assert files(tmp_path) == []


def test_a_script_whose_server_is_down_ends_soon_and_says_so(tmp_path: Path) -> None:
    """After three tries, before the time of a shutdown is over; the run waits, nothing is lost."""
    url = f"http://127.0.0.1:{unused_port()}"
    said = run(
        SCRIPT.format(last="orchtrace.shutdown(); assert not orchtrace.losses()"),
        ORCHTRACE_EXPORTERS=f"http:{url}#spool={tmp_path}",
    )
    assert said.count("orchtrace") == 1
    assert "cannot deliver finished runs" in said
    assert len(files(tmp_path)) == 1


# --- disks -------------------------------------------------------------------------------


def test_a_full_spool_drops_the_oldest_and_counts(tmp_path: Path) -> None:
    """The bound holds, also for what a dead process left; what is left is the newest."""
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    killed(f"{url}#spool={tmp_path}", 2)
    traces = own_traces(40)
    exporter = exporter_to(url, tmp_path, "&every=3000&batch_kib=16&spool_mib=0.0625")
    for trace in traces:
        exporter.export(trace)
        assert sum(path.stat().st_size for path in files(tmp_path)) <= 65_536 + 16_384
    lost = exporter.dropped["http_spool_full"]
    assert lost > 2
    with receiver(port) as server:
        with pytest.raises(OSError, match=f"{lost} records"):
            exporter.flush(10)
        exporter.shutdown()
        came = [one["trace_id"] for one in server.traces()]
    assert came == [one.trace_id for one in traces if one.trace_id in came]
    assert came[-1] == traces[-1].trace_id
    assert len(came) + lost == 42


def test_a_server_that_is_slow_slows_the_exporter_and_costs_nothing(
    server: Receiver, tmp_path: Path
) -> None:
    """Where the spool is full and the server works, `export` waits for room."""
    traces = own_traces(40)
    exporter = exporter_to(server.url, tmp_path, "&batch_kib=16&spool_mib=0.0625")
    for trace in traces:
        exporter.export(trace)
    exporter.flush(20)
    exporter.shutdown()
    assert (server.traces(), exporter.dropped) == (documents(traces), {})


def test_a_spool_that_cannot_be_written_is_told_when_it_is_opened(tmp_path: Path) -> None:
    """With the place, and what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"must be able to write its spool .*#spool="):
        open_http(f"http://127.0.0.1:1#spool={tmp_path}/file")


def unwritable(exporter: HttpExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the disk."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("orchtrace_http._spool._write_whole", full)


def test_a_spool_that_breaks_later_is_done_without(
    server: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Runs are kept in memory and arrive; one warning."""
    exporter = exporter_to(server.url, tmp_path, "&every=3000")
    traces = own_traces(3)
    exporter.export(traces[0])
    unwritable(exporter, monkeypatch)
    for trace in traces[1:]:
        exporter.export(trace)
    exporter.flush(10)
    exporter.shutdown()
    assert server.traces() == documents(traces)
    assert exporter.dropped == {}
    (told,) = [one.getMessage() for one in caplog.records]
    assert "its spool cannot be written (No space left on device)" in told


def test_memory_is_bounded_and_what_it_costs_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither spool nor server: the newest are kept, and at the end they are lost too."""
    traces = own_traces(20)
    exporter = exporter_to(f"http://127.0.0.1:{unused_port()}", tmp_path)
    unwritable(exporter, monkeypatch)
    monkeypatch.setattr(_outbox, "_MOST_HELD", 40_000)
    for trace in traces:
        exporter.export(trace)
    with pytest.raises(OSError, match="http_memory_full"):
        exporter.flush(10)
    exporter.shutdown()
    assert exporter.dropped.total() == 20
    assert set(exporter.dropped) == {"http_memory_full", "http_unsent"}


def test_a_spool_that_somebody_removes_comes_back(server: Receiver, tmp_path: Path) -> None:
    """The batch that was being written is written again; another one is gone, and counted."""
    traces = own_traces(7)[::2]
    size = max(len(dump(trace)) for trace in traces)
    options = f"&every=3000&batch_kib={2.5 * size / 1024:.6f}"
    exporter = exporter_to(server.url, tmp_path, options)
    exporter._sender._not_before = time.monotonic() + 3_000
    for trace in traces[:3]:
        exporter.export(trace)
    assert len(files(tmp_path)) == 2
    shutil.rmtree(tmp_path)
    exporter.export(traces[3])
    exporter._sender._not_before = 0
    with pytest.raises(OSError, match="http_spool_unreadable: 2"):
        exporter.flush(10)
    exporter.shutdown()
    assert server.traces() == documents(traces[2:])


def test_only_the_owner_may_read_the_spool(tmp_path: Path) -> None:
    """Traces may refer to what is nobody else's business."""
    exporter = exporter_to(f"http://127.0.0.1:{unused_port()}", tmp_path / "spool")
    exporter.export(own_traces(1)[0])
    (batch,) = files(tmp_path)
    assert batch.stat().st_mode & 0o077 == 0
    assert batch.parent.stat().st_mode & 0o077 == 0
    exporter.shutdown()


# --- what is said, and what is not -------------------------------------------------------


def test_headers_come_from_the_environment_and_are_told_nowhere(
    server: Receiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not in the log of any library at DEBUG, not in reports, files or errors."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ORCHTRACE_HTTP_TOKEN", "s3cret-token")
    monkeypatch.setenv("ORCHTRACE_HTTP_HEADERS", "x-tenant=a, x-key=s3cret%2Ckey")
    server.script.extend([(503, {}), (400, {})])
    exporter = exporter_to(f"{server.url}/s3cret-path?k=s3cret-query", tmp_path)
    exporter.export(own_traces(1)[0])
    with pytest.raises(OSError, match="records") as error:
        exporter.flush(10)
    exporter.shutdown()
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer s3cret-token"
    assert (headers["x-tenant"], headers["x-key"]) == ("a", "s3cret,key")
    ours = [one.getMessage() for one in caplog.records if one.name == "orchtrace_otel"]
    said = [str(error.value), *ours, *exporter.complaints()]
    assert "s3cret" not in "".join(said)
    assert "s3cret-token" not in caplog.text
    assert "s3cret,key" not in caplog.text
    assert "s3cret-token" not in repr(exporter.target)
    assert all(b"s3cret" not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("", "takes an http:// or https:// URL, got ''"),
        ("//host/path", "say http:http://host/path"),
        ("ftp://host", "takes an http:// or https:// URL"),
        ("https://", "takes an http:// or https:// URL"),
        ("https://host:0", "takes an http:// or https:// URL"),
        ("https://host:99999", "takes an http:// or https:// URL"),
        ("https://host/a b", "takes an http:// or https:// URL"),
        ("https://me:s3cret@host", "must hold no user and no password"),
        ("https://host#spol=x", "must be among spool, spool_mib, batch_kib, every, timeout"),
        ("https://host#every=0", "option every of http: must be a number above 0, got '0'"),
        ("https://host#timeout=inf", "must be a number above 0, got 'inf'"),
    ],
)
def test_a_wrong_target_says_what_must_hold(target: str, says: str) -> None:
    """And shows no secret."""
    with pytest.raises(ConfigError) as error:
        read_target(target, {})
    assert says in str(error.value)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"HEADERS": "s3cret"}, "must be name=value,name=value"),
        ({"HEADERS": "a b=s3cret"}, "must be name=value,name=value"),
        ({"HEADERS": "content-type=s3cret"}, "must leave content-type to the exporter"),
        ({"HEADERS": "x=s3cret%0Ay: 1"}, "must be printable ASCII"),
        ({"TOKEN": "s3crét"}, "ORCHTRACE_HTTP_TOKEN must be printable ASCII"),
        ({"TOKEN": "s3cret", "HEADERS": "Authorization=s3cret"}, "exclude each other"),
    ],
)
def test_a_wrong_variable_says_what_must_hold(variables: dict[str, str], says: str) -> None:
    """And shows no secret."""
    environment = {f"ORCHTRACE_HTTP_{name}": value for name, value in variables.items()}
    with pytest.raises(ConfigError) as error:
        read_target("https://host", environment)
    assert says in str(error.value)
    assert "s3cr" not in str(error.value)


def test_a_spec_names_scheme_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`http:http://host` is the exporter and its URL; `http://host` alone says how to write it."""
    monkeypatch.setenv("ORCHTRACE_HTTP_SPOOL", str(tmp_path))
    opened = orchtrace_exporter("http:http://127.0.0.1:1/x")
    assert opened.target.url == "http://127.0.0.1:1/x"
    assert opened.target.folder.parent == tmp_path
    opened.shutdown()
    assert list(tmp_path.rglob("*-*")) == []
    with pytest.raises(ConfigError, match=r"say http:http://127\.0\.0\.1:1/x"):
        orchtrace_exporter("http://127.0.0.1:1/x")


def orchtrace_exporter(spec: str) -> Any:
    """What a list of exporters opens."""
    from orchtrace_otel.exporter import open_exporter

    return open_exporter(spec)


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is opened, and not before."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(orchtrace.MissingDependencyError, match=r"orchtrace-otel\[http\]"):
        open_http("https://host")


def test_nothing_is_exported_after_a_shutdown(server: Receiver, tmp_path: Path) -> None:
    """It raises, so that the pipeline counts it."""
    exporter = exporter_to(server.url, tmp_path)
    exporter.shutdown()
    with pytest.raises(OSError, match="was shut down"):
        exporter.export(own_traces(1)[0])
    assert _exporter.HttpExporter is HttpExporter
