"""Finished traces as JSON lines: whole lines only, whoever writes, dies or runs out of disk."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchtrace_files import JsonlExporter, LineFile, open_jsonl
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Edge, Event, Reward, Trace

UNLIMITED = 2**40


def trace(name: str = "r-1") -> Trace:
    """Return a small trace."""
    events = (
        Event("e1", 0, "spawn", "lead", {"verb": "spawn", "to": "worker ü"}),
        Event("e2", 0.25, "return", "worker ü", {"verb": "return"}),
    )
    return Trace(
        trace_id=name,
        task_id="q",
        events=events,
        edges=(Edge("e1", "e2", "causal"),),
        costs={"tokens": 3, "wall_clock_s": 0.25},
    )


def lines(path: Path) -> list[object]:
    """Parse every line of a file that must end with a line feed."""
    text = path.read_bytes()
    assert text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


def test_a_folder_gets_a_file_of_traces(tmp_path: Path) -> None:
    """A folder is created, and each trace is one line that reads back equal."""
    exporter = open_jsonl(f"{tmp_path}/deep/traces/")
    exporter.export(trace("a"))
    exporter.export(trace("b"))
    exporter.flush(1.0)
    exporter.shutdown()

    written = (tmp_path / "deep" / "traces" / "traces.jsonl").read_bytes().splitlines()
    assert [Trace.from_json(line) for line in written] == [trace("a"), trace("b")]


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    """A second process, or a second exporter, goes on where the first one stopped."""
    target = str(tmp_path / "runs.jsonl")
    open_jsonl(target).export(trace("a"))
    open_jsonl(target).export(trace("b"))

    assert [line["trace_id"] for line in lines(Path(target))] == ["a", "b"]


@pytest.mark.parametrize(
    ("target", "rewards"),
    [("traces", "traces/rewards.jsonl"), ("runs.jsonl", "runs.rewards.jsonl")],
)
def test_late_rewards_lie_beside_the_traces(tmp_path: Path, target: str, rewards: str) -> None:
    """A reward that comes after the run names the run, and says only what is known."""
    exporter = open_jsonl(str(tmp_path / target))
    exporter.amend("r-1", Reward(id="w1", component="correctness", value=1.0))

    assert lines(tmp_path / rewards) == [
        {
            "run_id": "r-1",
            "id": "w1",
            "component": "correctness",
            "value": 1.0,
            "family": "R1",
            "unit": "team",
            "estimator": "outcome",
            "provisional": False,
        }
    ]


def test_a_full_file_is_renamed_away(tmp_path: Path) -> None:
    """No file exceeds its size, the names sort by age, and no line is lost."""
    lines_file = LineFile(tmp_path / "traces.jsonl", max_bytes=30)
    for number in range(7):
        lines_file.append(b'{"n":%d,"x":1}' % number)

    files = sorted(tmp_path.glob("traces*.jsonl"))
    assert [file.name for file in files] == [
        "traces.000001.jsonl",
        "traces.000002.jsonl",
        "traces.000003.jsonl",
        "traces.jsonl",
    ]
    assert [line["n"] for file in files for line in lines(file)] == list(range(7))
    assert all(file.stat().st_size <= 30 for file in files)


def test_a_full_file_that_somebody_takes_away_costs_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who rotates files does so whenever they like, also between a look and a rename."""
    file = LineFile(tmp_path / "traces.jsonl", 10)
    file.append(b'{"n":1}')
    real = Path.rename

    def too_late(path: Path, target: Path) -> Path:
        real(path, tmp_path / "taken.jsonl")
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", too_late)
        assert file.append(b'{"n":2}') == 0
    assert lines(tmp_path / "taken.jsonl") == [{"n": 1}]
    assert lines(tmp_path / "traces.jsonl") == [{"n": 2}]


def test_a_line_larger_than_the_size_gets_a_file_of_its_own(tmp_path: Path) -> None:
    """A trace that alone exceeds the size is written whole, not refused."""
    lines_file = LineFile(tmp_path / "traces.jsonl", max_bytes=5)
    lines_file.append(b'"long enough"')
    lines_file.append(b'"another one"')

    assert lines(tmp_path / "traces.000001.jsonl") == ["long enough"]
    assert lines(tmp_path / "traces.jsonl") == ["another one"]


def test_the_size_can_be_set_in_the_target(tmp_path: Path) -> None:
    """`?max_bytes=` behind the target sets the size of a file."""
    exporter = open_jsonl(f"{tmp_path}/?max_bytes=10")
    exporter.export(trace("a"))
    exporter.export(trace("b"))

    assert [line["trace_id"] for line in lines(tmp_path / "traces.000001.jsonl")] == ["a"]


@pytest.mark.parametrize(
    "target",
    [
        "",
        "?max_bytes=5",
        "d/?max_bytes=0",
        "d/?max_bytes=-3",
        "d/?max_bytes=1e6",
        "d/?size=3",
        "https://user:pw@host/traces",
        "traces.json",
        "traces.jsonl.gz",
    ],
)
def test_a_wrong_target_is_refused(target: str) -> None:
    """A target that says nothing we know is an error that says what to write."""
    with pytest.raises(ConfigError, match=r"got .*; say .*jsonl:traces/") as caught:
        open_jsonl(target)
    assert "pw" not in str(caught.value)


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    """Set-up fails loudly where nothing could ever be written."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"must be able to write .* got 'Not a directory'"):
        open_jsonl(f"{tmp_path}/file/traces/")


WITHOUT_PERMISSION = """
import os, sys
from orchtrace_files import open_jsonl
if os.geteuid() == 0:
    os.setuid(65534)
try:
    open_jsonl(sys.argv[1])
except ValueError as error:
    print(error)
"""


def test_a_place_without_permission_is_refused(tmp_path: Path) -> None:
    """Permission denied shows when the exporter is opened, not when the first run ends."""
    (tmp_path / "closed").mkdir(mode=0o500)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PERMISSION, f"{tmp_path}/closed/traces"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "got 'Permission denied'; give a place that this process may write" in done.stdout


def test_a_folder_that_vanishes_is_made_anew(tmp_path: Path) -> None:
    """Somebody cleared it away while a service runs: no run of the service is lost for it."""
    exporter = open_jsonl(f"{tmp_path}/deep/traces")
    shutil.rmtree(tmp_path / "deep")
    exporter.export(trace("a"))
    assert [line["trace_id"] for line in lines(tmp_path / "deep/traces/traces.jsonl")] == ["a"]
    assert exporter.complaints() == []


def test_a_folder_that_vanishes_and_cannot_be_made_is_a_loss_that_is_counted(
    tmp_path: Path,
) -> None:
    """The trace raises for the pipeline to count; once there is a place, writing goes on."""
    exporter = open_jsonl(f"{tmp_path}/traces")
    shutil.rmtree(tmp_path / "traces")
    (tmp_path / "traces").write_text("in the way")
    with pytest.raises(NotADirectoryError):
        exporter.export(trace("a"))
    (tmp_path / "traces").unlink()
    exporter.export(trace("b"))
    assert [line["trace_id"] for line in lines(tmp_path / "traces" / "traces.jsonl")] == ["b"]
    assert "1 lines were lost (Not a directory)" in exporter.complaints()[0]


def test_half_a_line_left_by_a_killed_writer_is_taken_away(tmp_path: Path) -> None:
    """A torn tail is never joined with the next line, however long it is."""
    path = tmp_path / "traces.jsonl"
    for torn in (b'{"n":', b"[" * 200_000, b"\x00"):
        path.write_bytes(b'{"n":1}\n' + torn)
        LineFile(path, UNLIMITED).append(b'{"n":2}')
        assert lines(path) == [{"n": 1}, {"n": 2}]


def test_a_file_that_is_but_half_a_line_starts_afresh(tmp_path: Path) -> None:
    """A writer killed in its first line leaves nothing behind."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b'{"n"')
    LineFile(path, UNLIMITED).append(b'{"n":2}')
    assert lines(path) == [{"n": 2}]


def test_a_whole_line_without_line_feed_is_kept(tmp_path: Path) -> None:
    """An editor that ends a file without a line feed loses nobody's trace."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b'{"n":1}')
    LineFile(path, UNLIMITED).append(b'{"n":2}')
    assert lines(path) == [{"n": 1}, {"n": 2}]


def test_a_write_in_pieces_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system may take a line in pieces; the line is whole all the same."""
    whole_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole_write(fd, bytes(data)[:3]))
    LineFile(tmp_path / "traces.jsonl", UNLIMITED).append(b'{"n":123456}')
    monkeypatch.undo()
    assert lines(tmp_path / "traces.jsonl") == [{"n": 123456}]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written of a line goes away again; the error says which file, to who asked."""
    lines_file = LineFile(tmp_path / "traces.jsonl", UNLIMITED)
    lines_file.append(b'{"n":1}')
    whole_write = os.write

    def write(descriptor: int, data: bytes) -> int:
        if len(data) < 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole_write(descriptor, bytes(data)[:4])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left") as raised:
        lines_file.append(b'{"n":2}')
    assert raised.value.filename == str(tmp_path / "traces.jsonl")
    monkeypatch.undo()
    assert (tmp_path / "traces.jsonl").read_bytes() == b'{"n":1}\n'

    lines_file.append(b'{"n":3}')
    assert lines(tmp_path / "traces.jsonl") == [{"n": 1}, {"n": 3}]


def test_what_was_lost_is_written_down_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next line that fits brings the loss to the file that the doctor reads."""
    exporter = open_jsonl(str(tmp_path))

    def write(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            exporter.export(trace("lost"))
    monkeypatch.undo()
    assert exporter.complaints() == ["2 lines were lost (No space left on device)"]

    exporter.export(trace("kept"))
    exporter.shutdown()
    [loss] = lines(tmp_path / "losses.jsonl")
    assert (loss["lost"], loss["why"], loss["pid"]) == (2, "No space left on device", os.getpid())
    where = tmp_path / "losses.jsonl"
    assert open_jsonl(str(tmp_path)).complaints() == [
        f"2 lines were lost (No space left on device); {where} says when"
    ]


def test_a_line_that_was_written_is_no_loss_where_earlier_ones_cannot_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where another user made the file of losses: every line after it was told as lost."""
    exporter = open_jsonl(str(tmp_path))

    def write(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space left"):
            exporter.export(trace("lost"))
    (tmp_path / "losses.jsonl").mkdir()
    exporter.export(trace("kept"))
    exporter.amend("kept", Reward(id="a", component="correct", value=1.0))
    assert [line["trace_id"] for line in lines(tmp_path / "traces.jsonl")] == ["kept"]
    assert exporter.complaints() == ["1 lines were lost (No space left on device)"]


def test_a_disk_without_room_for_its_own_loss_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of losses could be made and nothing be written to it: that says enough."""
    exporter = open_jsonl(str(tmp_path))

    def write(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left"):
        exporter.export(trace("lost"))
    exporter.shutdown()
    where = tmp_path / "losses.jsonl"
    assert open_jsonl(str(tmp_path)).complaints() == [
        f"lines were lost, and there was no room to note how many in {where}"
    ]


AT_A_LIMIT = """
import resource, sys
from pathlib import Path
from orchtrace_files import LineFile
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
lines = LineFile(Path(sys.argv[1]), 2**40)
lost = 0
for number in range(20):
    try:
        lines.append(b'{"n":%02d,"x":"......"}' % (number + 10))
    except OSError:
        lost += 1
print(lost)
"""


def test_a_limit_of_the_system_leaves_no_half_line(tmp_path: Path) -> None:
    """A real limit on the size of files: what fits is there, whole, and the rest is told."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    path = tmp_path / "traces.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", AT_A_LIMIT, path], capture_output=True, text=True, check=True
    )
    assert len(lines(path)) == 4
    assert done.stdout == "16\n"


WRITER = """
import sys
from pathlib import Path
from orchtrace_files import LineFile
name, path, count, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
lines = LineFile(path, size)
print("ready", flush=True)
sys.stdin.readline()
filler = "x" * 30_000
for number in range(count):
    lines.append(f'{{"by":"{name}","n":{number},"x":"{filler[: number * 37 % 30_000]}"}}'.encode())
"""


def start_writer(name: str, path: Path, count: int, size: int) -> subprocess.Popen[str]:
    """Start a process that writes lines of many lengths once it is told to."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, name, path, str(count), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def go(*writers: subprocess.Popen[str]) -> None:
    """Let waiting writers write."""
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()


def end(*writers: subprocess.Popen[str]) -> None:
    """Wait for writers and close their pipes."""
    for writer in writers:
        writer.communicate(timeout=60)


def test_processes_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    """Four processes at once, and a rotation now and then: every line whole, once, in order."""
    path = tmp_path / "traces.jsonl"
    writers = [start_writer(name, path, 150, 500_000) for name in "abcd"]
    go(*writers)
    end(*writers)

    files = sorted(tmp_path.glob("traces*.jsonl"))
    assert len(files) > 3
    by_writer: dict[str, list[int]] = {name: [] for name in "abcd"}
    for file in files:
        for line in lines(file):
            by_writer[line["by"]].append(line["n"])
    assert by_writer == {name: list(range(150)) for name in "abcd"}


def test_killed_processes_leave_whole_lines(tmp_path: Path) -> None:
    """Writers are killed in the midst of writing; whoever writes next leaves a clean file."""
    path = tmp_path / "traces.jsonl"
    chance = random.Random(7)  # noqa: S311 (moments to kill at, no secret)
    survivor = start_writer("survivor", path, 400, UNLIMITED)
    go(survivor)
    for round_ in range(4):
        victims = [start_writer(f"victim {round_}.{n}", path, 10**9, UNLIMITED) for n in range(2)]
        go(*victims)
        size = path.stat().st_size if path.exists() else 0
        enough = size + chance.randrange(50_000, 900_000)
        while path.stat().st_size < enough:
            pass
        for victim in victims:
            victim.send_signal(signal.SIGKILL)
        end(*victims)
    end(survivor)

    LineFile(path, UNLIMITED).append(b'{"by":"after","n":0,"x":""}')
    written = lines(path)
    assert [line["n"] for line in written if line["by"] == "survivor"] == list(range(400))
    assert written[-1]["by"] == "after"
    for round_ in range(4):
        for n in range(2):
            numbers = [line["n"] for line in written if line["by"] == f"victim {round_}.{n}"]
            assert numbers == list(range(len(numbers)))


def test_threads_that_write_one_file_do_not_mix(tmp_path: Path) -> None:
    """Two exporters of one process on one file keep their lines apart."""
    exporters = [open_jsonl(f"{tmp_path}/runs.jsonl") for _ in range(2)]

    def write(exporter: JsonlExporter, name: str) -> None:
        for number in range(100):
            exporter.export(trace(f"{name}-{number}"))

    threads = [
        threading.Thread(target=write, args=(exporter, name))
        for exporter, name in zip(exporters, "ab", strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    names = sorted(line["trace_id"] for line in lines(tmp_path / "runs.jsonl"))
    assert names == sorted(f"{name}-{number}" for name in "ab" for number in range(100))


FORKS = """
import os, sys, threading
from pathlib import Path
from orchtrace_files import LineFile
lines = LineFile(Path(sys.argv[1]), 2**40)
held, release = threading.Event(), threading.Event()
def hold():
    with lines._locked():
        held.set()
        release.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    lines.append(b'{"by":"child"}')
    os._exit(0)
release.set()
thread.join()
os.waitpid(child, 0)
lines.append(b'{"by":"parent"}')
"""


def test_a_fork_in_the_midst_of_a_write_blocks_nobody(tmp_path: Path) -> None:
    """A child forked while another thread writes waits for that write, and then writes."""
    path = tmp_path / "traces.jsonl"
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS, path], check=True, timeout=30)
    assert lines(path) == [{"by": "child"}, {"by": "parent"}]


ON_A_FULL_DISK = """
import logging, resource, sys
import orchtrace_otel as orchtrace
logging.basicConfig(format="%(message)s")
orchtrace.configure(exporters=["jsonl:" + sys.argv[1]])
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
@orchtrace.team("adders")
def add(a, b):
    return a + b
print([add(n, 1) for n in range(20)] == list(range(1, 21)))
orchtrace.flush()
print(orchtrace.losses()["export_failed:JsonlExporter"])
orchtrace.shutdown()
"""


def test_an_application_goes_on_when_the_disk_is_full(tmp_path: Path) -> None:
    """Its results are right, what fits is written whole, and each loss is counted and told."""
    done = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, tmp_path], capture_output=True, text=True, check=True
    )
    written = len(lines(tmp_path / "traces.jsonl"))
    assert written > 0
    assert done.stdout == f"True\n{20 - written}\n"
    assert done.stderr.count("orchtrace lost data (export_failed:JsonlExporter") == 1
    assert "JsonlExporter, OSError: File too large)" in done.stderr
    assert len(done.stderr.splitlines()) == 2  # the first loss, and the sum at shutdown
    assert f"export_failed:JsonlExporter: {20 - written}" in done.stderr
