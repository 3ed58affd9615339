"""The store: a folder of finished traces, each run's newest revision known by an index.

Tables are written by an exporter of finished traces (entry point group
`orchtrace.exporter`), chosen by its name, such as `jsonl` or `parquet`. One that can say
where a line lies has a method `export_line(line) -> (file, start)`; others are given the
trace, and asked to flush every few seconds only, since each flush of theirs may be a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from orchtrace_otel.collect.index import Entry, Index, digest, with_revision
from orchtrace_otel.collect.spool import sync_path
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.exporter import TraceExporter, open_exporter
from orchtrace_otel.model import Event, Trace
from orchtrace_otel.schema import dump

_FLUSH_S: Final = 10.0

Written: TypeAlias = Literal["new", "amended", "unchanged"]


class Store:
    """Writes finished traces once, and again under a higher revision when they changed.

    Attributes:
        settle_every_s: Seconds between two calls of `settle`.

    Args:
        folder: The folder; made where it is missing.
        tables: Name of the exporter that writes into it.
        sync: Whether to wait for the disk before a commit counts.

    Raises:
        ConfigError: If there is no such exporter, or it does not open there.
    """

    def __init__(self, folder: Path, tables: str = "jsonl", *, sync: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._sync = sync
        self._exporter: Any = _opened(tables, folder)
        self._export_line: Any = getattr(self._exporter, "export_line", None)
        self.index = Index(folder / "index.sqlite", folder, sync=sync)
        self.index.catch_up()
        self.index.commit()
        self._touched: set[int] = set()
        self.settle_every_s = _FLUSH_S if self._export_line is None else 0.0
        self._is_in_doubt = False

    def put(self, trace: Trace) -> Written:
        """Write a trace of revision 0, unless the store says the same of its run already.

        Raises:
            OSError: If it could not be written.
            sqlite3.Error: If the index could not.
        """
        if self._is_in_doubt:
            self._recover()
        line = dump(trace)
        summary = digest(line)
        known = self.index.find(trace.trace_id)
        if known is not None and known.digest == summary:
            return "unchanged"
        if known is not None:
            trace = with_revision(trace, known.revision + 1)
            line = dump(trace)
        self._write(trace, line, summary)
        return "new" if known is None else "amended"

    def supersede(self, entry: Entry, by: str) -> None:
        """Write that a run is another one since more of its spans came.

        Its last revision says so, and nothing else: who reads it as a run finds no work.

        Raises:
            OSError: If it could not be written.
            sqlite3.Error: If the index could not.
        """
        gone = _superseded(entry, by)
        line = dump(gone)
        self._write(gone, line, digest(line))

    def _write(self, trace: Trace, line: bytes, summary: bytes) -> None:
        place = None
        if self._export_line is None:
            self._exporter.export(trace)
        else:
            place = self._export_line(line)
            # By inode, for the file may be full and renamed before it is synced.
            self._touched.add(place[0].stat().st_ino)
        self.index.put(trace, summary, place, len(line) + 1)

    def settle(self) -> None:
        """Make the written traces last, as far as `sync` asks for it; before `commit`."""
        if self._export_line is None:
            self._exporter.flush(30)
        if self._sync and self._touched:
            for path in self.folder.glob("traces*.jsonl"):
                if path.stat().st_ino in self._touched:
                    sync_path(path)
            sync_path(self.folder)
        self._touched.clear()

    def commit(self) -> None:
        """Make what the index says of them last."""
        self.index.commit()

    def doubt(self) -> None:
        """After a failure: lines may be there that the index does not know; look before the next.

        Looking writes the index, which a full disk may not allow yet.
        """
        self._is_in_doubt = True

    def _recover(self) -> None:
        self.index.rollback()
        self.index.catch_up()
        self.index.commit()
        self._is_in_doubt = False

    def close(self) -> None:
        """Let go of the folder."""
        # After a failure what the exporter holds does not count. It would try once more, and tell
        # as lost what the spool keeps for the next start.
        if not self._is_in_doubt:
            self._exporter.shutdown()
        self.index.close()


def _opened(tables: str, folder: Path) -> TraceExporter:
    must = (
        "--tables must name an exporter that writes traces into a folder, as jsonl and parquet do"
    )
    try:
        opened: object = open_exporter(f"{tables}:{folder}/")
    except ConfigError as error:
        msg = f"{must}, got {tables!r} ({error})"
        raise ConfigError(msg) from error
    if not isinstance(opened, TraceExporter):
        msg = f"{must}, got {tables!r}, which exports spans"
        raise ConfigError(msg)
    return opened


def _superseded(entry: Entry, by: str) -> Trace:
    """Return the last revision of a run that is another one now."""
    root = entry.run_id.rpartition("-")[2]
    stop = Event(
        f"{root}.superseded",
        0.0,
        "orchestrator_decision",
        "unknown",
        {
            "verb": "stop",
            "decision": "O5",
            "activation": root,
            "instance": "unknown#1",
            "status": "ok",
            "start_unix_nano": entry.start_unix_nano,
            "stop_reason": "unknown",
            "superseded_by": by,
            "revision": entry.revision + 1,
            "flags": [],
        },
    )
    costs = {"tokens": 0, "wall_clock_s": 0.0}
    return Trace(entry.run_id, entry.task_id, (stop,), costs=costs, system=entry.system)
