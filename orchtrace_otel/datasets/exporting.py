"""From files of traces to a data set: read, group, split, choose, write; in one stream.

What is read is spooled to disk, so that memory holds a few groups of runs at a time,
however many there are; the largest group is the bound.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from orchtrace_otel.datasets import engine
from orchtrace_otel.datasets.card import card
from orchtrace_otel.datasets.chat import chat
from orchtrace_otel.datasets.check import Check
from orchtrace_otel.datasets.contents import Contents
from orchtrace_otel.datasets.files import Output
from orchtrace_otel.datasets.runs import Dropped, Record
from orchtrace_otel.datasets.tasks import clusters, split_of
from orchtrace_otel.datasets.updates import updates
from orchtrace_otel.datasets.writer import open_writer
from orchtrace_otel.errors import ConfigError, ContentError
from orchtrace_otel.tables.reading import Bad, Item, read_all
from orchtrace_otel.tables.rows import rows_of
from orchtrace_otel.tables.spool import Counts, Spool

if TYPE_CHECKING:
    from orchtrace_otel.datasets.job import Job
    from orchtrace_otel.model import Trace
    from orchtrace_otel.tables.rows import Rows

Engine: TypeAlias = Callable[[Iterable[Any], "Job"], Iterator[Any]]
"""Takes tables of whole groups, gives the tables that `engine.records` makes of them, in order."""

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many runs are done, of how many."""

_MOST_TOLD: Final = 1_000
_NONE: Final = Counts(0, 0, 0, 0)


@dataclass(slots=True)
class Report:
    """What an export did.

    Attributes:
        check: What was written and dropped.
        counts: What was read.
        splits: Records of each split.
        bad: What could not be read, the first thousand of it.
        bad_count: How much could not be read.
        fingerprint: Of the data set; empty for a dry run.
        tasks: How many tasks there are.
        clusters: How many of them are left when near-duplicates count once.
        models: Calls by the model that answered.
        began: When the first and the last run began, nanoseconds since 1970.
        rewards: Components of rewards that runs have.
        words: What runs have of what is filtered by, by the job's field.
    """

    check: Check
    counts: Counts = _NONE
    splits: Counter[str] = field(default_factory=Counter[str])
    bad: list[Bad] = field(default_factory=list[Bad])
    bad_count: int = 0
    fingerprint: str = ""
    tasks: int = 0
    clusters: int = 0
    models: Counter[str] = field(default_factory=Counter[str])
    began: tuple[int, int] | None = None
    rewards: set[str] = field(default_factory=set[str])
    words: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "check": self.check.to_dict(),
            "splits": dict(self.splits),
            "read": {**self.counts._asdict(), "bad": self.bad_count},
            "tasks": self.tasks,
            "clusters": self.clusters,
            "models": dict(self.models.most_common()),
            "began_unix_nano": self.began,
            "fingerprint": self.fingerprint,
        }


def local(tables: Iterable[Any], job: Job) -> Iterator[Any]:
    """The engine of this process."""
    for table in tables:
        yield engine.records(table, job)


def export(  # noqa: PLR0913 - keywords, each a choice of its own
    job: Job,
    places: Iterable[str | PathLike[str]],
    out: str | PathLike[str] | None,
    *,
    license_id: str = "unknown",
    run_engine: Engine = local,
    progress: Progress | None = None,
    source: Callable[[Iterable[str]], Iterator[Item]] = read_all,
) -> Report:
    """Make a data set.

    Args:
        job: What is asked for.
        places: Files and folders of traces, and lakes.
        out: Its folder, new or empty; None only checks.
        license_id: SPDX id of the data's licence, for the card.
        run_engine: What runs `engine.records`.
        progress: Told of how far it is.
        source: What goes through the places.

    Returns:
        What was done. A refusal is in `report.check.refusal`; then nothing is written.

    Raises:
        ConfigError: If the job or the folder is wrong.
        MissingDependencyError: If a library is not installed.
        OSError: If the folder cannot be written; nothing is left of it.
    """
    if isinstance(places, str | bytes | PathLike):
        msg = f"export() needs a list of files and folders, got {places!r}; say [{places!r}]"
        raise ConfigError(msg)
    writer = open_writer(job.format, job)
    engine.try_settings(job, writer)
    report = Report(Check(writer.name, writer.loses))
    engine.begin()
    output = None if out is None else Output(Path(out), writer, deduplicate=job.deduplicate)
    try:
        with Spool() as spool:
            for bad in spool.take(source(fspath(place) for place in places)):
                _note(report, bad)
            report.counts = spool.counts
            _plan(spool, job, report)
            if job.reward is None:
                job = replace(job, given=frozenset(spool.given()))
            if "current" in writer.settings:
                job = with_updates(job, spool.versions())
            tables = _tables(spool, job, writer.tables, report, progress)
            for made in run_engine(tables, job):
                _write(made, report, output)
        if output is not None and report.check.refusal is None:
            report.splits, report.fingerprint = output.counts, output.fingerprint
            output.finish(_pages(job, report, license_id))
    finally:
        if output is not None and output.draft.exists():
            output.discard()
    return report


def with_updates(job: Job, versions: Iterable[tuple[int, Mapping[str, str]]]) -> Job:
    """Return a job that knows of the updates which the versions of some runs show."""
    found = updates(versions)
    return replace(job, updates=found.times, newest=found.newest)


def _note(report: Report, bad: Bad) -> None:
    report.bad_count += 1
    if len(report.bad) < _MOST_TOLD:
        report.bad.append(bad)


def _plan(spool: Spool, job: Job, report: Report) -> None:
    contents = engine.contents_of(job)
    alike = 0

    def texts() -> Iterator[tuple[str, str]]:
        for task, trace in spool.tasks():
            report.tasks += 1
            text = asked(trace, contents) if job.content is not None else None
            if text:
                yield task, text

    found = list(clusters(texts(), job.alike))
    alike = len(found) - len({cluster for _, cluster in found})
    spool.cluster(found)
    report.clusters = report.tasks - alike


def asked(trace: Trace, contents: Contents) -> str | None:
    """Return what a run was asked: the first words of a user in its first call."""
    for turn in trace.turns:
        try:
            read_turn = contents.turn(turn.to_dict())
        except ContentError:
            continue
        said = chat(read_turn.prompt)
        text = next((one["content"] for one in said if one["role"] == "user"), None)
        if text:
            return str(text)
    return None


def _tables(
    spool: Spool,
    job: Job,
    wanted: tuple[str, ...],
    report: Report,
    progress: Progress | None,
) -> Iterator[Any]:
    done = 0
    for batch in engine.batches(_rows(spool, job, wanted, report)):
        done += sum(len(runs) for _, _, runs in batch)
        table = engine.planned(batch)
        batch.clear()  # all of it is in the table
        yield table
        if progress is not None:
            progress(done, report.counts.runs)


def _rows(
    spool: Spool, job: Job, wanted: tuple[str, ...], report: Report
) -> Iterator[tuple[str, str, list[Rows]]]:
    for cluster, _, traces in spool.groups():
        rows: list[Rows] = []
        for trace in traces:
            rows.append(rows_of(trace, wanted))
            _look(rows[-1], report)
        yield cluster, split_of(cluster, job.seed, job.validation), rows


def _look(rows: Rows, report: Report) -> None:
    report.models.update(str(row.get("model", "unknown")) for row in rows.turns)
    report.rewards.update(rows.run.get("rewards", ()))
    report.rewards.update([str(row.get("component")) for row in rows.rewards])
    report.words["agents"].update(rows.run.get("agents", ()))
    report.words["roles"].update(_said(rows.turns, "role"), _said(rows.decisions, "role"))
    report.words["stop_reasons"].update(_said([rows.run], "stop_reason"))
    report.words["topologies"].update(_said([rows.run], "topology"))
    began = rows.run.get("start_unix_nano")
    if isinstance(began, int):
        first, last = report.began or (began, began)
        report.began = (min(first, began), max(last, began))


def _said(rows: Iterable[Mapping[str, Any]], column: str) -> Iterator[str]:
    return (str(row[column]) for row in rows if row.get(column))


def _write(made: Any, report: Report, output: Output | None) -> None:
    for split, outcome, text in engine.outcomes_of(made):
        if isinstance(outcome, Record) and text is not None and output is not None:
            if output.write(split, outcome, text):
                report.check.count(outcome)
            else:
                turn = outcome.turns[0] if outcome.turns else None
                report.check.count(Dropped("duplicate", outcome.runs[0], turn))
        else:
            report.check.count(outcome)
        if isinstance(outcome, Record) and output is None:
            report.splits[split] += 1


def _pages(job: Job, report: Report, license_id: str) -> dict[str, str]:
    made_by = f"orchtrace-otel {version('orchtrace-otel')}"
    facts = {"made_by": made_by, "license": license_id, "job": job.to_dict(), **report.to_dict()}
    document = orjson.dumps(facts, option=orjson.OPT_INDENT_2).decode()
    return {"dataset.json": document + "\n", "README.md": card(facts)}
