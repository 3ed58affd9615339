"""Closing an OTel trace: its runs are built, scored, given their late rewards, and stored.

The order makes a crash at any point harmless. Traces into the store first, then spans into
the archive, then the store's index, then the spool lets go. What is in the spool still is
taken up again at the next start; what the store says already is not written twice. A run
that the index names has its spans in the archive: where it has not, they are too old.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from orchtrace_otel import otlp
from orchtrace_otel.collect.archive import Archive
from orchtrace_otel.collect.metrics import Metrics
from orchtrace_otel.collect.runs import OpenTrace
from orchtrace_otel.collect.store import Store
from orchtrace_otel.collect.verdicts import Verdict
from orchtrace_otel.errors import TraceFormatError
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.tables.spool import judged

_logger = logging.getLogger("orchtrace_otel")


class Closer:
    """Builds the runs of OTel traces and writes them to the store.

    Args:
        store: Where runs go.
        archive: What keeps spans and late rewards.
        metrics: Where to count.
    """

    def __init__(self, store: Store, archive: Archive, metrics: Metrics) -> None:
        self._store = store
        self._archive = archive
        self.metrics = metrics
        self.commit_every_s = store.settle_every_s

    def close(self, opened: OpenTrace) -> None:
        """Build and store the runs of an OTel trace; they count once `commit` was called.

        Raises:
            OSError: If they could not be stored.
            sqlite3.Error: If the index or the archive could not be written.
        """
        received, traces = self._built(opened)
        self._supersede(opened.trace_id, received, traces)
        self._put(opened.trace_id, traces)
        fresh = opened.parts[opened.kept :]
        if fresh:
            self._archive.keep(opened.trace_id, b"".join(fresh))
            opened.kept = len(opened.parts)
        if not traces:
            self.metrics.count("runs", "none_in_trace")

    def amend(self, trace_id: str) -> None:
        """Give late rewards to runs whose spans are kept no longer.

        Raises:
            OSError: If they could not be stored.
            sqlite3.Error: If the index or the archive could not be written.
        """
        stored = (self._store.index.read(entry) for entry in self._store.index.of_trace(trace_id))
        traces = [trace for trace in stored if trace is not None]
        self._put(trace_id, [_at_first(trace) for trace in traces])

    def _supersede(
        self, trace_id: str, received: Sequence[otlp.Received], traces: Sequence[Trace]
    ) -> None:
        """Take back runs whose spans are of another run, now that more of them came.

        A run that only others traced is named by the span on top of what is known; a span
        above it, or one of ours, gives its spans another run.
        """
        built = {trace.trace_id for trace in traces}
        stale = [e for e in self._store.index.of_trace(trace_id) if e.run_id not in built]
        if not traces or not stale:
            return
        spans = {record.span_id for _, record in received}
        spans.update(record.parent_id for _, record in received if record.parent_id is not None)
        for entry in stale:
            root = entry.run_id.rpartition("-")[2]
            # Runs that others wrote to the store, of spans that never came here, stay.
            if root in spans:
                self._store.supersede(entry, _around(root, traces).trace_id)
                self.metrics.count("runs", "superseded")

    def _put(self, trace_id: str, traces: Sequence[Trace]) -> None:
        late = self._archive.rewards(trace_id)
        before = self._store.index.superseded(trace_id) if late else {}
        for trace in traces:
            if late:
                alone = len(traces) == 1
                trace = _rewarded(trace, late, before, alone=alone)  # noqa: PLW2901 - the same run
            try:
                self.metrics.count("runs", self._store.put(trace))
            except TraceFormatError as error:
                self._told("store", trace_id, error)
        if late and traces:
            self._archive.applied(trace_id, [*before, *(trace.trace_id for trace in traces)])

    def _built(self, opened: OpenTrace) -> tuple[list[otlp.Received], list[Trace]]:
        try:
            received = otlp.read_protobuf(b"".join(opened.parts))
            return received, otlp.traces(received)
        except Exception as error:  # noqa: BLE001 - a fault of ours must cost one trace, not the collector
            self._told("build", opened.trace_id, error)
            return [], []

    def _told(self, what: str, trace_id: str, error: Exception) -> None:
        self.metrics.count("failures", what)
        _logger.error(
            "orchtrace collect could not %s the runs of OTel trace %s (%s); "
            "its spans are kept in the archive",
            what,
            trace_id,
            type(error).__name__,
            exc_info=error,
        )

    def commit(self) -> None:
        """Make what was stored last.

        Raises:
            OSError: If it could not be.
            sqlite3.Error: If the index or the archive could not.
        """
        self._store.settle()
        self._archive.commit()
        self._store.commit()

    def doubt(self) -> None:
        """After a failure: what was done since the last commit does not count."""
        self._store.doubt()
        self._archive.rollback()


def _at_first(trace: Trace) -> Trace:
    """Return a stored trace as it was built, of revision 0."""
    *before, stop = trace.events
    return replace(trace, events=(*before, replace(stop, keys={**stop.keys, "revision": 0})))


def _around(span_id: str, traces: Sequence[Trace]) -> Trace:
    """Return the run that a span is of; the first one where no event says so."""
    for trace in traces:
        if any(event.id.partition(".")[0] == span_id for event in trace.events):
            return trace
    return traces[0]


def _rewarded(
    trace: Trace, late: Iterable[Verdict], before: Mapping[str, str], *, alone: bool
) -> Trace:
    """Add the late rewards that are for this run, by any id it had, and not in it."""
    known = {reward.id for reward in trace.reward_records}
    spans = {event.id.partition(".")[0] for event in trace.events}
    spans.update(turn.id for turn in trace.turns)
    mine: list[Reward] = []
    for verdict in late:
        if verdict.run_id:
            is_mine = before.get(verdict.run_id, verdict.run_id) == trace.trace_id
        else:
            is_mine = alone or verdict.span_id in spans
        if is_mine and verdict.reward.id not in known:
            mine.append(verdict.reward)
    return judged(trace, mine) if mine else trace
