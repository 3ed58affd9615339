"""Taking up and closing, step by step: what fails is done again, and what is old moves up."""

from __future__ import annotations

import errno
import math
import random
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from orchtrace_otel import otlp, schema
from orchtrace_otel.cli._files import superseded
from orchtrace_otel.collect import builder as building
from orchtrace_otel.collect.admission import Bounds
from orchtrace_otel.collect.parts import Part, Rejected, cut, parts_of
from orchtrace_otel.collect.runs import Closing
from orchtrace_otel.collect.server import Collector, Options
from orchtrace_otel.collect.spool import SPANS
from orchtrace_otel.collect.verdicts import Verdict
from orchtrace_otel.collect.writing import Accepted
from orchtrace_otel.exporter import open_exporter
from orchtrace_otel.model import Reward
from orchtrace_otel.schema import read_lines
from orchtrace_otel.tables.reading import read
from orchtrace_otel.tables.spool import Spool, with_late
from tests.collecting import as_stored, at_first, encoded, lines, recorded, refusal, stored

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

NOW = Closing(grace_s=0, idle_s=0)
LATER = Closing(grace_s=3600, idle_s=3600)


class Steps:
    """A collector whose threads do not run: a test does their steps."""

    def __init__(
        self, folder: Path, closing: Closing = NOW, keep_bytes: int = 2**30, **bounds: int
    ) -> None:
        self.collector = Collector(
            Options(
                folder,
                closing=closing,
                bounds=Bounds(**bounds),
                fsync="never",
                keep_bytes=keep_bytes,
            )
        )
        self.builder = self.collector.builder

    def send(self, spans: list[ReadableSpan]) -> None:
        """Take spans as the writer hands them over."""
        self.send_encoded(encoded(spans))

    def send_encoded(self, body: bytes) -> None:
        """The same of a request."""
        segment = self.collector.spool.append([(SPANS, body)])
        self.builder.put(Accepted(segment, list(parts_of(body)), 0))

    def judge(self, verdict: Verdict) -> None:
        """Take a late reward, likewise."""
        segment = self.collector.spool.append([(SPANS, b"")])
        self.builder.put(Accepted(segment, [verdict], 0))

    def step(self) -> bool:
        """Do one round; return whether it went well."""
        try:
            self.builder._round(is_last=False)
        except (OSError, sqlite3.Error) as error:
            self.builder._fail(error)
            return False
        return True

    def end(self) -> None:
        """Let go of all, as a killed process would."""
        for part in (self.collector.store, self.collector._archive, self.collector._stored):
            part.close()
        self.collector._kept.close()
        self.collector._lock.close()


@pytest.fixture(scope="module", autouse=True)
def rounds_are_whole() -> Iterator[None]:
    """A round does all that there is, however slow the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "_ROUND_S", math.inf)
        yield


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    """A collector whose runs close at once."""
    made = Steps(tmp_path)
    yield made
    made.end()


def put_off_now(steps: Steps) -> None:
    """Let what is to be tried again be due."""
    for opened in steps.collector.runs:
        steps.collector.runs.wait_for(opened, 0.0)


@pytest.mark.parametrize("step", ["settle", "commit", "put"])
def test_what_could_not_be_stored_is_stored_later_and_once(
    step: str, steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever step the disk is full: the spool keeps it, and no line is there twice."""
    traces, spans = recorded(3, random.Random(0))  # noqa: S311
    verdict = Verdict(
        traces[0].trace_id[:32],
        traces[0].trace_id,
        "",
        Reward(id="v", component="style", value=1.0),
    )
    steps.send(spans)
    steps.judge(verdict)
    store: Any = steps.collector.store

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, step, full)
    assert not steps.step()
    assert steps.builder.fault == "the store cannot be written: OSError"
    assert steps.collector.intake.faults() == [steps.builder.fault]
    assert len(steps.collector.runs) > 0
    assert steps.collector.spool.size > 0
    monkeypatch.undo()
    put_off_now(steps)
    assert steps.step()
    assert steps.builder.fault is None
    assert len(lines(tmp_path)) == len(traces)
    found = stored(tmp_path)
    assert found[traces[0].trace_id]["rewards"]["style"] == 1.0
    assert {run_id: at_first(found[run_id]) for run_id in found if run_id != verdict.run_id} == {
        run_id: run for run_id, run in as_stored(traces).items() if run_id != verdict.run_id
    }
    assert all(steps.collector._archive.has_spans(run_id[:32]) for run_id in found)
    steps.collector.spool.close()
    assert steps.collector.spool.segments == 0


@pytest.mark.parametrize("kind", [OSError, sqlite3.OperationalError])
def test_a_fault_that_has_gone_is_over_though_no_run_comes_to_an_end(
    kind: type[Exception], steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Senders are told to come back while it lasts: none of them would end a run before."""
    archive = steps.collector._archive

    def full(*_: object) -> None:
        raise kind(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(building, "_FORGET_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(archive, "forget", full)
        assert not steps.step()
        assert not steps.step()
        assert steps.builder.fault == f"the store cannot be written: {kind.__name__}"
    assert steps.step()
    assert steps.collector.intake.faults() == []


LATE = [
    Reward(id="a", component="task", value=0.25),
    Reward(id="b", component="task", value=1.0, provisional=True),
    Reward(id="c", component="style", value=0.5, estimator="judge"),
    Reward(id="d", component="step", value=0.5, unit="agent", target="crew"),
]


@pytest.mark.parametrize("order", [LATE, LATE[::-1]])
def test_a_run_is_the_same_whoever_adds_its_late_rewards(
    order: list[Reward], steps: Steps, tmp_path: Path
) -> None:
    """Its credit is that of the outcome that came late, and a final one goes before others."""
    (trace, *_), spans = recorded(1, random.Random(6))  # noqa: S311
    steps.send(spans)
    assert steps.step()
    for reward in order:
        steps.judge(Verdict(trace.trace_id[:32], trace.trace_id, "", reward))
        assert steps.step()
        put_off_now(steps)
        assert steps.step()
    found = stored(tmp_path)[trace.trace_id]
    (alone,) = otlp.traces(otlp.read_protobuf(encoded(spans)))
    beside = with_late(alone, order)
    assert beside.stop is not None
    assert at_first(found) == at_first(beside.to_dict())
    assert found["rewards"]["task"] == 0.25
    credited = [event for event in beside.events if "credit" in event.keys]
    assert len(credited) == len(beside.events)
    assert {reward.component for reward in beside.reward_records} >= {"task", "credit_flow"}


def test_a_trace_that_cannot_be_built_costs_no_other(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours is counted and logged, and its spans are in the archive for a later try."""
    traces, spans = recorded(2, random.Random(1))  # noqa: S311
    bad = traces[0].trace_id[:32]
    real = otlp.traces

    def broken(received: Any) -> Any:
        found = list(received)
        if found[0][0] == bad:
            raise KeyError("a fault of ours")
        return real(found)

    monkeypatch.setattr(otlp, "traces", broken)
    steps.send(spans[1:])
    assert steps.step()
    assert steps.collector.metrics.get("failures", "build") == 1
    assert f"could not build the runs of OTel trace {bad}" in caplog.text
    assert set(stored(tmp_path)) == {traces[1].trace_id}
    assert steps.collector._archive.has_spans(bad)
    # The rest of it, once the fault is mended, brings the run.
    monkeypatch.undo()
    steps.send(spans[:1])
    assert steps.step()
    assert stored(tmp_path) == as_stored(traces)


FUZZED = recorded(2, random.Random(8))[1]  # noqa: S311
BODY = encoded(FUZZED)


@given(st.lists(st.tuples(st.integers(0, len(BODY) - 1), st.integers(0, 255)), max_size=4))
def test_whatever_is_accepted_can_be_stored(changes: list[tuple[int, int]]) -> None:
    """No byte that a sender may send stops the collector from storing what others send."""
    body = bytearray(BODY)
    for place, byte in changes:
        body[place] = byte
    parts: list[Part] = []
    refusal(lambda: parts.extend(cut(bytes(body), Bounds(), Rejected())))
    with tempfile.TemporaryDirectory() as folder:
        steps = Steps(Path(folder))
        segment = steps.collector.spool.append([(SPANS, b"".join(part.data for part in parts))])
        steps.builder.put(Accepted(segment, parts, 0))
        assert steps.step()
        assert steps.collector.metrics.get("failures", "store") == 0
        assert steps.collector.metrics.get("failures", "build") == 0
        steps.end()


@pytest.mark.parametrize("start", [0, 2**63, 2**64 - 1])
def test_a_root_of_any_time_can_be_stored(start: int, steps: Steps, tmp_path: Path) -> None:
    """Also one whose time SQLite has no integer for."""
    request = ExportTraceServiceRequest.FromString(BODY)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.start_time_unix_nano = span.end_time_unix_nano = start
    body = request.SerializeToString()
    segment = steps.collector.spool.append([(SPANS, body)])
    steps.builder.put(Accepted(segment, list(parts_of(body)), 0))
    assert steps.step()
    assert len(stored(tmp_path)) == 2


def test_a_run_that_stays_open_does_not_keep_old_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its spans are written anew, and after a kill it is as whole as before."""
    monkeypatch.setattr(building, "_MOST_SEGMENTS", 2)
    steps = Steps(tmp_path, LATER)
    steps.collector.spool._segment_bytes = 1  # a segment a record
    traces, spans = recorded(4, random.Random(3))  # noqa: S311
    for at in range(0, len(spans), 5):
        steps.send(spans[at : at + 5])
        assert steps.step()
    for _ in range(30):
        assert steps.step()
    assert steps.collector.spool.segments <= 2 + len(traces)
    assert steps.collector.metrics.get("moved") > 0
    steps.end()
    again = Steps(tmp_path, NOW)
    again.builder.replay(again.collector.spool.replay())
    put_off_now(again)
    assert again.step()
    assert stored(tmp_path) == as_stored(traces)
    again.end()


def test_what_was_taken_under_wider_bounds_is_taken_up_under_narrow_ones(tmp_path: Path) -> None:
    """Options that change between two starts cost nothing that was acknowledged."""
    steps = Steps(tmp_path, LATER)
    traces, spans = recorded(2, random.Random(5))  # noqa: S311
    steps.send(spans)
    steps.end()
    again = Steps(tmp_path, NOW, request_bytes=10, span_bytes=10, span_links=1, trace_spans=1)
    again.builder.replay(again.collector.spool.replay())
    assert again.step()
    assert stored(tmp_path) == as_stored(traces)
    again.end()


def test_more_in_the_spool_than_memory_may_hold_is_taken_up_in_turns(tmp_path: Path) -> None:
    """A start closes runs early where the bound asks for it; what follows amends them."""
    steps = Steps(tmp_path, LATER)
    traces, spans = recorded(8, random.Random(4))  # noqa: S311
    for at in range(0, len(spans), 5):
        steps.send(spans[at : at + 5])
    steps.end()
    again = Steps(tmp_path, NOW, open_bytes=10_000)
    again.builder.replay(again.collector.spool.replay())
    assert again.collector.runs.size <= 10_000
    put_off_now(again)
    assert again.step()
    found = stored(tmp_path)
    assert {run_id: at_first(found[run_id]) for run_id in found} == as_stored(traces)
    again.end()


def test_many_small_runs_are_forgotten_as_fast_as_they_come(tmp_path: Path) -> None:
    """What is kept stays within its bound however many traces there are to forget."""
    steps = Steps(tmp_path, keep_bytes=1_000)
    request: Any = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(2_500):
        spans.add(trace_id=number.to_bytes(16), span_id=b"s" * 8)
    del spans[0]  # an id of zeros is none
    steps.send_encoded(request.SerializeToString())
    assert steps.step()
    while len(steps.collector.runs):
        assert steps.step()  # a round takes up no more than it has time for
    assert steps.collector._archive.size > 50_000
    steps.builder._forgot = 0.0
    for _ in range(4):
        assert steps.step()
    assert steps.collector._archive.size <= 1_000
    assert (tmp_path / "archive.sqlite").stat().st_mode & 0o077 == 0
    steps.end()


# --- runs that are another one when more of them comes ---------------------------------------

FOREIGN = b"\x0b" * 16


def told(span_id: bytes, parent: bytes, **says: str) -> bytes:
    """Encode a span as another instrumentation sends it."""
    request: Any = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=FOREIGN, span_id=span_id, parent_span_id=parent, start_time_unix_nano=span_id[0],
        end_time_unix_nano=99 - span_id[0],
    )  # fmt: skip
    for key, value in says.items():
        span.attributes.add(key=f"gen_ai.{key.replace('_', '.', 1)}").value.string_value = value
    data: bytes = request.SerializeToString()
    return data


AGENT = told(b"\x03" * 8, b"\x02" * 8, operation_name="invoke_agent", agent_name="writer")
TEAM = told(b"\x02" * 8, b"\x01" * 8, operation_name="invoke_agent", agent_name="editor")
TOP = told(b"\x01" * 8, b"", operation_name="invoke_workflow", workflow_name="paper")


def run_of(root: int) -> str:
    """The id that a run has by its root."""
    return f"{FOREIGN.hex()}-{bytes([root] * 8).hex()}"


def test_a_run_that_gets_another_root_is_there_once(steps: Steps, tmp_path: Path) -> None:
    """The run under its earlier ids says which one it is now, and rewards for it follow."""
    for number, spans in enumerate((AGENT, TEAM, TOP)):
        steps.send_encoded(spans)
        assert steps.step()
        if number == 0:
            first = steps.collector.store.index.of_trace(FOREIGN.hex())[0].run_id
            reward = Reward(id="v", component="style", value=1.0)
            steps.judge(Verdict(FOREIGN.hex(), first, "", reward))
            put_off_now(steps)
            assert steps.step()
            put_off_now(steps)
            assert steps.step()
    index = steps.collector.store.index
    (entry,) = index.of_trace(FOREIGN.hex())
    assert (entry.run_id, entry.rewards["style"]) == (run_of(1), 1.0)
    assert len(index) == 1
    assert set(index.superseded(FOREIGN.hex()).values()) == {run_of(1)}
    assert steps.collector._archive.unapplied() == []
    (gone, whole) = (stored(tmp_path)[run] for run in (first, run_of(1)))
    assert gone["events"][-1]["superseded_by"] in {run_of(1), run_of(2)}
    assert {event["agent"] for event in whole["events"]} >= {"paper", "editor"}
    for document in lines(tmp_path):
        assert schema.check(document) == []


def test_readers_pass_over_what_was_superseded(tmp_path: Path) -> None:
    """`show` and its like, data sets and tables; an index made anew knows of it as well."""
    steps = Steps(tmp_path)
    for spans in (AGENT, TEAM, TOP):
        steps.send_encoded(spans)
        assert steps.step()
    (entry,) = steps.collector.store.index.of_trace(FOREIGN.hex())
    files = [tmp_path / "traces.jsonl"]
    old = superseded(files)
    here = [line.trace for line in read_lines(files[0]) if (files[0], line.number) not in old]
    assert [trace.trace_id for trace in here if trace is not None] == [entry.run_id]
    with Spool() as spool:
        assert list(spool.take(read(str(tmp_path)))) == []
        assert spool.counts.runs == 1
        assert [run.trace_id for _, _, runs in spool.groups() for run in runs] == [entry.run_id]
        assert [run.trace_id for _, run in spool.tasks()] == [entry.run_id]
        lake = open_exporter(f"parquet:{tmp_path / 'lake'}")
        for trace in spool.runs():
            lake.export(trace)
        lake.shutdown()
    with Spool() as again:
        assert list(again.take(read(str(tmp_path / "lake")))) == []
        assert (again.counts.runs, len(list(again.runs()))) == (1, len(old) - 1)
    steps.end()
    for path in tmp_path.glob("index.sqlite*"):
        path.unlink()
    anew = Steps(tmp_path)
    assert [one.run_id for one in anew.collector.store.index] == [entry.run_id]
    # Once more changes nothing.
    count = len(lines(tmp_path))
    anew.send_encoded(TOP)
    assert anew.step()
    assert len(lines(tmp_path)) == count
    anew.end()
