"""Whatever the server answers and whoever dies when: a record arrived, is counted, or waits."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchtrace_http import HttpExporter
from orchtrace_http._target import read_target
from orchtrace_otel.schema import dump
from orchtrace_otel.testing._samples import own_traces
from tests.exporters.http.pushing import Quick, documents
from tests.exporters.http.receiver import Receiver, receiver

TRACE = own_traces(1)[0]
SIZE_KIB = len(dump(TRACE)) / 1_024
ANSWERS = st.sampled_from([204, 204, 400, 413, 429, 500, 503, 302])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("export"), st.integers(1, 5)),
        st.tuples(st.just("answer"), st.lists(ANSWERS, min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["flush", "kill", "end"]), st.none()),
    ),
    max_size=14,
)


class Session:
    """Processes, one after another, that push to one server and may be killed."""

    def __init__(self, server: Receiver, folder: Path, spool: float) -> None:
        self.server = server
        self.target = read_target(
            f"{server.url}#spool={folder}&every=0.002&spool_mib={spool:.6f}"
            f"&batch_kib={2.5 * SIZE_KIB:.6f}"
        )
        self.exported: list[str] = []
        self.dropped: Counter[str] = Counter()
        self.open()

    def open(self) -> None:
        """Begin another process."""
        self.exporter = HttpExporter(self.target, Quick())

    def export(self, count: int) -> None:
        """Export some runs."""
        for _ in range(count):
            trace = replace(TRACE, trace_id=f"run {len(self.exported)}")
            self.exported.append(trace.trace_id)
            self.exporter.export(trace)

    def answer(self, statuses: list[int]) -> None:
        """Say what the server answers next."""
        self.server.script.extend((status, {}) for status in statuses)

    def flush(self, _: None = None) -> None:
        """Send, whatever that brings."""
        with suppress(OSError):  # something was lost, and is counted
            self.exporter.flush(5)

    def kill(self, _: None = None) -> None:
        """End as the kernel ends a process: its thread stops, its locks are gone, files stay."""
        self.exporter._sender.stop()
        self.dropped.update(self.exporter.dropped)
        outbox = self.exporter._outbox
        in_memory = len(outbox._held)
        in_memory += sum(one.records for one in outbox._sealed if one.path is None)
        self.dropped["memory of a killed process"] += in_memory
        outbox.spool.start_afresh()
        self.open()

    def end(self, _: None = None) -> None:
        """End as a process does by itself."""
        with suppress(OSError):
            self.exporter.shutdown()
        self.dropped.update(self.exporter.dropped)
        self.open()


@settings(max_examples=25)
@given(steps=STEPS, spool=st.sampled_from([256.0, 6 * SIZE_KIB / 1_024]))
@example([("answer", [413, 204, 503, 400]), ("export", 5), ("kill", None)], 256.0)
@example([("answer", [503] * 4), ("export", 5), ("kill", None), ("export", 5)], 0.05)
def test_a_record_arrived_is_counted_or_waits(steps: list, spool: float) -> None:
    """At the end, when the server takes everything, nothing waits: it arrived whole, or counts."""
    with receiver() as server, tempfile.TemporaryDirectory() as folder:
        session = Session(server, Path(folder), spool)
        for name, argument in steps:
            getattr(session, name)(argument)
        server.script.clear()
        session.end()
        session.flush()
        session.end()
        assert list(Path(folder).rglob("*.jsonl")) == []
        arrived = {one["trace_id"]: one for one in server.traces()}
        wanted = {name: {**documents([TRACE])[0], "trace_id": name} for name in session.exported}
        assert arrived.items() <= wanted.items()
        missing = wanted.keys() - arrived.keys()
        assert len(missing) <= session.dropped.total()
        session.exporter._sender.stop()
