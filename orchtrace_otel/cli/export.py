"""`orchtrace export`: a data set that a trainer loads, from recorded runs."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from orchtrace_otel.cli._console import (
    console,
    note_unknown,
    out_json,
    print_error,
    tell,
)
from orchtrace_otel.cli._files import Target, known
from orchtrace_otel.cli._sources import Place, Store, read_places
from orchtrace_otel.cli._summary import counted
from orchtrace_otel.datasets import Job, Report, export, known_writers
from orchtrace_otel.datasets.exporting import Engine, local
from orchtrace_otel.datasets.job import JUDGES
from orchtrace_otel.datasets.labels import CREDIT
from orchtrace_otel.datasets.reasons import REASONS
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ENGINES: Final = "orchtrace.engine"
"""Entry points of engines beside the one of this process: `Engine`s by name."""

_SHOWN: Final = 5


def _formats() -> str:
    return " ".join(sorted(known_writers())) or "none is installed"


@click.command("export", short_help="Make a data set that a trainer loads.")
@click.argument("places", nargs=-1, required=True, type=Place(), metavar="IN...")
@click.option("--to", "format", required=True, metavar="FORMAT", help=f"One of: {_formats()}.")
@click.option("--out", metavar="DIR", type=Target(path_type=Path), help="A new or an empty folder.")
@click.option(
    "--content",
    type=Store(),
    metavar="STORE",
    help="Folder or URL of the content; ORCHTRACE_STORE.",
)
@click.option("--reward", metavar="NAME", help="The reward that labels and ranks.")
@click.option(
    "--min-reward",
    "least",
    type=float,
    callback=known,
    metavar="X",
    help="Labels below it are out.",
)
@click.option(
    "--max-reward",
    "most",
    type=float,
    callback=known,
    metavar="X",
    help="Labels above it are out.",
)
@click.option("--since", metavar="TIME", help="Runs that began before it are out; ISO 8601, UTC.")
@click.option("--until", metavar="TIME", help="Runs that began at it or later are out.")
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only this agent's calls.")
@click.option("--role", "roles", multiple=True, metavar="NAME", help="Only this role's calls.")
@click.option(
    "--stop-reason", "stop_reasons", multiple=True, metavar="WORD", help="Only such runs."
)
@click.option("--topology", "topologies", multiple=True, metavar="WORD", help="Only these.")
@click.option("--drop-truncated", is_flag=True, help="Leave out calls that a limit cut.")
@click.option(
    "--judge",
    "judges",
    multiple=True,
    metavar="ROLE",
    help=f"Roles whose words are verdicts, and no prompt may hold; {', '.join(sorted(JUDGES))}.",
)
@click.option("--trainee", metavar="MODEL", help="The model to be trained, where it is another.")
@click.option("--retokenised", is_flag=True, help="Take token ids that were made afterwards.")
@click.option("--deduplicate", is_flag=True, help="Write equal records once.")
@click.option(
    "--alike",
    type=float,
    default=0.8,
    show_default=True,
    metavar="X",
    help="Share of their words from which two tasks are one.",
)
@click.option(
    "--validation",
    type=float,
    default=0.1,
    show_default=True,
    metavar="X",
    help="Share of the tasks that is held out.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Draws the split."
)
@click.option(
    "--margin",
    type=float,
    default=0.0,
    show_default=True,
    metavar="X",
    help="Least difference of rewards that makes two answers a pair.",
)
@click.option(
    "-s",
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the format; a wrong one is answered with those there are.",
)
@click.option(
    "--license",
    "license_id",
    default="unknown",
    show_default=True,
    metavar="SPDX",
    help="Licence of the data, for its card.",
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    metavar="NAME",
    help="Who does the work: this process, or one that is installed, such as ray.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be written and dropped.")
@click.option("--json", "as_json", is_flag=True, help="Write the report as JSON.")
def command(**given: Any) -> int:
    """Make a data set of the runs in IN: files or folders of traces, OTLP JSON, Parquet.

    Runs are grouped and split by task, near-duplicate tasks together. What a format cannot take
    is left out and counted by its reason; where nothing is left, it refuses, and DIR stays as
    it was. Exit code 1: some input could not be read, or the format refuses.
    """
    if not given["dry_run"] and given["out"] is None:
        msg = "say where to with --out DIR, or --dry-run"
        raise click.UsageError(msg)
    with _Bar() as bar:
        report = export(
            _job(given),
            given["places"],
            None if given["dry_run"] else given["out"],
            license_id=given["license_id"],
            run_engine=_engine(given["engine"]),
            progress=bar.show,
            source=read_places,
        )
    _note_misspelled(given, report)
    if given["as_json"]:
        out_json({**report.to_dict(), "faults": [bad._asdict() for bad in report.bad]})
    else:
        _tell(report, given["out"], is_dry=given["dry_run"])
    return int(report.bad_count > 0 or report.check.refusal is not None)


def _note_misspelled(given: Mapping[str, Any], report: Report) -> None:
    """Name what no run has: a filter by a word that nothing is called leaves nothing."""
    if given["reward"] is not None:
        # Credit is known by the name of its method, and has an event's rewards beside it.
        note_unknown("a reward", given["reward"].removeprefix(CREDIT), report.rewards)
    for name, what in _SETS.items():
        for word in given[name]:
            note_unknown(what, word, report.words.get(name, ()))


_PLAIN: Final = (
    *("format", "reward", "least", "most", "trainee", "retokenised", "deduplicate"),
    *("alike", "validation", "seed", "margin"),
)
_SETS: Final = {
    "agents": "an agent",
    "roles": "a role",
    "stop_reasons": "a stop reason",
    "topologies": "a topology",
}
"""Filters by words, and what a word of each names."""
_RANGES: Final = (
    ("--min-reward", "least", "--max-reward", "most"),
    ("--since", "since", "--until", "until"),
)
"""Filters from one option to another, and what each is to the job."""


def _job(given: Mapping[str, Any]) -> Job:
    chosen: dict[str, Any] = {
        **{name: given[name] for name in _PLAIN},
        **{name: frozenset(given[name]) for name in _SETS},
        "content": given["content"] or Settings.from_env().store,
        "since": _time(given["since"], "--since"),
        "until": _time(given["until"], "--until"),
        "keep_truncated": not given["drop_truncated"],
        "judges": frozenset(given["judges"]) or JUDGES,
        "settings": _settings(given["settings"]),
    }
    for low, least, high, most in _RANGES:
        if None not in (chosen[least], chosen[most]) and chosen[least] > chosen[most]:
            msg = f"must not be above {high}, got {given[least]} and {given[most]}"
            raise click.BadParameter(msg, param_hint=low)
    return Job(**chosen)


def _time(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        msg = f"needs a time such as 2026-11-29 or 2026-11-29T21:00, got {text!r}"
        raise click.BadParameter(msg, param_hint=option) from None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1e6) * 1_000


def _settings(given: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            msg = f"needs NAME=VALUE, got {text!r}"
            raise click.BadParameter(msg, param_hint="--set")
        found[name] = value
    return found


def _engine(name: str) -> Engine:
    if name == "local":
        return local
    known = {entry.name: entry for entry in entry_points(group=ENGINES)}
    if name not in known:
        msg = f"--engine must be one of {', '.join(['local', *sorted(known)])}, got {name!r}"
        raise ConfigError(msg)
    found: Engine = known[name].load()
    return found


class _Bar:
    """A bar on standard error, in a terminal only."""

    def __init__(self) -> None:
        columns = (
            TextColumn("runs"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        shown = console(stderr=True)
        # Where there is no terminal it is never started: older releases of Rich end even a
        # disabled one with an empty line.
        self._is_shown = shown.is_terminal
        self._bar = Progress(*columns, console=shown, transient=True)
        self._task = self._bar.add_task("runs", total=None)

    def __enter__(self) -> _Bar:
        if self._is_shown:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._bar.stop()

    def show(self, done: int, total: int) -> None:
        """Draw how far it is."""
        self._bar.update(self._task, completed=done, total=total)


def _tell(report: Report, out: Path | None, *, is_dry: bool) -> None:
    for bad in report.bad[:_SHOWN]:
        print_error(f"{bad.where}: {bad.why}")
    if report.bad_count > _SHOWN:
        print_error(f"and {report.bad_count - _SHOWN:,} more that could not be read")
    check, counts = report.check, report.counts
    lost = f" ({counts.orphans:,} of no run here)" if counts.orphans else ""
    tell(
        f"{counted(counts.runs, 'run')} of {counted(report.tasks, 'task')} read; "
        f"{counted(counts.superseded, 'older revision')}, "
        f"{counted(counts.late, 'late reward')}{lost}, {counted(report.bad_count, 'fault')}"
    )
    if check.refusal is not None:
        print_error(check.refusal)
        return
    splits = ", ".join(f"{count:,} {split}" for split, count in sorted(report.splits.items()))
    verb = "would be written" if is_dry else f"written to {out}"
    tell(f"{counted(check.records, 'record')} {verb}: {splits}")
    for what, how, found in (
        ("call", "left out", check.calls),
        ("run", "left out", check.runs),
        ("record", "without a label", check.unlabelled),
    ):
        for reason, count in found.most_common():
            tell(f"  {counted(count, what)} {how}: {reason}: {REASONS.get(reason, reason)}")
    for one in check.loses:
        tell(f"  the format has no place for {one}")
    if report.fingerprint:
        tell(f"fingerprint {report.fingerprint}")
