"""The store: each thing once, whole or not at all, for several processes, through crashes."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

import orchtrace_otel as orchtrace
from orchtrace_otel import content, spans
from orchtrace_otel.content import collect, delete_run, open_store, read_turn
from orchtrace_otel.content.segments import document_line, use_line
from orchtrace_otel.errors import ContentError
from tests.keeping import Kept

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def run_of(name: str = "team") -> spans.Run:
    run = spans.start_run(name)
    assert run is not None
    return run


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def files(where: Path) -> list[Path]:
    return sorted((where / "segments").iterdir())


def test_a_turn_is_read_back_as_it_was(turn_on: Callable[..., Any]) -> None:
    """Messages, tools, parameters, tokens and what the policy is."""
    from orchtrace_otel.content.messages import look_at_chat, of_chat, of_tools
    from orchtrace_otel.content.tokens import of_answer

    on = turn_on(policy={"version": "v7", "tokenizer": "tiny", "logprobs_kind": "raw"})
    run = run_of()
    interval = spans.open_turn(run.root, "asked")
    given = [{"role": "system", "content": "be good"}, user("who?")]
    tools = of_tools([{"type": "function", "function": {"name": "look", "parameters": {}}}])
    turn = on.recorder.open_turn(
        interval,
        given,
        shape=of_chat,
        look=look_at_chat,
        tools=tools,
        parameters={"temperature": 0.5},
        model="asked",
        provider="here",
    )
    call = {"id": "c", "function": {"name": "look", "arguments": '{"at": "it"}'}}
    answer = {"role": "assistant", "content": "me", "tool_calls": [call]}
    facts = turn.close(
        [answer],
        finish_reasons=["tool_calls"],
        tokens=of_answer({"prompt_token_ids": [1], "token_ids": [2, 3]}),
        response_model="answered",
        response_id="r",
        reasoning="none",
    )
    interval.close(attributes=facts)
    run.close()
    (record,) = on.captured.trace.turns
    found = read_turn(on.store(), record.content_ref)
    assert (record.prompt_ref, record.completion_ref) != (None, None)
    assert found.prompt == (
        {"role": "system", "parts": [{"type": "text", "content": "be good"}]},
        {"role": "user", "parts": [{"type": "text", "content": "who?"}]},
    )
    parts = [
        {"type": "text", "content": "me"},
        {"type": "tool_call", "id": "c", "name": "look", "arguments": {"at": "it"}},
    ]
    assert found.completion == ({"role": "assistant", "parts": parts},)
    assert found.completion_refs == (record.completion_ref,)
    definition = {"type": "function", "name": "look", "description": None, "parameters": {}}
    assert found.tools == (definition,)
    assert (found.run_id, found.turn_id) == (run.id, record.id)
    assert (found.model, found.response_model, found.provider) == ("asked", "answered", "here")
    assert (found.policy_version, found.response_id) == ("v7", "r")
    assert (found.parameters, found.finish_reasons) == ({"temperature": 0.5}, ("tool_calls",))
    tokens = found.tokens
    assert (tokens.provenance, tokens.prompt_ids, tokens.ids) == ("exact", (1,), (2, 3))
    assert (tokens.mask, tokens.tokenizer, tokens.logprobs_kind) == ((1, 1), "tiny", "raw")


def test_a_long_conversation_stores_each_message_once(turn_on: Callable[..., Any]) -> None:
    """A turn's cost in bytes does not grow with what was said before it."""
    on = turn_on()
    run = run_of()
    said: list[dict[str, Any]] = []
    sizes: list[int] = []
    for number in range(200):
        said.append(user(f"question {number:03}"))
        # New dicts with the same texts, as a framework makes them for each call.
        ref = on.ask(run, [dict(one) for one in said], f"answer {number:03}")
        said.append({"role": "assistant", "content": f"answer {number:03}"})
        assert on.recorder.flush(30)
        sizes.append(sum(path.stat().st_size for path in files(on.where)))
    steps = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(steps[1:]) - min(steps[1:]) <= 8
    store = on.store()
    assert len(read_turn(store, ref).prompt) == 399
    kinds = [store.get(one).kind for one in store.uses(run.id)]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "message": 400,
        "prompt": 200,
        "turn": 200,
    }
    assert len(files(on.where)) == 1


def test_a_message_that_changed_is_another_one(turn_on: Callable[..., Any]) -> None:
    """What was remembered of an object holds only while its parts are what they were."""

    class Message:
        def __init__(self, content: Any) -> None:
            self.content = content

    def look(one: Any) -> tuple[Any, ...]:
        held = one.content
        return tuple(held) if isinstance(held, list) else (held,)

    def shape(one: Any) -> dict[str, Any]:
        return {"role": "user", "parts": [{"type": "text", "content": str(one.content)}]}

    on = turn_on()
    run = run_of()
    message, other = Message([{"a": 1}]), Message("b")
    refs: list[str] = []
    for change in (lambda: None, lambda: None, lambda: message.content.append({"c": 2}),
                   lambda: setattr(other, "content", "d")):  # fmt: skip
        change()
        interval = spans.open_turn(run.root, "m")
        turn = on.recorder.open_turn(interval, [message, other], shape=shape, look=look)
        refs.append(turn.close([])["orchtrace.content_ref"])
        interval.close()
    store = on.store()
    prompts = [[one["parts"][0]["content"] for one in read_turn(store, ref).prompt] for ref in refs]
    changed = "[{'a': 1}, {'c': 2}]"
    assert prompts == [["[{'a': 1}]", "b"]] * 2 + [[changed, "b"], [changed, "d"]]


def test_runs_share_what_they_have_in_common(turn_on: Callable[..., Any]) -> None:
    """A system prompt is there once; it stays until the last run that uses it is deleted."""
    on = turn_on()
    runs = [run_of() for _ in range(3)]
    shared = {"role": "system", "content": "the same for all"}
    refs = [on.ask(run, [shared, user(f"own {at}")]) for at, run in enumerate(runs)]
    store = on.store()
    system = read_turn(store, refs[0]).prompt_refs[0]
    assert store.references(system) == 3
    assert sum(path.read_bytes().count(b"the same for all") for path in files(on.where)) == 1
    for at, run in enumerate(runs):
        assert system in open_store(on.where)
        assert read_turn(open_store(on.where), refs[at]).prompt[0]["role"] == "system"
        found = delete_run(on.where, run.id)
        assert (found.busy, found.documents) == (0, 3 if at < 2 else 5)
        left = b"".join(path.read_bytes() for path in files(on.where))
        assert f"own {at}".encode() not in left
        assert run.id.encode() not in left
    assert files(on.where) == []
    with pytest.raises(ContentError, match="was deleted"):
        read_turn(open_store(on.where), refs[0])


def test_a_reader_does_not_find_what_was_deleted_meanwhile(turn_on: Callable[..., Any]) -> None:
    """Though it was open before, once it looks again."""
    on = turn_on()
    run, other = run_of(), run_of()
    ref, kept = on.ask(run, [user("one")]), on.ask(other, [user("two")])
    store = on.store()
    assert read_turn(store, ref).prompt
    delete_run(on.where, run.id)
    store.refresh()
    with pytest.raises(ContentError):
        store.get(ref)
    assert read_turn(store, kept).prompt[0]["parts"][0]["content"] == "two"
    assert store.runs == {other.id: 4}


def test_a_run_that_goes_on_after_its_deletion_keeps_nothing(turn_on: Callable[..., Any]) -> None:
    """Its content is deleted, be it written before or after."""
    on = turn_on()
    run = run_of()
    on.ask(run, [user("before")])
    assert on.recorder.flush(30)
    delete_run(on.where, run.id)
    on.ask(run, [user("after")])
    on.ask(run_of(), [user("another")])
    store = on.store()
    assert run.id not in store.runs
    collect(on.where)
    left = b"".join(path.read_bytes() for path in files(on.where))
    assert (b"before" in left, b"after" in left, b"another" in left) == (False, False, True)


def test_small_segments_are_put_together(turn_on: Callable[..., Any], tmp_path: Path) -> None:
    """Processes that come and go leave one segment behind, and each document once."""
    where = tmp_path / "store"
    refs = []
    for at in range(5):
        on = turn_on()
        refs.append(on.ask(run_of(), [{"role": "system", "content": "same"}, user(f"n{at}")]))
        on.recorder.shutdown(10)
        content.use(None)
    assert len(files(where)) == 5
    found = collect(where)
    assert (found.segments, found.busy, found.documents) == (5, 0, 8)  # 4 systems, 4 answers
    assert len(files(where)) == 1
    before = files(where)[0].read_bytes()
    assert (collect(where).documents, files(where)[0].read_bytes()) == (0, before)
    store = open_store(where)
    assert [read_turn(store, ref).prompt[1]["parts"][0]["content"] for ref in refs] == [
        f"n{at}" for at in range(5)
    ]


WRITE = """
    import sys, os
    import orchtrace_otel as orchtrace
    from opentelemetry.sdk.trace import TracerProvider
    from orchtrace_otel import content, spans
    from orchtrace_otel.content.messages import look_at_chat, of_chat

    where, name, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
    orchtrace.configure(
        TracerProvider(), exporters=[], content={"mode": "EVENT_ONLY", "store": where}
    )
    run = spans.start_run("team")
    said = [{"role": "system", "content": "for all"}]
    for at in range(turns):
        said.append({"role": "user", "content": f"{name} {at}"})
        interval = spans.open_turn(run.root, "m")
        turn = content.active().open_turn(interval, said, shape=of_chat, look=look_at_chat)
        facts = turn.close([])
        interval.close()
        if at % 10 == 0:
            content.active().flush(30)
            print(facts["orchtrace.content_ref"], flush=True)
"""


def writer(where: Path, name: str, turns: int, more: str = "") -> subprocess.Popen[str]:
    code = textwrap.dedent(WRITE) + textwrap.dedent(more)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(where), name, str(turns)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_several_processes_write_to_one_store(tmp_path: Path) -> None:
    """Each segments of its own, with one key: what they share has one ref."""
    started = [writer(tmp_path, name, 50) for name in ("a", "b", "c")]
    refs = [process.communicate(timeout=60)[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    store = open_store(tmp_path)
    assert len(store.runs) == 3
    for name, told in zip("abc", refs, strict=True):
        prompts = [read_turn(store, ref).prompt for ref in told]
        assert [len(prompt) for prompt in prompts] == [2, 12, 22, 32, 42]
        assert prompts[-1][-1]["parts"][0]["content"] == f"{name} 40"
    system = {read_turn(store, told[0]).prompt_refs[0] for told in refs}
    assert len(system) == 1
    assert collect(tmp_path).documents == 2
    assert open_store(tmp_path).references(system.pop()) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_process_loses_what_it_had_not_written_and_blocks_nobody(tmp_path: Path) -> None:
    """What was flushed is whole; its lock is gone with it, and its torn line is no line."""
    process = writer(tmp_path, "k", 31, "import time; time.sleep(60)")
    assert process.stdout is not None
    told = [process.stdout.readline().strip() for _ in range(4)]
    assert collect(tmp_path).busy == 1
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (segment,) = files(tmp_path)
    with segment.open("ab") as file:
        file.write(document_line("message", "0" * 32, b'{"half": "of it"}')[:-10])
    store = open_store(tmp_path)
    assert [len(read_turn(store, ref).prompt) for ref in told] == [2, 12, 22, 32]
    found = collect(tmp_path)
    assert (found.busy, found.documents) == (0, 0)
    store = open_store(tmp_path)
    assert [len(read_turn(store, ref).prompt) for ref in told] == [2, 12, 22, 32]
    assert b"half" not in files(tmp_path)[0].read_bytes()


def test_a_forked_child_writes_a_segment_of_its_own(turn_on: Callable[..., Any]) -> None:
    """It lets go of its parent's, and puts down what it captures itself."""
    on = turn_on()
    on.ask(run_of(), [user("parent")])
    assert on.recorder.flush(30)
    child = os.fork()
    if child == 0:
        try:
            run = run_of()
            on.ask(run, [user("child")])
            on.recorder.shutdown(10)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    on.ask(run_of(), [user("parent again")])
    texts = [path.read_bytes() for path in files(on.store().folder.path)]  # type: ignore[attr-defined]
    assert len(texts) == 2
    assert sum(b'"child"' in text for text in texts) == 1
    assert sum(b'"parent"' in text and b'"parent again"' in text for text in texts) == 1


def test_a_store_behind_a_url_gets_whole_segments(turn_on: Callable[..., Any]) -> None:
    """Any URL that fsspec knows; its key is there, and runs can be deleted."""
    pytest.importorskip("fsspec")
    url = "memory://orchtrace-test"
    on = turn_on(store=url)
    run, other = run_of(), run_of()
    shared = {"role": "system", "content": "the same"}
    ref, kept = on.ask(run, [shared, user("one")]), on.ask(other, [shared, user("two")])
    assert on.recorder.flush(30)
    store = open_store(url)
    assert len(store.folder.names("segments")) == 1
    assert len(store.folder.read("key")) == 64
    assert read_turn(store, ref).prompt[1]["parts"][0]["content"] == "one"
    later = on.ask(run, [shared, user("one"), user("three")])
    assert on.recorder.flush(30)
    store.refresh()
    assert len(read_turn(store, later).prompt) == 3
    assert delete_run(url, run.id).documents == 6  # two of one turn are the other run's too
    store.refresh()
    assert store.runs == {other.id: 5}
    assert read_turn(store, kept).prompt[1]["parts"][0]["content"] == "two"
    assert len(store.folder.names("segments")) == 1


def test_what_is_missing_or_of_another_kind_is_told(turn_on: Callable[..., Any]) -> None:
    """A reader says which ref, and what it is instead."""
    on = turn_on()
    run = run_of()
    ref = on.ask(run, [user("one")])
    store = on.store()
    with pytest.raises(ContentError, match="'0' is not: it was never written"):
        store.get("0")
    prompt = read_turn(store, ref).prompt_refs[0]
    with pytest.raises(ContentError, match="must be the ref of a turn, the store has a message"):
        read_turn(store, prompt)
    odd = document_line("turn", "e" * 32, b'{"version": 99}')
    (on.where / "segments" / "odd.seg").write_bytes(use_line(run.id, ["e" * 32]) + odd)
    store.refresh()
    with pytest.raises(ContentError, match="must be of version 1, got 99"):
        read_turn(store, "e" * 32)


@pytest.mark.parametrize("run_id", ["", "../../etc/passwd", "x" * 49, "A" * 32 + "-" + "B" * 16])
def test_only_a_runs_id_can_be_deleted(tmp_path: Path, run_id: str) -> None:
    """It becomes the name of a file."""
    with pytest.raises(orchtrace.ConfigError, match="needs a run's id"):
        delete_run(tmp_path, run_id)
    assert list(tmp_path.iterdir()) == []


def test_files_of_content_are_their_owners_alone(turn_on: Callable[..., Any]) -> None:
    """The segments as well as the key."""
    on = turn_on()
    on.ask(run_of(), [user("one")])
    store = on.store()
    delete_run(on.where, "0" * 32 + "-" + "0" * 16)
    on.ask(run_of(), [user("two")])
    assert on.recorder.flush(30)
    assert store.runs
    found = {path.stat().st_mode & 0o777 for path in on.where.rglob("*") if path.is_file()}
    assert found == {0o600}


GO_ON = """
    sys.stdin.readline()
    interval = spans.open_turn(run.root, "m")
    said.append({"role": "user", "content": "too late"})
    turn = content.active().open_turn(interval, said, shape=of_chat, look=look_at_chat)
    turn.close([])
    content.active().flush(30)
    print("looked", flush=True)
    sys.stdin.readline()
"""


def test_a_process_that_writes_lets_go_of_a_run_that_another_one_deleted(tmp_path: Path) -> None:
    """It takes no more of the run and ends its segment, so that the rest can be collected."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITE) + textwrap.dedent(GO_ON), tmp_path, "w", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    ref = process.stdout.readline().strip()
    store = open_store(tmp_path)
    (run_id,) = store.runs
    assert delete_run(tmp_path, run_id).busy == 1
    store.refresh()
    assert ref not in store
    process.stdin.write("go on\n")
    process.stdin.flush()
    assert process.stdout.readline() == "looked\n"
    found = collect(tmp_path)
    assert (found.busy, found.documents) == (0, 4)
    assert files(tmp_path) == []
    process.communicate("end\n", timeout=60)
    assert process.returncode == 0
    assert open_store(tmp_path).runs == {}


def test_a_run_that_is_sampled_out_by_others_keeps_no_content(tmp_path: Path) -> None:
    """Where a user's sampler drops a run, nothing of it is captured."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    @orchtrace.agent
    def worker(text: str) -> str:
        orchtrace.message("other", text)
        return text

    try:
        orchtrace.configure(
            TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False),
            exporters=[],
            content={"mode": "SPAN_AND_EVENT", "store": str(tmp_path)},
        )
        assert worker("nobody reads this") == "nobody reads this"
        assert orchtrace.flush()
    finally:
        orchtrace.shutdown()
        content.use_key(None)
    assert len(open_store(tmp_path)) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_threads_of_one_run_keep_each_thing_once(turn_on: Callable[..., Any]) -> None:
    """Every ref that a trace names is in the store, however the threads came in between."""
    import threading

    on = turn_on()

    @orchtrace.tool
    def look(query: str) -> str:
        return query

    @orchtrace.team
    def lead() -> None:
        def work(name: int) -> None:
            for at in range(30):
                look(f"{name} {at % 5}")

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with orchtrace.instrument():
        lead()
    store = on.store()
    refs = [e["content_ref"] for e in on.captured.trace.events if e.get("content_ref")]
    assert len(refs) == 8 * 30 * 2 + 2
    assert all(ref in store for ref in refs)
    # Forty arguments, forty results, and what the team was given and gave back.
    assert len(store) == 82


def test_where_no_thread_can_start_the_end_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter on its way out starts none, nor does a system that has no more."""

    def refuse(self: threading.Thread) -> None:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    @orchtrace.team
    def answer(question: str) -> str:
        return question

    exporter = Kept()
    orchtrace.configure(
        TracerProvider(shutdown_on_exit=False),
        exporters=[exporter],
        content={"mode": "EVENT_ONLY", "store": str(tmp_path)},
    )
    monkeypatch.setattr(threading.Thread, "start", refuse)
    try:
        answer("who?")
        assert orchtrace.flush()
        answer("why?")
    finally:
        orchtrace.shutdown()
    assert orchtrace.losses() == {}
    refs = {event["content_ref"] for trace in exporter.traces for event in trace.events[:1]}
    with open_store(str(tmp_path)) as store:
        assert len(refs) == 2
        assert all(store.get(ref) is not None for ref in refs)
