"""`orchtrace convert`: runs from one kind of file to another."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchtrace_otel.cli._console import print_error, tell
from orchtrace_otel.cli._files import STDIN
from orchtrace_otel.cli._sources import Place, has_spans, read_places
from orchtrace_otel.cli._summary import counted
from orchtrace_otel.errors import without_password
from orchtrace_otel.exporter import TraceExporter, open_exporter
from orchtrace_otel.tables.reading import LINES
from orchtrace_otel.tables.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SHOWN = 5


@click.command("convert", short_help="Put runs from one kind of file into another.")
@click.argument("places", nargs=-1, required=True, type=Place(), metavar="IN...")
@click.option(
    "--to",
    "target",
    required=True,
    metavar="NAME:TARGET",
    help="An exporter and its target, such as parquet:runs/ or jsonl:runs.jsonl.",
)
@click.option("--compact", is_flag=True, help="Then join small files of the target, if it can.")
def command(places: tuple[str, ...], *, target: str, compact: bool) -> int:
    """Read the runs in IN and write them to an exporter's target.

    IN: files or folders of traces as JSON lines, folders or URLs of Parquet, and files or folders
    of spans, as the Collector's file exporter or ClickHouse writes them, of which the runs are
    built, those of one run from all of IN; log events among them are rewards that came later. Of
    several revisions of a run the highest is taken, once, with the rewards that came after it.
    Traces do not become OTLP again: a trace says what happened, not which spans told it. Keep the
    spans, or have a collector write them.
    """
    if not compact and any(_is_target(place, target) for place in places):
        shown = _shown(target)
        msg = f"must be another place than IN, where the runs would be twice, got {shown!r}"
        raise click.BadParameter(msg, param_hint="--to")
    exporter = _opened(target)
    join = _compaction(exporter, target) if compact else None
    known = _complaints(exporter)
    with Spool() as spool:
        faults = _read(spool, places)
        counts = spool.counts
        with closing(_Closed(exporter)):
            for trace in spool.runs():
                exporter.export(trace)
            for run_id, reward in spool.orphans():
                exporter.amend(run_id, reward)
            exporter.flush(600)
            # What earlier processes left there is for `doctor` to tell.
            left = [one for one in _complaints(exporter) if one not in known]
    for complaint in left:
        print_error(complaint)
    tell(
        f"{counted(counts.runs, 'run')} {'given' if left else 'written'} to {_shown(target)}; "
        f"{counted(counts.superseded, 'older revision')} left out, "
        f"{counted(counts.late, 'late reward')}, {counted(faults, 'fault')}"
    )
    if join is not None:
        done = join()
        tell(f"{counted(done.before, 'file')} joined into {done.after:,}")
        for fault in done.bad:
            print_error(fault)
    is_empty = not counts.runs and not counts.late
    if is_empty and not faults:
        why = "; its spans tell of no agent, workflow or tool at work" if has_spans(places) else ""
        print_error(f"no run in {', '.join(places)}{why}")
    return int(faults > 0 or is_empty or bool(left))


def _opened(target: str) -> TraceExporter:
    if target.partition(":")[0].startswith("otlp"):
        msg = "traces cannot be turned into spans again; convert writes jsonl: and parquet:"
        raise click.BadParameter(msg, param_hint="--to")
    exporter = open_exporter(target)
    if not isinstance(exporter, TraceExporter):
        msg = f"must name an exporter of traces, got {_shown(target)!r}"
        raise click.BadParameter(msg, param_hint="--to")
    return exporter


def _shown(target: str) -> str:
    return without_password(target) if "://" in target else target


def _is_target(place: str, target: str) -> bool:
    """Whether an exporter would add to what is read."""
    if place == str(STDIN):
        return False
    where = target.partition(":")[2].partition("?")[0]
    if "://" in place or "://" in where:
        return place.rstrip("/") == where.rstrip("/")
    here, there = Path(place).resolve(), Path(where).expanduser().resolve()
    is_in = there.parent == here and there.suffix in LINES
    return is_in or here in {there, there / "traces.jsonl"}


def _read(spool: Spool, places: Iterable[str]) -> int:
    faults = 0
    for bad in spool.take(read_places(places)):
        faults += 1
        if faults <= _SHOWN:
            print_error(f"{bad.where}: {bad.why}")
    if faults > _SHOWN:
        print_error(f"and {faults - _SHOWN:,} more that could not be read")
    return faults


def _complaints(exporter: Any) -> list[str]:
    complain: Callable[[], list[str]] | None = getattr(exporter, "complaints", None)
    return [] if complain is None else complain()


class _Closed:
    def __init__(self, exporter: TraceExporter) -> None:
        self._exporter = exporter

    def close(self) -> None:
        """Let go of the destination."""
        self._exporter.shutdown()


def _compaction(exporter: Any, target: str) -> Callable[[], Any]:
    """Return what joins the target's files; told before anything is written, if there is none."""
    join: Callable[[], Any] | None = getattr(exporter, "compact", None)
    if join is None:
        exporter.shutdown()
        msg = f"needs a target with files to join, such as parquet:runs/, got {_shown(target)!r}"
        raise click.BadParameter(msg, param_hint="--compact")
    return join
