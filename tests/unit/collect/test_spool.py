"""The spool: what was written comes back whole, whatever end the process had."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.collect import spool as spooling
from orchtrace_otel.collect.admission import RefusedError
from orchtrace_otel.collect.metrics import Metrics
from orchtrace_otel.collect.spool import LOGS, SPANS, Spool
from orchtrace_otel.collect.writing import Accepted, Writer
from tests.collecting import eventually

records = st.lists(st.tuples(st.sampled_from([SPANS, LOGS]), st.binary(max_size=40)), max_size=8)


def read(folder: Path) -> tuple[list[tuple[int, bytes]], int]:
    """Return what a new process finds, and how many records were not whole."""
    spool = Spool(folder)
    found = [(record.kind, record.payload) for record in spool.replay()]
    return found, spool.torn


@given(records, st.sampled_from(["always", "batch", "never"]), st.integers(1, 100))
def test_what_was_written_comes_back_in_order(
    written: list[tuple[int, bytes]], fsync: Any, segment_bytes: int
) -> None:
    """Over any number of segments, and also from a process that was killed."""
    with tempfile.TemporaryDirectory() as name:
        spool = Spool(Path(name), fsync, segment_bytes)
        for record in written:
            spool.append([record])
        assert read(Path(name)) == (written, 0)


@given(records, st.integers(0, 400))
def test_half_a_record_at_the_end_is_passed_over(
    written: list[tuple[int, bytes]], cut: int
) -> None:
    """Wherever a killed process stopped to write, what came before is whole."""
    with tempfile.TemporaryDirectory() as name:
        spool = Spool(Path(name))
        for record in written:
            spool.append([record])
        for path in Path(name).iterdir():
            size = path.stat().st_size
            os.truncate(path, max(size - cut, 0))
        found, torn = read(Path(name))
        assert found == written[: len(found)]
        assert torn <= 1


@given(records.filter(bool), st.data())
def test_a_byte_that_changed_on_disk_is_noticed(
    written: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    """The record is not taken for one; what came before is."""
    with tempfile.TemporaryDirectory() as name:
        spool = Spool(Path(name))
        for record in written:
            spool.append([record])
        (path,) = Path(name).iterdir()
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        found, torn = read(Path(name))
        assert torn == 1
        assert found == written[: len(found)]
        assert len(found) < len(written)


def test_a_segment_goes_when_nothing_holds_it(tmp_path: Path) -> None:
    """Not the one in use, not one that a run still needs; the last one at the end."""
    spool = Spool(tmp_path, segment_bytes=1)
    first = spool.append([(SPANS, b"a"), (SPANS, b"b")])
    spool.hold(first)
    second = spool.append([(SPANS, b"c")])
    assert (spool.segments, spool.oldest()) == (2, first)
    spool.release(first, 2)
    assert spool.segments == 2
    spool.release(first)
    assert (spool.segments, spool.oldest()) == (1, None)
    spool.release(second)
    assert len(list(tmp_path.iterdir())) == 1
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_new_process_writes_beside_what_it_found(tmp_path: Path) -> None:
    """Old segments go once their records were taken up; numbers are never used twice."""
    Spool(tmp_path).append([(SPANS, b"old")])
    spool = Spool(tmp_path)
    (record,) = spool.replay()
    assert spool.append([(SPANS, b"new")]) > record.segment
    spool.release(record.segment)
    assert read(tmp_path) == ([(SPANS, b"new")], 0)


def test_a_write_that_fails_leaves_the_spool_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of it is taken back; the next one goes into a segment of its own."""
    spool = Spool(tmp_path)
    spool.append([(SPANS, b"before")])
    real = os.write

    def half(descriptor: int, data: Any) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:-10])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space left"):
        spool.append([(SPANS, b"lost" * 8)])
    monkeypatch.undo()
    spool.append([(SPANS, b"after")])
    assert read(tmp_path) == ([(SPANS, b"before"), (SPANS, b"after")], 0)


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("is_left", [False, True])
def test_a_segment_that_cannot_be_begun_is_in_nobodys_way(
    before: int, is_left: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder could not be synced, as where no more files may be open: later ones go on.

    Whether it is the first one or not, and whether or not the file could be taken away.
    """
    spool = Spool(tmp_path, segment_bytes=1)
    for number in range(before):
        spool.append([(SPANS, b"%d" % number)])

    def too_many(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(spooling, "sync_path", too_many)
            if is_left:
                patch.setattr(Path, "unlink", too_many)
            with pytest.raises(OSError, match="Too many open files"):
                spool.append([(SPANS, b"lost")])
    spool.append([(SPANS, b"after")])
    records = [(SPANS, b"%d" % number) for number in range(before)]
    assert read(tmp_path) == ([*records, (SPANS, b"after")], 0)


def test_a_segment_that_cannot_be_removed_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken up again by the next process, which knows what is in it."""
    spool = Spool(tmp_path, segment_bytes=1)
    first = spool.append([(SPANS, b"first")])
    spool.append([(SPANS, b"second")])

    def no(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", no)
        spool.release(first)
    assert spool.segments == 1
    assert read(tmp_path) == ([(SPANS, b"first"), (SPANS, b"second")], 0)


class Synced:
    """What would be left of a folder's files without power: what fsync was called for.

    Names count as soon as their folder is synced, which is noted too.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: dict[int, int] = {}
        self.calls = 0
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, descriptor: int) -> None:
        about = os.fstat(descriptor)
        self.calls += 1
        self.sizes[about.st_ino] = about.st_size

    def cut(self, folder: Path, pattern: str) -> None:
        """Take away what was not on the disk."""
        for path in folder.glob(pattern):
            about = path.stat()
            os.truncate(path, min(about.st_size, self.sizes.get(about.st_ino, 0)))


@pytest.mark.parametrize("fsync", ["always", "batch", "never"])
def test_without_power_is_lost_what_the_option_says(
    fsync: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`always` nothing that was written, `batch` what came since its last second, `never` all."""
    disk = Synced(monkeypatch)
    now = 0.0
    monkeypatch.setattr(spooling, "time", SimpleNamespace(monotonic=lambda: now))
    spool = Spool(tmp_path, fsync)
    for number in range(25):
        now = number / 10
        spool.append([(SPANS, b"%d" % number)])
        spool.sync_late()
    # Two folders; then each record, or each second in which something came, or nothing.
    assert disk.calls == {"always": 2 + 25, "batch": 2 + 2, "never": 0}[fsync]
    disk.cut(tmp_path, "*.spool")
    left = [int(payload) for _, payload in read(tmp_path)[0]]
    kept = {"always": 25, "batch": 21, "never": 0}[fsync]
    assert left == list(range(kept))
    now = 3.5
    calls = disk.calls
    spool.sync_late()
    assert disk.calls - calls == (fsync == "batch")
    spool.close()


# --- the queue before it ---------------------------------------------------------------------


class SlowDisk:
    """A spool whose disk waits until it is let go."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.groups: list[int] = []
        self.error: Exception | None = None

    def sync_late(self) -> None:
        """Nothing to wait for."""

    def append(self, group: list[tuple[int, bytes]]) -> int:
        self.goes_on.wait(10)
        if self.error is not None:
            raise self.error
        self.groups.append(len(group))
        return 1


def test_a_slow_disk_lets_no_more_wait_than_the_bound() -> None:
    """Who comes beyond it is told to come back; who waited is written in one go."""
    disk: Any = SlowDisk()
    taken: list[Accepted] = []
    told: list[Exception | None] = []
    writer = Writer(disk, taken.append, 100, Metrics())
    writer.start()
    for _ in range(10):
        writer.put(SPANS, bytes(10), ["part"], told.append)
    with pytest.raises(RefusedError) as caught:
        writer.put(SPANS, b"x", ["part"], told.append)
    assert (caught.value.why, caught.value.retry_s) == ("busy", 2)
    assert told == []
    disk.goes_on.set()
    writer.stop()
    assert told == [None] * 10
    assert sum(disk.groups) == 10
    assert len(disk.groups) <= 2
    assert taken == [Accepted(1, ["part"], 10)] * 10
    # They count until the builder has taken them up.
    assert writer.waiting_bytes == 100
    for one in taken:
        writer.taken_up(one.size)
    assert writer.waiting_bytes == 0


def test_a_write_that_fails_is_told_to_each_sender() -> None:
    """None is acknowledged, nothing waits for them; the reason is there for readiness."""
    disk: Any = SlowDisk()
    disk.error = OSError(errno.ENOSPC, "No space left on device")
    taken: list[Accepted] = []
    told: list[Exception | None] = []
    metrics = Metrics()
    writer = Writer(disk, taken.append, 100, metrics)
    writer.start()
    for _ in range(3):
        writer.put(SPANS, bytes(10), ["part"], told.append)
    disk.goes_on.set()
    writer.stop()
    assert [getattr(error, "why", None) for error in told] == ["unavailable"] * 3
    assert taken == []
    assert writer.waiting_bytes == 0
    assert writer.fault == "the spool cannot be written: No space left on device"
    assert metrics.get("failures", "spool") >= 1
    with pytest.raises(RefusedError) as caught:
        writer.put(SPANS, b"", [], told.append)
    assert caught.value.message == "this collector is about to end"


def test_whatever_goes_wrong_in_a_write_the_next_ones_are_written() -> None:
    """Such as no memory for a large group: its senders are told, and the thread goes on."""
    disk: Any = SlowDisk()
    disk.error = MemoryError()
    told: list[Exception | None] = []
    writer = Writer(disk, lambda _: None, 100, Metrics())
    writer.start()
    disk.goes_on.set()
    writer.put(SPANS, bytes(10), ["part"], told.append)
    eventually(lambda: told)
    assert writer.fault == "the spool cannot be written: MemoryError"
    disk.error = None
    writer.put(SPANS, bytes(10), ["part"], told.append)
    writer.stop()
    assert [getattr(error, "why", None) for error in told] == ["unavailable", None]
    assert writer.fault is None
