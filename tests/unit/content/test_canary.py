"""A secret planted wherever plain code can hide one is found nowhere it may not be.

Off: in no span, no OTLP bytes, no trace, no line of a file, no log. On: nowhere after
redaction, in the store neither.
"""

from __future__ import annotations

import gzip
import json
import logging
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

import orchtrace_otel as orchtrace
from orchtrace_files import open_jsonl, open_parquet
from orchtrace_http import open_http
from orchtrace_otel import spans
from orchtrace_otel.content import active
from orchtrace_otel.content.messages import look_at_chat, of_chat, of_tools, sampling
from orchtrace_otel.content.tokens import of_answer
from orchtrace_otel.datasets import Job, export, known_writers
from orchtrace_otel.errors import MissingDependencyError
from orchtrace_otel.model import Reward
from orchtrace_otel.tables.spool import with_late
from orchtrace_otel.testing import Captured, capture
from tests.recorded import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CANARY = "canary-5e1f"
KEY = f"sk-{CANARY}-0123456789abcdef"
"""As a secret of known make; `TOKEN_IDS` spell it as well."""
TOKEN_IDS = list(range(71_317_131_713_001, 71_317_131_713_020))


class LeakyError(Exception):
    """An error whose texts hold the secret in every way."""

    def __str__(self) -> str:
        return KEY

    __repr__ = __str__


def ask(run: spans.Run | None, answer: str) -> None:
    """Ask a model, by hand: prompt, answer, tools, parameters, tokens, headers."""
    recorder = active()
    if run is None or recorder is None:
        return
    interval = spans.open_turn(run.root, "model")
    odd = [{"type": "image_url", "image_url": {"url": f"http://u:{KEY}@h/"}},
           {"type": "odd", "odd": {KEY: KEY}}]  # fmt: skip
    # Neither what is redacted nor what is no text gets into data sets: one call is plain.
    more = odd if answer == KEY else []
    given = [
        {"role": "system", "content": f"use {KEY}", "name": KEY},
        {"role": "user", "content": [{"type": "text", "text": KEY}, *more]},
        {"role": "assistant", "content": None, "reasoning_content": KEY, "tool_calls": [
            {"id": KEY, "function": {"name": "look", "arguments": f'{{"q": "{KEY}"}}'}}]},
        {"role": "tool", "tool_call_id": KEY, "content": KEY},
    ]  # fmt: skip
    tools = [{"type": "function", "function": {
        "name": "look", "description": KEY,
        "parameters": {"properties": {"q": {"description": KEY, "default": KEY}}}}}]  # fmt: skip
    request = {"temperature": 1, "stop": [KEY], "extra_headers": {"Authorization": KEY},
               "api_key": KEY, "metadata": {"k": KEY}, "user": KEY}  # fmt: skip
    turn = recorder.open_turn(
        interval,
        given,
        shape=of_chat,
        look=look_at_chat,
        tools=of_tools(tools),
        parameters=sampling(request),
    )
    assert turn is not None
    said = {"content": [{"token": KEY, "logprob": -1.0} for _ in TOKEN_IDS]}
    facts = turn.close(
        [{"role": "assistant", "content": answer}],
        finish_reasons=["stop"],
        tokens=of_answer(
            {"prompt_token_ids": TOKEN_IDS}, {"token_ids": TOKEN_IDS, "logprobs": said}
        ),
    )
    interval.close(attributes=facts)


@orchtrace.tool
def look(query: str, *, headers: Any) -> Any:
    """Find what is asked, or fail with it."""
    if query.startswith("fail"):
        raise LeakyError(KEY, {"url": f"https://h/?api_key={KEY}"})
    return {"found": query, "password": KEY, "set": {KEY}, "bytes": KEY.encode()}


@orchtrace.agent
def worker(task: str, state: Any) -> str:
    """Work with everything that may hide a secret."""
    orchtrace.message("critic", {"text": KEY})
    orchtrace.delegate("critic", task=[KEY])
    look(KEY, headers=[("Authorization", f"Bearer {KEY}"), ("X-Key", KEY)])
    with pytest.raises(LeakyError):
        look("fail", headers={"Cookie": KEY})
    for answer in (KEY, "nothing secret"):  # what is redacted is in no data set of texts
        ask(orchtrace.current_run(), answer)
    return f"{task} is {KEY}"


@orchtrace.agent
def streaming(task: str) -> Iterator[str]:
    """Stream what it was given."""
    yield task
    yield KEY


@orchtrace.team
def lead(task: str) -> str:
    """Have it done, and fail in the end."""
    worker(task, {"messages": [KEY], KEY: KEY, "state": LeakyError(KEY)})
    list(streaming(task))
    raise LeakyError(f"https://user:{KEY}@host/", KEY)


class Everything(logging.Handler):
    """Every log record of any level."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def plain(file: Path) -> bytes:
    """What is in a file, as it reads when nothing is compressed."""
    data = file.read_bytes()
    if file.suffix == ".parquet":
        return json.dumps(pq.read_table(file).to_pylist(), default=str).encode()
    return data + (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else b"")


def told(captured: Captured, where: Path) -> bytes:
    """All that left: spans, OTLP bytes, JSON lines, tables, what waits to be pushed, the store."""
    store = f"?content={where / 'store'}" if (where / "store").exists() else ""
    nobody = f"http://127.0.0.1:1/#spool={where / 'spool'}"
    for exporter in (
        open_jsonl(str(where / "lines")),
        open_parquet(f"{where / 'lake'}{store}"),
        open_http(nobody),
    ):
        for trace in captured.traces:
            exporter.export(trace)
        with suppress(OSError):
            exporter.flush(0.1)
        exporter.shutdown()
    files = [path for path in where.rglob("*") if path.is_file()]
    assert {path.relative_to(where).parts[0] for path in files} >= {"lines", "lake", "spool"}
    lines = b"".join(map(plain, files))
    otlp = encode_spans(captured.spans).SerializeToString()
    shown = "".join(span.to_json() for span in captured.spans)
    return lines + otlp + shown.encode()


@pytest.fixture
def logs() -> Iterator[Everything]:
    """Every log record of a test."""
    handler = Everything()
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def test_off_nothing_leaves(tmp_path: Path, logs: Everything) -> None:
    """No text of the host's is in anything that left."""
    with capture() as captured, pytest.raises(LeakyError):
        lead(KEY)
    found = told(captured, tmp_path)
    assert b"worker" in found
    assert CANARY.encode() not in found
    assert not any(CANARY in line for line in logs.lines)


@pytest.mark.parametrize("mode", ["SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"])
@pytest.mark.parametrize("way", ["known", "pattern", "function"])
def test_on_nothing_that_is_redacted_is_kept(
    turn_on: Callable[..., Any], tmp_path: Path, logs: Everything, mode: str, way: str
) -> None:
    """By what is known, by a pattern and by a function of the user's, before anything is stored."""
    ways: dict[str, dict[str, Any]] = {
        "known": {},
        "pattern": {"redact_patterns": [r"sk-canary[\w-]*"], "redact_defaults": False},
        "function": {"redact": lambda text: text.replace(CANARY, "X"), "redact_defaults": False},
    }
    store = None if mode == "SPAN_ONLY" else str(tmp_path / "store")
    on = turn_on(mode=mode, store=store, **ways[way])
    with pytest.raises(LeakyError):
        lead(KEY)
    assert on.recorder.flush(30)
    found = told(on.captured, tmp_path)
    assert CANARY.encode() not in found
    assert b"Y2FuYXJ5LTVlMWY" not in found  # the secret in base 64
    assert not any(str(one).encode() in found for one in TOKEN_IDS)
    assert not any(CANARY in line for line in logs.lines)
    assert (b"is [redacted]" in found) == (way != "function")


def test_nothing_that_is_redacted_is_in_a_data_set_of_any_format(
    turn_on: Callable[..., Any], tmp_path: Path
) -> None:
    """Nor in what a refusal says, the lineage or the card; token ids that spell it neither."""
    on = turn_on()
    for _ in range(2):
        with pytest.raises(LeakyError):
            lead(KEY)
    assert on.recorder.flush(30)
    traces = [
        replace(
            with_late(trace, [Reward(id=f"r{place}", component="task", value=float(place))]),
            task_id="leak",
        )
        for place, trace in enumerate(on.captured.traces)
    ]
    source = write(tmp_path / "in", traces)
    made: set[str] = set()
    for form in known_writers():
        out = tmp_path / "out" / form
        job = Job(format=form, content=str(on.where), validation=0.0)
        try:
            report = export(job, [str(source)], out)
        except MissingDependencyError:
            continue
        made |= {form} if out.exists() else set()
        said = json.dumps(report.to_dict()).encode()
        found = said + b"".join(plain(one) for one in out.rglob("*") if one.is_file())
        assert CANARY.encode() not in found, form
        assert not any(str(one).encode() in found for one in TOKEN_IDS), form
    assert made >= {"trl-sft", "trl-kto", "trl-grpo", "hf", "verl"}


def test_on_without_redaction_everything_is_kept(
    turn_on: Callable[..., Any], tmp_path: Path
) -> None:
    """So that the tests above look where content is: in the store, and on spans where told."""
    on = turn_on(mode="SPAN_AND_EVENT", redact_defaults=False)
    with pytest.raises(LeakyError):
        lead(KEY)
    assert on.recorder.flush(30)
    stored = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*.seg"))
    shown = "".join(span.to_json() for span in on.captured.spans)
    assert stored.count(CANARY.encode()) > 20
    assert shown.count(CANARY) > 20
    assert all(str(one).encode() in stored for one in TOKEN_IDS)
    on.captured.spans.clear()


def test_refs_alone_are_on_spans_where_content_is_in_the_store_alone(
    turn_on: Callable[..., Any],
) -> None:
    """A collector sees where content is, and no word of it."""
    on = turn_on(redact_defaults=False)
    with pytest.raises(LeakyError):
        lead(KEY)
    shown = "".join(span.to_json() for span in on.captured.spans)
    traces = "".join(trace.to_json() for trace in on.captured.traces)
    assert CANARY not in shown + traces
    assert shown.count("orchtrace.content_ref") > 8
