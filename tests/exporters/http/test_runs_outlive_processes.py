"""Runs outlive the processes that export them, however these end and whoever shares the spool."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchtrace_otel.testing._samples import own_traces
from tests.exporters.http.killed import dying, killed
from tests.exporters.http.pushing import documents, exporter_to, files, unused_port
from tests.exporters.http.receiver import Receiver, receiver
from tests.processes import run


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
            [sys.executable, "-c", dying(target, 10, last)],
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
