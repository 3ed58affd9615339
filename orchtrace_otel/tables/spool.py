"""What was read, on disk: of several revisions of a run the highest, with its late rewards.

SQLite in a temporary file, so that memory does not grow with what is read. Runs come
out in any order that is asked for, such as task by task.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import orjson

from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards import score
from orchtrace_otel.schema import dump, load
from orchtrace_otel.spans import writable
from orchtrace_otel.tables.joining import given, is_given
from orchtrace_otel.tables.reading import Bad, Late
from orchtrace_otel.tables.scratch import Scratch
from orchtrace_otel.tables.versions import began, versions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from orchtrace_otel.tables.reading import Item

_TABLES: Final = """
create table runs (
    run text primary key, revision integer, task text, place integer, trace blob, is_gone integer,
    began integer, versions text, given text
) without rowid;
create table late (run text, id text, reward blob, primary key (run, id)) without rowid;
create table tasks (task text primary key, cluster text) without rowid;
"""


class Counts(NamedTuple):
    """How much was taken in.

    Attributes:
        runs: Runs that are kept.
        superseded: Lower or equal revisions of these, which are not.
        late: Rewards that came after their runs.
        orphans: Of these, those whose run did not come.
    """

    runs: int
    superseded: int
    late: int
    orphans: int


class Spool:
    """Takes traces and late rewards in, and gives each run once.

    Args:
        folder: Where the temporary file lies; the system's place for them unless given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._base = Scratch(_TABLES, folder)
        self.superseded = 0
        self._place = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary file."""
        self._base.close()

    def take(self, items: Iterable[Item]) -> Iterator[Bad]:
        """Take in what was read; what is bad is handed on."""
        for item in items:
            if isinstance(item, Bad):
                yield item
            elif isinstance(item, Late):
                self._take_late(item)
            else:
                self._take_trace(item)

    def _take_trace(self, trace: Trace) -> None:
        revision = revision_of(trace)
        run = storable(trace.trace_id)
        query = "select revision from runs where run = ?"
        known = self._base.one(query, (run,))
        if known is not None:
            self.superseded += 1
            if known[0] > revision:
                return
        gone = is_superseded(trace)
        versions = versions_of(trace)
        told = orjson.dumps(versions) if versions else None
        names = orjson.dumps(sorted(map(writable, given(trace))))
        row = (run, revision, storable(trace.task_id), self._place, dump(trace), gone)
        query = "insert or replace into runs values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._base.execute_many(query, [(*row, began(trace), told, names)])
        self._place += 1

    def _take_late(self, late: Late) -> None:
        row = (storable(late.run_id), storable(late.reward.id), orjson.dumps(late.reward.to_dict()))
        self._base.execute_many("insert or replace into late values (?, ?, ?)", [row])

    @property
    def counts(self) -> Counts:
        """How much was taken in so far."""
        query = (
            "select (select count(*) from runs where not is_gone), (select count(*) from late), "
            "(select count(*) from late where run not in (select run from runs))"
        )
        runs, late, orphans = self._base.one(query) or (0, 0, 0)
        return Counts(runs, self.superseded, late, orphans)

    def tasks(self) -> Iterator[tuple[str, Trace]]:
        """Go through the tasks in order, each with its first run."""
        query = "select task, min(run) from runs where not is_gone group by task order by task"
        for task, run in self._base.execute(query):
            yield task, self._trace(run)

    def versions(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Go through the runs whose turns tell policy versions, by beginning: it, and these."""
        query = (
            "select began, versions from runs where versions is not null and not is_gone "
            "order by began, run"
        )
        for start, versions in self._base.execute(query):
            yield start, orjson.loads(versions)

    def given(self) -> set[str]:
        """Return the components of rewards that somebody gave a run, then or later."""
        query = "select distinct given from runs where not is_gone"
        found = {name for (names,) in self._base.execute(query) for name in orjson.loads(names)}
        query = "select reward from late join runs using (run) where not is_gone"
        late = (orjson.loads(reward) for (reward,) in self._base.execute(query))
        return found | {writable(reward["component"]) for reward in late if is_given(reward)}

    def cluster(self, clusters: Iterable[tuple[str, str]]) -> None:
        """Say which cluster a task belongs to; a task is its own cluster unless said."""
        self._base.execute_many("insert or replace into tasks values (?, ?)", clusters)

    def groups(self) -> Iterator[tuple[str, str, Iterator[Trace]]]:
        """Go through cluster by cluster and task by task: cluster, task, its runs by id.

        Their texts are such as columns hold. Runs are read when they are asked for, and are
        gone with the next group.
        """
        query = (
            "select coalesce(cluster, runs.task), runs.task, run from runs "
            "left join tasks on tasks.task = runs.task where not is_gone order by 1, 2, 3"
        )
        found = self._base.execute(query)
        for (cluster, task), members in groupby(found, key=itemgetter(0, 1)):
            yield cluster, task, (self._trace(run, for_columns=True) for _, _, run in members)

    def runs(self) -> Iterator[Trace]:
        """Go through the runs in the order in which they were taken in.

        Those that were superseded by others among them: whoever has an older revision must
        hear of it.
        """
        for (run,) in self._base.execute("select run from runs order by place"):
            yield self._trace(run)

    def orphans(self) -> Iterator[tuple[str, Reward]]:
        """Go through the late rewards whose run did not come, by run."""
        query = (
            "select run, reward from late where run not in (select run from runs) order by run, id"
        )
        for run, reward in self._base.execute(query):
            yield run, Reward.from_dict(orjson.loads(reward))

    def _trace(self, run: str, *, for_columns: bool = False) -> Trace:
        (blob,) = self._base.one("select trace from runs where run = ?", (run,)) or (b"",)
        blob = in_columns(blob) if for_columns else blob
        rows = self._base.execute("select reward from late where run = ? order by id", (run,))
        late = [Reward.from_dict(orjson.loads(row[0])) for row in rows]
        trace = load(blob)
        return with_late(trace, late) if late else trace


def storable(text: str) -> str:
    """Return a text that UTF-8 can hold: half a surrogate pair becomes an escape."""
    return text.encode("utf-8", "backslashreplace").decode()


def in_columns(document: bytes) -> bytes:
    """Return a document in which half a surrogate pair, which no column holds, is replaced."""
    if b"\\ud" not in document:
        return document
    return writable(json.dumps(json.loads(document), ensure_ascii=False)).encode()


def revision_of(trace: Trace) -> int:
    """Return a run's revision; 0 where it says none."""
    revision: Any = trace.stop.get("revision", 0) if trace.stop else 0
    return revision if isinstance(revision, int) and abs(revision) < 2**63 else 0


def is_superseded(trace: Trace) -> bool:
    """Whether a revision says that its run is another one since, and is none any more."""
    return trace.stop is not None and trace.stop.get("superseded_by") is not None


def judged(trace: Trace, late: Iterable[Reward]) -> Trace:
    """Return a run with rewards that came after it, scored anew: credit divides what it was worth.

    One that it has already is replaced. The order in which they came changes nothing; of several
    for one component a final one goes before a provisional one.
    """
    came = sorted(late, key=lambda reward: (not reward.provisional, reward.id))
    return score(trace, [("late", lambda _: came)])


def with_late(trace: Trace, late: Iterable[Reward]) -> Trace:
    """Return a run `judged`, under a higher revision.

    Example:
        >>> from orchtrace_otel.model import Event
        >>> stop = Event("s", 1.0, "orchestrator_decision", "lead", {"verb": "stop"})
        >>> trace = Trace("r", "q", (stop,), costs={"tokens": 0, "wall_clock_s": 1})
        >>> found = with_late(trace, [Reward(id="x", component="task", value=0.5)])
        >>> found.rewards["task"], found.stop["revision"]
        (0.5, 1)
    """
    found = judged(trace, late)
    stop = found.stop
    if stop is None:
        return found
    marked = replace(stop, keys={**stop.keys, "revision": revision_of(trace) + 1})
    return replace(found, events=(*found.events[:-1], marked))
