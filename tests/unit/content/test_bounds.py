"""Each bound on content: what does not fit is cut or left out, flagged and counted."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import orchtrace_otel as orchtrace
from orchtrace_otel import content, spans
from orchtrace_otel.content import Capture, open_store, read_turn
from orchtrace_otel.content import output as output_module
from orchtrace_otel.content.folders import LocalFolder
from orchtrace_otel.content.notes import Notes, complaints
from orchtrace_otel.content.output import LocalOutput
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.content.writer import Batch, Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def run_of() -> spans.Run:
    run = spans.start_run("team")
    assert run is not None
    return run


def test_a_message_that_is_too_long_is_cut(turn_on: Callable[..., Any]) -> None:
    """What is kept says so, and so do the turn and the run."""
    on = turn_on(item_bytes=1_000)
    run = run_of()
    ref = on.ask(run, [user("x" * 5_000), user("short")])
    run.close()
    turn = read_turn(on.store(), ref)
    assert turn.prompt[0]["flags"] == ["cut"]
    assert len(turn.prompt[0]["parts"][0]["content"]) < 1_000
    assert turn.prompt[1] == {"role": "user", "parts": [{"type": "text", "content": "short"}]}
    assert (turn.flags, on.captured.trace.flags) == (("cut",), ("content_cut", "tokens_unknown"))
    assert on.recorder.losses["content_cut"] == 1


def test_a_run_keeps_no_more_than_it_may(turn_on: Callable[..., Any]) -> None:
    """Later content of it has no ref; that of other runs has."""
    on = turn_on(run_bytes=3_000)
    run, other = run_of(), run_of()
    refs = [on.ask(run, [user(f"{at}" * 500)]) for at in range(6)]
    assert [bool(ref) for ref in refs] == [True] * refs.index("") + [False] * (6 - refs.index(""))
    assert 1 <= refs.index("") <= 4
    assert on.ask(other, [user("x")])
    run.close()
    other.close()
    first, second = on.captured.traces
    assert "content_over_limit" in first.flags
    assert "content_over_limit" not in second.flags
    assert on.recorder.losses["content_over_limit"] > 0
    assert len(on.store().uses(run.id)) > 0


def test_content_that_a_span_cannot_hold_is_left_out_oldest_first(
    turn_on: Callable[..., Any],
) -> None:
    """The latest messages stay, and the store has all of them."""
    on = turn_on(mode="SPAN_AND_EVENT", span_bytes=300)
    run = run_of()
    ref = on.ask(run, [user(f"question {at}") for at in range(10)])
    run.close()
    span = next(span for span in on.captured.spans if span.name == "chat model")
    shown = json.loads(span.attributes["gen_ai.input.messages"])
    said = [one["parts"][0]["content"] for one in shown]
    assert said == [f"question {at}" for at in range(10)][-len(said) :]
    assert 0 < len(said) < 10
    assert len(span.attributes["gen_ai.input.messages"]) <= 300
    assert on.recorder.losses["content_cut_on_spans"] == 1
    assert len(read_turn(on.store(), ref).prompt) == 10


class Stuck:
    """A folder behind a URL that takes nothing until it is let go."""

    is_local = False

    def __init__(self) -> None:
        self.go = threading.Event()
        self.written: list[bytes] = []

    def write(self, name: str, data: bytes) -> None:
        assert self.go.wait(60)
        self.written.append(data)

    def names(self, room: str) -> list[str]:
        return []


def test_a_store_that_hangs_never_holds_up_the_host(turn_on: Callable[..., Any]) -> None:
    """What waits is bounded; beyond that content is dropped, and its refs are written nowhere."""
    on = turn_on()
    folder = Stuck()
    capture = Capture(mode="EVENT_ONLY", store="x", queue_bytes=20_000, segment_bytes=1)
    on.recorder.writer.shutdown(10)
    on.recorder.writer = Writer(folder, capture, on.recorder.lose)  # type: ignore[arg-type]
    run = run_of()
    refs = [on.ask(run, [user(f"{at} " * 500)]) for at in range(60)]
    assert refs[0]
    assert not refs[-1]
    assert not on.recorder.flush(0.01)
    folder.go.set()
    assert on.recorder.flush(30)
    assert on.recorder.losses["content_dropped"] > 0
    kept = b"".join(folder.written)
    assert all(ref.encode() in kept for ref in refs)
    assert kept.count(b" turn ") == sum(map(bool, refs))
    # What had been remembered as kept is put down again, now that there is room.
    again = on.ask(run, [user("59 " * 500)])
    assert on.recorder.flush(30)
    run.close()
    assert again
    assert b"59 59" in b"".join(folder.written)
    assert "content_dropped" in on.captured.trace.flags


def test_a_full_disk_costs_content_and_nothing_else(
    turn_on: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing half-written stays, what is lost is counted, and later content is whole again."""
    on = turn_on()
    run = run_of()
    on.ask(run, [user("before")])
    assert on.recorder.flush(30)
    write = output_module.os.write

    def full(file: int, data: Any) -> int:
        if len(data) < 200:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, bytes(data)[:100])

    monkeypatch.setattr(output_module.os, "write", full)
    lost = on.ask(run, [user("before"), user("lost")])
    assert on.recorder.flush(30)
    monkeypatch.undo()
    again = on.ask(run, [user("before"), user("lost"), user("after")])
    store = on.store()
    assert (lost in store, again in store) == (False, True)
    said = [one["parts"][0]["content"] for one in read_turn(store, again).prompt]
    assert said == ["before", "lost", "after"]
    assert on.recorder.losses["content_unwritten"] > 0
    assert "could not write content" in caplog.text
    for path in (on.where / "segments").iterdir():
        assert path.read_bytes().endswith(b"\n")


def test_what_a_full_disk_cost_is_written_down_once_there_is_room(
    turn_on: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the store, for who looks later; each loss once, and none that was a limit's."""
    on = turn_on(item_bytes=1_000)
    run = run_of()

    def full(file: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(output_module.os, "write", full)
        on.ask(run, [user("lost"), user("x" * 5_000)])
        assert on.recorder.flush(30)
        noted = on.where / "losses.jsonl"
        assert complaints(on.where) == [
            f"documents were lost, and there was no room to note how many in {noted}"
        ]
    on.ask(run, [user("kept")])
    assert on.recorder.flush(30)
    lost = on.recorder.losses["content_unwritten"]
    told = [f"{lost} documents were lost (content_unwritten); {noted} says when"]
    assert (lost > 0, complaints(on.where)) == (True, told)
    on.recorder.shutdown(30)
    assert complaints(on.where) == told


def test_a_child_of_a_fork_writes_down_what_it_lost_itself(tmp_path: Path) -> None:
    """What its parent lost is the parent's to tell."""
    counted = Counter({"content_dropped": 3, "content_cut": 5})
    notes = Notes(tmp_path, counted)
    notes.own_up()
    counted.clear()
    notes.start_afresh()
    counted["content_dropped"] += 2
    notes.own_up()
    notes.own_up()
    lines = (tmp_path / "losses.jsonl").read_text().splitlines()
    lost = [json.loads(line)["lost"] for line in lines]
    assert lost == [3, 2]


@pytest.mark.swallows_errors
def test_a_policy_that_fails_is_named(turn_on: Callable[..., Any], caplog: Any) -> None:
    """As the host's own function; the turn is kept without what it would have said."""
    on = turn_on(policy=refuse)
    assert on.ask(run_of(), [user("one")])
    told = [line for line in caplog.messages if "policy" in line]
    assert told == [
        f"a policy function failed in {__name__}.refuse with LookupError and leaves out what it "
        "would have said; further failures there are only counted; the traceback is logged at "
        "DEBUG"
    ]


def refuse(model: str | None) -> dict[str, str]:
    raise LookupError(model)


@pytest.mark.swallows_errors
def test_a_remote_store_that_refuses_is_tried_again_and_given_up(
    turn_on: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then its content is counted as lost, and the run's next turn puts everything down anew."""
    monkeypatch.setattr("orchtrace_otel.content.writer._TRIES", 2)
    on = turn_on()
    folder = Stuck()
    folder.go.set()
    refusals: list[str] = []
    accept = folder.write

    def refuse(name: str, data: bytes) -> None:
        refusals.append(name)
        raise RuntimeError(name)

    folder.write = refuse  # type: ignore[method-assign]
    on.recorder.writer.shutdown(10)
    on.recorder.writer = Writer(folder, Capture(), on.recorder.lose)  # type: ignore[arg-type]
    run = run_of()
    on.ask(run, [user("one")])
    assert on.recorder.flush(30)
    assert (len(refusals), on.recorder.losses["content_unwritten"]) == (2, 4)
    folder.write = accept  # type: ignore[method-assign]
    on.ask(run, [user("one"), user("two")])
    assert on.recorder.flush(30)
    assert b"one" in folder.written[0]


def test_losses_are_told_by_the_process(tmp_path: Any) -> None:
    """Beside those of traces, after a shutdown too."""
    from opentelemetry.sdk.trace import TracerProvider

    settings = {"mode": "EVENT_ONLY", "store": str(tmp_path), "run_bytes": 10}
    orchtrace.configure(TracerProvider(shutdown_on_exit=False), exporters=[], content=settings)

    @orchtrace.agent
    def say(text: str) -> str:
        return text

    say("too much for this run")
    assert orchtrace.losses()["content_over_limit"] == 2
    orchtrace.shutdown()
    assert orchtrace.losses()["content_over_limit"] == 2
    assert content.active() is None
    content.use_key(None)


def test_nothing_is_written_after_a_shutdown(tmp_path: Any) -> None:
    """What comes late is refused, and refused content has no ref."""
    recorder = set_up(Capture(mode="EVENT_ONLY", store=str(tmp_path)), None)
    content.use(None)
    assert recorder is not None
    assert recorder.writer is not None
    recorder.shutdown(10)
    from orchtrace_otel.content.memory import RunMemory

    assert not recorder.writer.put(Batch("r", ["a"], [], RunMemory(recorder)))
    assert len(open_store(tmp_path)) == 0


def test_content_is_kept_where_nobody_may_read_whose_was_deleted(
    turn_on: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where another user has deleted a run's: one warning, and what comes is written."""
    on = turn_on()
    refs = [on.ask(run_of(), [user("before")])]
    assert on.recorder.flush(30)
    (on.where / "deleted").mkdir()
    real = LocalFolder.names

    def forbidden(folder: LocalFolder, room: str) -> list[str]:
        if room == "deleted":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(folder, room)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFolder, "names", forbidden)
        for text in ("one", "two"):
            refs.append(on.ask(run_of(), [user(text)]))
            assert on.recorder.flush(30)
    store = on.store()
    assert [read_turn(store, ref).prompt[0]["parts"][0]["content"] for ref in refs] == [
        "before",
        "one",
        "two",
    ]
    assert on.recorder.losses == {}
    (told,) = [one.getMessage() for one in caplog.records]
    assert "cannot read whose content was deleted" in told
    assert "(Permission denied)" in told


def test_a_segment_whose_close_fails_is_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota may be told then, as by NFS: its number is another file's from then on."""
    output = LocalOutput(LocalFolder(tmp_path))
    output.write(b"line\n", ())
    real = os.close
    closed: list[int] = []

    def full(file: int) -> None:
        closed.append(file)
        real(file)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", full)
        with pytest.raises(OSError, match="Disk quota exceeded"):
            output.roll()
        output.roll()
    assert len(closed) == 1
    output.write(b"line\n", ())
    output.roll()
    assert len(list(tmp_path.rglob("*.seg"))) == 2


def test_a_file_of_a_store_that_cannot_be_written_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold what others are to delete."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        LocalFolder(tmp_path).write("segments/one.seg", b"secret")
    assert [path.name for path in tmp_path.rglob("*")] == ["segments"]
