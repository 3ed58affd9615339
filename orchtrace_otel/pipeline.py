"""The span processor that turns finished spans into finished traces, within bounds.

It follows the runs that this process opens, keeps a light record of every span in
them, and when a run closes builds its trace, measures it, puts the results on the
root and hands it over to a thread of its own, which scores it for the exporters. Whatever
a limit costs is flagged in the trace, counted in `losses`, and said once in the log.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import StatusCode

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.builder import SpanRecord, build, foreign_attributes
from orchtrace_otel.delivery import Delivery
from orchtrace_otel.evaluation import Evaluations
from orchtrace_otel.exporter import TraceExporter
from orchtrace_otel.finished import Finished, is_of_a_judge
from orchtrace_otel.flow import Flow
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards import RewardFunction, score
from orchtrace_otel.rewards.records import is_builtin_id
from orchtrace_otel.settings import Settings
from orchtrace_otel.spans import Activation, Attributes, Run

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext

    from orchtrace_otel.spans import Follower


_ERROR: Final = StatusCode.ERROR  # to ask its class for it runs Python code, for every span
_BATCH: Final = 256
"""Ended spans of a run that may wait to become records, away from the host's next call."""
_NOBODY_HEARS: Final = (
    "a reward for a run that is over needs exporters of traces, a logger_provider, or "
    "OTEL_LOGS_EXPORTER=otlp, got none"
)


class _Open:
    """A run that is open: its spans so far.

    Attributes:
        run: The run.
        root: Its root, of one that is given up: it may close meanwhile, and hold it no more.
        waiting: How many spans of others are open in it.
        since: When it was opened, seconds of the monotonic clock.
        over: How many spans were not kept, for there were too many.
    """

    __slots__ = ("_ended", "_most", "_records", "over", "root", "run", "since", "waiting")

    def __init__(self, run: Run, most: int) -> None:
        self.run = run
        self.root: Activation | None = None
        self.waiting = 0
        self.since = time.monotonic()
        self.over = 0
        self._most = most
        self._ended: deque[ReadableSpan] = deque()
        self._records: list[SpanRecord] = []

    def ended(self, span: object) -> None:
        """Keep a span of ours, which becomes a light record before long."""
        if isinstance(span, ReadableSpan):
            ended = self._ended
            ended.append(span)
            if len(ended) >= _BATCH:
                self.records()

    def records(self) -> list[SpanRecord]:
        """Return light records of all spans that have ended."""
        ended, records = self._ended, self._records
        # Other threads end spans meanwhile, and may be here as well.
        with suppress(IndexError):
            while True:
                span = ended.popleft()
                if len(records) >= self._most:
                    self.over += 1
                    continue
                # The attributes are a view of a mapping that can be copied as a whole.
                view: Any = span.attributes
                records.append(_record(span, span.end_time or 0, view.copy()))
        return records

    def keep(self, record: SpanRecord) -> None:
        """Keep a record of a span of others, within the same limit."""
        if len(self._records) < self._most:
            self._records.append(record)
        else:
            self.over += 1


class Pipeline(SpanProcessor):
    """Follows runs, builds and scores their traces, and hands them to exporters.

    Args:
        settings: The limits.
        exporters: Who gets the finished traces.
        synchronous: Hand traces over before `closing` returns, for tests.

    Attributes:
        losses: What was lost, by kind.
    """

    def __init__(
        self,
        settings: Settings,
        exporters: Sequence[TraceExporter] = (),
        *,
        synchronous: bool = False,
    ) -> None:
        self.losses: Counter[str] = Counter()
        self._settings = settings
        self._rewards: Sequence[RewardFunction] = ()
        self._evaluations: Evaluations | None = None
        self._runs: OrderedDict[str, _Open] = OrderedDict()
        self._owners: dict[int, _Open] = {}
        self._renew_locks()
        self._delivery = Delivery(
            exporters, settings.queue_size, self.lose, _delay, synchronous=synchronous
        )
        afresh_in_children(self)

    def _renew_locks(self) -> None:
        # Who has one may come here again: Python runs finalizers, such as that of a stream which
        # nobody reads to its end, and handlers of signals in the middle of anything.
        self._lock = threading.RLock()
        self._counting = threading.RLock()

    def start_afresh(self) -> None:
        """Leave the open runs to the process that opened them: a fork's child is another one."""
        self._renew_locks()
        for opened in self._runs.values():
            opened.run.followed = None
            opened.run.is_remote = True
        self._runs.clear()
        self._owners.clear()
        self.losses.clear()

    def replace(
        self,
        exporters: Sequence[TraceExporter],
        rewards: Sequence[RewardFunction],
        evaluations: Evaluations | None,
    ) -> None:
        """Work for other exporters and rewards from now on; the ones before are shut down.

        Args:
            exporters: Who gets the finished traces.
            rewards: Further reward functions, by name.
            evaluations: Where rewards go as log events; None for nowhere.
        """
        before = self._delivery
        self._delivery = Delivery(exporters, self._settings.queue_size, self.lose, _delay)
        self._rewards = rewards
        self._evaluations = evaluations
        before.shutdown(keep=exporters, successor=self._delivery)

    # -- what spans/ tells ------------------------------------------------------

    def opened(self, run: Run) -> _Open:
        """Follow a run; the oldest one is given up where too many are open, or it is too old."""
        opened = _Open(run, self._settings.max_spans)
        with self._lock:
            self._runs[run.id] = opened
            given_up = self._overdue()
        for old in given_up:
            self._give_up(old)
        return opened

    def _overdue(self) -> list[_Open]:
        overdue: list[_Open] = []
        horizon = time.monotonic() - self._settings.max_run_seconds
        with suppress(RuntimeError):  # a run ended just now, in here: the next one looks again
            while (oldest := next(iter(self._runs.values()), None)) is not None:
                if len(self._runs) <= self._settings.max_open_runs and oldest.since > horizon:
                    break
                if self._runs.pop(oldest.run.id, None) is not None:
                    oldest.root = oldest.run.root
                    overdue.append(oldest)
        return overdue

    @guarded
    def _give_up(self, old: _Open) -> None:
        """Export what there is of a run that is closed by a limit, not by its stop."""
        self.lose("runs_given_up")
        self._let_go(old)
        old.run.flag("given_up")
        _write_facts(old.run)
        root = _record_of_root(old.run, old.run.now())
        records = old.records()
        finished = self._finish(old.run, [*records, root] if root else records)
        if finished is None:
            self.lose("traces_failed")
        else:
            self._hand_over(finished, None)

    def closing(self, run: Run, end: int) -> Attributes:
        """Build and measure a run that ends at `end`; return what its root is to carry."""
        with self._lock:
            opened = self._runs.pop(run.id, None)
        if opened is None:
            _write_facts(run)  # given up here; a collector may still build it
            return {}
        try:
            finished, results = self._ended_at(end, opened, run)
        except BaseException:  # an interrupt, which strikes when all is done but this
            self._give_up(opened)
            raise
        if finished is not None:
            self._hand_over(finished, run.root.span)
        return results

    def _ended_at(self, end: int, opened: _Open, run: Run) -> tuple[Finished | None, Attributes]:
        self._let_go(opened)
        if run.open_spans > 1:  # the root is the one
            run.flag("open_spans")
        _write_facts(run)
        root = _record_of_root(run, end)
        if root is None:
            return None, {}
        finished = self._finish(run, [*opened.records(), root])
        if finished is None:
            self.lose("traces_failed")
            return None, {}
        results = finished.results()
        if not _has_room(run.root.span, results):
            finished.flag("attributes_evicted")
            results = finished.results()
        return finished, results

    def broken_off(self, run: Run) -> None:
        """Export what there is of a run whose end failed, or was interrupted."""
        with self._lock:
            opened = self._runs.pop(run.id, None)
        if opened is not None:
            self._give_up(opened)

    @guarded
    def _finish(self, run: Run, records: list[SpanRecord]) -> Finished:
        functions = self._rewards
        if functions and is_of_a_judge(run.root.context):
            functions = ()
        return Finished(build(run.id, records, run.flags), functions, self.lose)

    def _hand_over(self, finished: Finished, root: OtelSpan | None) -> None:
        """Queue a run for those who take its trace, and those who hear of its `root`."""
        told = self._evaluations
        is_sent = root is not None and root.get_span_context().trace_flags.sampled
        if told is not None and root is not None and is_sent and told.is_heard:
            finished.tell(told, root)
        elif not self._delivery.has_exporters:
            return
        self._delivery.put(finished)

    def so_far(self, run: Run) -> Trace | None:
        """Build and score a run that goes on, from what has ended and what is open here."""
        with self._lock:
            opened = self._runs.get(run.id)
        if opened is None or run.is_closed:
            return None
        now = run.now()
        records = [*opened.records(), *_open_here(run, now)]
        return _as_provisional(score(build(run.id, records, run.flags), fresh=True))

    def late(self, run_id: str, reward: Reward) -> None:
        """Take a reward for a run that is not current: open here, closed, or elsewhere."""
        run = self.find(run_id)
        if run is not None and not run.is_stopped:
            run.record(reward)
            return
        told = self._evaluations
        is_heard = told is not None and told.is_heard
        if told is not None and is_heard:
            told.emit_late(run_id, reward)
        if self._delivery.has_exporters:
            self._delivery.put((run_id, reward))
        elif not is_heard:
            self.lose("rewards_unheard", why=_NOBODY_HEARS)

    def find(self, run_id: str) -> Run | None:
        """Return a run that is open here."""
        with self._lock:
            opened = self._runs.get(run_id)
        return None if opened is None else opened.run

    def lose(self, what: str, count: int = 1, why: str = "") -> None:
        """Count a loss, and say so the first time, with the reason where there is one."""
        with self._counting:
            self.losses[what] += count
        warn_once(
            f"loss:{what}",
            "orchtrace lost data (%s); further losses of this kind are counted, "
            "and told at shutdown",
            f"{what}, {why}" if why else what,
            level=_level(what),
        )

    # -- what the SDK tells -------------------------------------------------------

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Remember which run a span of others belongs to; spans/ hands over our own."""
        scope = span.instrumentation_scope
        if scope is None or scope.name != a.SCOPE:
            self._began(span, parent_context)

    @guarded
    def _began(self, span: Span, parent_context: Context | None) -> None:
        own = span.context
        context = otel_context.get_current() if parent_context is None else parent_context
        activation = spans.of(context)
        opened = self._named(own) if activation is None else activation.run.followed
        if own is None or not isinstance(opened, _Open):
            return
        if self._runs.get(opened.run.id) is opened:
            if opened.waiting >= self._settings.max_spans:
                opened.over += 1
                return
            opened.waiting += 1
            self._owners[own.span_id] = opened

    def _named(self, own: SpanContext | None) -> Follower | None:
        """Return the open run that a span's tracestate names.

        Where the host hands on a span and no context, or the SDK asks on a thread of its own,
        nothing else tells whose a span is, here as in a collector.
        """
        root_id = None if own is None else own.trace_state.get(a.TRACESTATE_KEY)
        if own is None or root_id is None:
            return None
        return self._runs.get(f"{own.trace_id:032x}-{root_id}")

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a light record of another instrumentation's span that lies in an open run."""
        if self._owners:
            self._ended(span)

    @guarded
    def _ended(self, span: ReadableSpan) -> None:
        own = span.context
        opened = None if own is None else self._owners.pop(own.span_id, None)
        if own is None or opened is None:
            return
        found = foreign_attributes(span.attributes or {})
        if opened.run.watcher is not None:
            opened.run.watcher.spent(found)
        opened.keep(_record(span, span.end_time or 0, found))
        opened.waiting -= 1  # not before: the run may end meanwhile, without it

    def _let_go(self, opened: _Open) -> None:
        """Stop following a run, and waiting for spans of others that are open in it still."""
        opened.run.followed = None
        opened.records()
        if opened.over:
            opened.run.flag("truncated")
            self.lose("spans_over_limit", opened.over)
        if opened.waiting:
            opened.run.flag("open_spans")
            for span_id in [known for known, run in list(self._owners.items()) if run is opened]:
                self._owners.pop(span_id, None)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until every finished trace is with the exporters."""
        return self._delivery.flush(timeout_millis / 1_000)

    def shutdown(self) -> None:
        """Give up what is open, deliver what is finished, and say what was lost."""
        with self._lock:
            left = list(self._runs.values())
            for opened in left:
                opened.root = opened.run.root
            self._runs.clear()
        for opened in left:
            self._give_up(opened)
        self._delivery.shutdown()
        if self.losses:
            told = ", ".join(f"{what}: {count}" for what, count in sorted(self.losses.items()))
            level = max(map(_level, self.losses))
            warn_once(
                f"losses:{id(self)}", "orchtrace lost data in this process: %s", told, level=level
            )


def _delay(what: str, waiting: str) -> None:
    """Say the first time what could not be put down at once, and what waits where."""
    warn_once(
        f"delay:{what}",
        "orchtrace could not put down everything (%s, %s); it is tried again, and counted as "
        "lost only if that fails to the end",
        what,
        waiting,
    )


def _level(what: str) -> int:
    """How loud a loss is: what goes on after a run's stop is the host's way to work, no fault."""
    return logging.INFO if what == "late_spans" else logging.WARNING


def _record(span: ReadableSpan, end: int, attributes: Mapping[str, Any]) -> SpanRecord:
    own, parent = span.context, span.parent
    # Ids as bytes become text in a third of the time that formatting takes.
    return SpanRecord(
        "" if own is None else own.span_id.to_bytes(8, "big").hex(),
        None if parent is None else parent.span_id.to_bytes(8, "big").hex(),
        span.start_time or 0,
        end,
        attributes,
        span.status.status_code is _ERROR,
        span.dropped_links,
        span.dropped_attributes,
    )


def _record_of_root(run: Run, end: int) -> SpanRecord | None:
    span = run.root.span
    if not isinstance(span, ReadableSpan):
        return None
    return _record(span, end, dict(span.attributes or {}))


def _open_here(run: Run, now: int) -> list[SpanRecord]:
    """Records of what is open around whoever asks, as if it ended now, and of a stop."""
    activation = spans.current()
    if activation is None or activation.run is not run:
        activation = run.root
    facts: dict[str, Any] = {a.REWARD_RECORDS: _dumped(run.rewards)} if run.rewards else {}
    around: Activation | None = activation
    records: list[SpanRecord] = []
    while around is not None and isinstance(around.span, ReadableSpan):
        state = {a.STATUS: "paused"} if around.parent is not None else facts
        causes = {a.EDGES_CLOSE: _causes(around.flow)}
        held = dict(around.span.attributes or {})
        records.append(_record(around.span, now, {**held, **causes, **state}))
        around = around.parent
    stop = {
        a.VERB: "stop",
        a.AGENT_NAME: run.root.agent,
        a.STOP_REASON: "unknown",
        a.EDGES: _causes(run.root.flow, is_stop=True),
    }
    root_id = run.root.span_id
    return [*records, SpanRecord(f"{root_id}.stop", root_id, now, now, stop)]


def _causes(flow: Flow, *, is_stop: bool = False) -> list[str]:
    """What would lead to the end of an activation, or to the run's stop, if it came now."""
    edges, _ = flow.held()
    if flow.has_moved or (is_stop and not edges):
        edges.insert(0, ("causal", flow.last))
    return [f"{kind}:{mark.event_id}" for kind, mark in edges]


def _as_provisional(trace: Trace) -> Trace:
    """Say of a trace, and of each built-in reward in it, that the run goes on."""
    *before, stop = trace.events
    records = [
        replace(one, provisional=True) if is_builtin_id(one.id, trace.trace_id) else one
        for one in trace.reward_records
    ]
    keys = {**stop.keys, "flags": sorted({*trace.flags, "provisional"})}
    if records:
        keys["reward_records"] = [one.to_dict() for one in records]
    return replace(trace, events=(*before, replace(stop, keys=keys)))


def _write_facts(run: Run) -> None:
    """Put on a root what the builder needs and only this process knows."""
    if run.rewards:
        run.root.set({a.REWARD_RECORDS: _dumped(run.rewards)})
    if run.flags:
        run.root.set({a.FLAGS: sorted(run.flags)})


def _has_room(span: Any, results: Attributes) -> bool:
    """Whether a root can carry its results without the SDK evicting attributes for them."""
    most = getattr(getattr(span, "_limits", None), "max_span_attributes", None)
    held = span.attributes
    return most is None or len(held) + len(results.keys() - held.keys()) <= most


def _dumped(rewards: Iterable[Reward]) -> str:
    # numpy's numbers are floats to Python, and not to orjson
    return orjson.dumps([reward.to_dict() for reward in rewards], default=float).decode()
