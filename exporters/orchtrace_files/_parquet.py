"""The exporter of finished traces as Parquet: whole runs, complete files, a part at a time.

Runs are gathered and put down together, since a file a run would be too many. A file is
written beside its place and renamed, a part's `runs` last: whoever reads, at any moment,
and after a crash, sees whole runs only. See `orchtrace_otel.tables.lake` for the layout.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from orchtrace_otel.content.folders import Folder, LocalFolder, open_folder
from orchtrace_otel.content.store import Store, open_store
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.noted import Losses
from orchtrace_otel.tables.arrow import pyarrow
from orchtrace_otel.tables.gathering import flat, table_of
from orchtrace_otel.tables.inlining import inline
from orchtrace_otel.tables.lake import LATE, SUFFIX
from orchtrace_otel.tables.rows import Rows, rows_of
from orchtrace_otel.tables.spool import revision_of, storable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orchtrace_files._compaction import Compacted
    from orchtrace_otel.model import Reward, Trace

MAX_EVENTS: Final = 50_000
MAX_SECONDS: Final = 60.0
_MOST_KEPT: Final = 4
"""How many times `max_events` are kept while nothing can be written; then the oldest are lost.

So many events of runs, and as many late rewards.
"""
_PIECE: Final = 256
_NANO: Final = 10**9
_ORDER: Final = ("events", "edges", "turns", "rewards", "decisions", "runs")
"""`runs` last: a part counts once it stands there."""


class ParquetExporter:
    """Gathers finished traces and writes them as parts of a lake.

    What was gathered is put down when it has `max_events` events, `max_seconds` after its
    first trace came, at a flush, and at shutdown: a killed process loses no more than
    that. What cannot be written is kept for the next try, up to four times `max_events`, and
    as many late rewards; beyond it the oldest are lost, and `export` or `amend` raises. Any
    number of processes may write to one lake: each part has a name of its own. A forked child
    begins with nothing gathered, for that is its parent's.

    Args:
        folder: The lake.
        max_events: Events after which a part is written.
        max_seconds: Seconds after which a part is written.
        content: Store whose content is copied into the turns; None leaves it where it is.
    """

    def __init__(
        self,
        folder: Folder,
        max_events: int = MAX_EVENTS,
        max_seconds: float = MAX_SECONDS,
        content: str | None = None,
    ) -> None:
        self.folder = folder
        self._content = content
        self._max_events = max_events
        self._max_seconds = max_seconds
        self.dropped: Counter[str] = Counter()
        noted = folder.path / "losses.jsonl" if isinstance(folder, LocalFolder) else None
        self.losses = Losses(noted, "runs")
        self._begin()
        afresh_in_children(self)

    def start_afresh(self) -> None:
        """Leave to the parent of a fork what it had gathered, and what it lost."""
        self.dropped.clear()
        self._begin()

    def _begin(self) -> None:
        self._why: str | None = None
        self._lock = threading.RLock()
        self._traces: list[Trace] = []
        self._late: list[tuple[str, Reward]] = []
        self._events = 0
        self._timer: threading.Timer | None = None

    def export(self, trace: Trace) -> None:
        """Take a trace; it is written with the next part.

        Raises:
            OSError: If runs were lost, since nothing could be written for long.
        """
        with self._lock:
            self._traces.append(trace)
            self._events += len(trace.events)
            if self._events >= self._max_events:
                self._try()
                self._lose_oldest()
            self._start_timer()

    def amend(self, run_id: str, reward: Reward) -> None:
        """Take a reward that came after its run; it is written with the next part.

        Raises:
            OSError: If late rewards were lost, since nothing could be written for long.
        """
        with self._lock:
            self._late.append((run_id, reward))
            self._start_timer()
            if len(self._late) % self._max_events == 0:
                self._try()
            self._lose_earliest()

    def flush(self, timeout_s: float = 30.0) -> None:
        """Write what was gathered; how long that takes is up to the destination.

        Raises:
            OSError: If it could not be written; it is kept for the next try.
        """
        del timeout_s
        with self._lock:
            self._stop_timer()
            self._put()

    @property
    def waiting(self) -> str:
        """What could not be written yet, and waits for the next try; empty where nothing does."""
        if self._why is None or not (self._traces or self._late):
            return ""
        return f"{self._counted()} wait in memory to be written to {self.folder!r}"

    def _counted(self) -> str:
        late = f" and {len(self._late)} late rewards" if self._late else ""
        return f"{len(self._traces)} runs{late}"

    def shutdown(self) -> None:
        """Write what was gathered.

        Raises:
            OSError: If it could not be written; it is lost, for there is no next try.
        """
        try:
            self.flush()
        except OSError as error:
            with self._lock:
                lost = self._counted()
                self._lose(len(self._traces), len(self._late))
                self._traces, self._late, self._events = [], [], 0
            msg = f"{lost} are lost: {self._why}"
            raise OSError(msg) from error

    def compact(self) -> Compacted:
        """Join the small parts of the lake; see `orchtrace_files.compact`."""
        from orchtrace_files._compaction import compact_folder  # noqa: PLC0415 - it builds on this

        return compact_folder(self.folder)

    def complaints(self) -> list[str]:
        """Say what was lost or waits in this process, for `orchtrace doctor`."""
        told = self.losses.complaints()
        return [*told, self.waiting] if self.waiting else told

    def _try(self) -> None:
        with suppress(OSError):
            self._put()

    def _put(self) -> None:
        try:
            for date, traces in _by_date(self._traces).items():
                write_part(self.folder, date, traces, self._content)
                done = {id(trace) for trace in traces}
                self._traces = [one for one in self._traces if id(one) not in done]
                self._events = sum(len(one.events) for one in self._traces)
            if self._late:
                _write_late(self.folder, self._late)
                self._late = []
        except OSError as error:
            self._why = error.strerror or str(error)
            raise
        self._why = None
        with suppress(OSError):
            self.losses.own_up()

    def _lose_oldest(self) -> None:
        if self._events > _MOST_KEPT * self._max_events:
            # Who keeps what a flush could not write, as a collector does, gives it once more.
            self._traces = _once(self._traces)
            self._events = sum(len(one.events) for one in self._traces)
        lost = 0
        while self._events > _MOST_KEPT * self._max_events and len(self._traces) > 1:
            self._events -= len(self._traces.pop(0).events)
            lost += 1
        if lost:
            self._lose(lost)
            msg = f"could not write to {self.folder!r} for long ({self._why}); {lost} runs are lost"
            raise OSError(msg)

    def _lose_earliest(self) -> None:
        over = len(self._late) - _MOST_KEPT * self._max_events
        if over > 0:
            del self._late[:over]
            self._lose(0, over)
            msg = (
                f"could not write to {self.folder!r} for long ({self._why}); "
                f"{over} late rewards are lost"
            )
            raise OSError(msg)

    def _lose(self, runs: int, late: int = 0) -> None:
        for kind, what, count in (("runs", "runs", runs), ("rewards", "late rewards", late)):
            if count:
                self.dropped[f"{kind}_unwritten"] += count
                self.losses.note(self._why or "no room", count, what)
        with suppress(OSError):
            self.losses.own_up()

    def _start_timer(self) -> None:
        if self._timer is None and (self._traces or self._late):
            timer = threading.Timer(self._max_seconds, self._on_time)
            timer.daemon = True
            with suppress(RuntimeError):  # no thread can start, as at the end: a flush writes
                timer.start()
                self._timer = timer

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        with self._lock:
            self._timer = None
            self._try()
            self._start_timer()


def _by_date(traces: Sequence[Trace]) -> Mapping[str, list[Trace]]:
    found: dict[str, list[Trace]] = {}
    for trace in traces:
        found.setdefault(date_of(trace), []).append(trace)
    return found


def date_of(trace: Trace) -> str:
    """Return the day on which a run began, in UTC; `unknown` where it does not say."""
    began = trace.events[0].get("start_unix_nano") if trace.events else None
    if not isinstance(began, int) or isinstance(began, bool):
        return "unknown"
    try:
        return datetime.fromtimestamp(began / _NANO, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return "unknown"


def write_part(
    folder: Folder, date: str, traces: Sequence[Trace], content: str | None = None
) -> str:
    """Write some runs as one part of a lake, and return its name.

    A part has each run once: of several revisions the highest, of equal ones the last.

    Args:
        folder: The lake.
        date: Day on which they began.
        traces: The runs.
        content: Store whose content is copied into the turns.

    Raises:
        OSError: If it could not be written; no part of it counts.
    """
    part = f"date={date}/{new_name()}{SUFFIX}"
    pa: Any = pyarrow()
    made = list(_in_pieces(_once(traces), content))
    tables = {name: pa.concat_tables([piece[name] for piece in made]) for name in _ORDER}
    put_part(folder, part, tables)
    return part


def _once(traces: Sequence[Trace]) -> list[Trace]:
    newest: dict[str, Trace] = {}
    for trace in traces:
        run = storable(trace.trace_id)
        known = newest.get(run)
        if known is None or revision_of(trace) >= revision_of(known):
            newest[run] = trace
    return list(newest.values())


def _in_pieces(traces: Sequence[Trace], content: str | None) -> Iterator[dict[str, Any]]:
    """Make tables of some runs at a time: what is in Arrow takes less memory than in Python."""
    with ExitStack() as stack:
        store = None if content is None else stack.enter_context(open_store(content))
        for start in range(0, len(traces), _PIECE):
            yield flat(_rows(traces[start : start + _PIECE], store))


def _rows(traces: Sequence[Trace], store: Store | None) -> Iterator[Rows]:
    for trace in traces:
        rows = rows_of(trace)
        if store is not None:
            inline(rows.turns, store)
        yield rows


def put_part(folder: Folder, part: str, tables: Mapping[str, Any]) -> None:
    """Write the six tables of a part, `runs` last; a failure takes away what was written."""
    written: list[str] = []
    try:
        for table in _ORDER:
            name = f"{table}/{part}"
            written.append(name)
            put(folder, name, encoded(tables[table]))
    except OSError:
        for name in written:
            with suppress(OSError):
                folder.delete(name)
        raise


def new_name() -> str:
    """Return a name that sorts by time and that no other process has."""
    return f"{time.time_ns():019}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def encoded(table: Any) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    pa: Any = pyarrow()
    sink = pa.BufferOutputStream()
    # Types that Spark, DuckDB and Polars read alike; no nanosecond timestamps are among them.
    pyarrow("parquet").write_table(table, sink, compression="zstd", version="2.6")
    return bytes(sink.getvalue().to_pybytes())


def put(folder: Folder, name: str, data: bytes) -> None:
    """Put a file in its place as a whole.

    Raises:
        OSError: If that fails; it names the file, and nothing of it is left.
    """
    if not isinstance(folder, LocalFolder):
        folder.write(name, data)
        return
    path = folder.path / name
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        error.filename = error.filename or str(path)
        raise


def _write_late(folder: Folder, late: Sequence[tuple[str, Reward]]) -> None:
    rows = [
        {"run_id": storable(run_id), "index": place, "source": "late", **reward.to_dict()}
        for place, (run_id, reward) in enumerate(late)
    ]
    date = datetime.now(UTC).date().isoformat()
    name = f"rewards/date={date}/{LATE}{new_name()}{SUFFIX}"
    put(folder, name, encoded(table_of("rewards", rows)))


def open_parquet(target: str) -> ParquetExporter:
    """Open what stands behind `parquet:` in a list of exporters.

    Args:
        target: A folder, or any URL that fsspec knows, such as `s3://bucket/runs`. Behind
            `?`: `max_events=N` and `max_seconds=N`, when a part is written, and
            `content=STORE`, whose content is copied into the turns.

    Raises:
        ConfigError: If the target says something else, or cannot be written.
        MissingDependencyError: If pyarrow, or fsspec for a URL, is not installed.
    """
    place, _, query = target.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    events = _whole(given.pop("max_events", str(MAX_EVENTS)))
    seconds = _whole(given.pop("max_seconds", str(int(MAX_SECONDS))))
    content = given.pop("content", None)
    if not place or given or not events or not seconds:
        msg = (
            "parquet: takes a folder or a URL, and behind ? content=STORE and, whole numbers above "
            f"0, max_events and max_seconds, got {target!r}; say parquet:runs/?max_seconds=10"
        )
        raise ConfigError(msg)
    pyarrow("parquet")
    folder = open_folder(place)
    if content is not None:
        open_folder(content)  # what is no store is told now, and not with the first part
    if isinstance(folder, LocalFolder):
        _try_to_write(folder)
    return ParquetExporter(folder, events, seconds, content)


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _try_to_write(folder: LocalFolder) -> None:
    probe = f"runs/.probe.{os.getpid()}"
    try:
        put(folder, probe, b"")
        folder.delete(probe)
    except OSError as error:
        msg = (
            f"parquet: must be able to write {str(folder.path)!r}, got {error.strerror!r}; "
            "give a place that this process may write"
        )
        raise ConfigError(msg) from error
