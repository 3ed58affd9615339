"""Disk and memory have bounds and may fail: what that costs is counted, what is left arrives."""

# pyright: reportPrivateUsage=false
# A pause of the sender is set from outside: waiting for one would take its time.

from __future__ import annotations

import errno
import gzip
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from orchtrace_http import HttpExporter, _outbox, _spool, open_http
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.schema import dump
from orchtrace_otel.testing._samples import own_traces
from tests.exporters.http.killed import killed
from tests.exporters.http.pushing import documents, exporter_to, files, unused_port
from tests.exporters.http.receiver import Receiver, receiver


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


def test_half_a_line_that_cannot_be_taken_back_spoils_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails in the middle of a line and once more: the next line is whole."""
    spool = _spool.Spool(tmp_path, 2**20)
    spool.append(b'{"n":1}\n')
    real = os.write

    def breaks(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    def half(descriptor: int, data: memoryview) -> int:
        monkeypatch.setattr(os, "write", breaks)
        return real(descriptor, data[: len(data) // 2])

    for last in (b'{"n":2}\n', b""):
        monkeypatch.setattr(os, "write", half)
        monkeypatch.setattr(os, "ftruncate", breaks)
        with pytest.raises(OSError, match="Input/output error"):
            spool.append(b'{"n":"%s"}\n' % (b"x" * 100))
        monkeypatch.undo()
        if last:
            spool.append(last)
    batch = spool.seal()
    assert batch is not None
    assert batch.path is not None
    assert batch.read() == b'{"n":1}\n{"n":2}\n'
    assert _spool.Batch(batch.path).read() == b'{"n":1}\n{"n":2}\n'


@pytest.mark.parametrize("step", ["open", "rename"])
def test_a_drawer_that_cannot_be_made_leaves_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run tries again, as where no more files may be open."""

    def too_many(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, step, too_many)
    with pytest.raises(OSError, match="Too many open files"):
        _spool.Spool(tmp_path, 2**20).check()
    monkeypatch.undo()
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system has no /proc")
def test_a_removed_spool_on_a_full_disk_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was in the batch is written anew with each line, until there is room."""
    spool = _spool.Spool(tmp_path, 2**20)
    spool.append(b'{"n":1}\n')

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    shutil.rmtree(tmp_path)
    spool.check()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space left"):
                spool.append(b'{"n":2}\n')
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock"]
    spool.append(b'{"n":2}\n')
    batch = spool.seal()
    assert batch is not None
    assert batch.read() == b'{"n":1}\n{"n":2}\n'


def test_whatever_goes_wrong_while_it_sends_the_rest_is_sent(
    server: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as no memory to pack a batch, or a close that fails: the thread goes on."""
    exporter = exporter_to(server.url, tmp_path)
    real, real_close = gzip.compress, os.close
    failed: list[str] = []

    def fails(*given: Any, **named: Any) -> bytes:
        if "compress" not in failed:
            failed.append("compress")
            raise MemoryError
        return real(*given, **named)

    def fails_to_close(file: int) -> None:
        real_close(file)
        if "close" not in failed:
            failed.append("close")
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(gzip, "compress", fails)
    traces = own_traces(2)
    exporter.export(traces[0])
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", fails_to_close)
        exporter.flush(10)
    exporter.export(traces[1])
    exporter.flush(10)
    exporter.shutdown()
    assert sorted(failed) == ["close", "compress"]
    assert server.traces() == documents(traces)
    assert exporter.dropped == {}
