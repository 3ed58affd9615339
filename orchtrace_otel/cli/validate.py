"""`orchtrace validate`: everything that is wrong with files of traces."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from orchtrace_otel.cli._console import out_json, tell
from orchtrace_otel.cli._files import Traces, shown, superseded
from orchtrace_otel.cli._summary import counted
from orchtrace_otel.schema import Fault, read_lines
from orchtrace_otel.tables.reading import Bad, holds_rewards, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RULES: Final = {
    "schema": "the published schema refuses it",
    "artifact": "the published artifact's checker refuses it",
    "orchtrace": "only orchtrace refuses it",
}


@dataclass(slots=True)
class _Report:
    """What was found in one file."""

    file: str
    traces: int = 0
    sound: int = 0
    superseded: int = 0
    rewards: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@click.command("validate", short_help="Say everything that is wrong with files of traces.")
@click.argument("files", nargs=-1, required=True, type=Traces(), metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Write the faults as JSON.")
def command(files: tuple[tuple[Path, ...], ...], *, as_json: bool) -> int:
    """Check each trace in FILE against the published schema, and beyond it.

    A FILE holds one JSON document or one a line; `-` is standard input, a folder means
    the traces in it, each run by its newest revision. A file of rewards that came late is
    checked as one. Each fault is told with its line, its path and who refuses it: schema (the
    published JSON Schema), artifact (the checker published beside it) or orchtrace (only we
    do: cycles of causes, effects before causes, events after the stop).
    """
    reports: list[_Report] = []
    for group in files:
        old = _superseded(group)
        for path in group:
            report = _Report(shown(path))
            reports.append(report)
            for line, fault in _read(path, report, old):
                report.faults.append({"line": line, **asdict(fault)})
                if not as_json:
                    where = report.file if line is None else f"{report.file}:{line}"
                    tell(f"{where}: {fault} [{fault.rule}]")
    if as_json:
        out_json(_document(reports))
    else:
        tell(_summary(reports))
    return int(any(report.faults for report in reports))


def _superseded(files: tuple[Path, ...]) -> set[tuple[Path, int]]:
    try:
        return superseded(files)
    except OSError:
        return set()  # a file that cannot be read, which is told when it is its turn


def _read(
    path: Path, report: _Report, old: set[tuple[Path, int]]
) -> Iterator[tuple[int | None, Fault]]:
    if holds_rewards(path):
        yield from _read_rewards(path, report)
        return
    try:
        for line in read_lines(path):
            if (path, line.number) in old:
                report.superseded += 1
                continue
            report.traces += 1
            report.sound += not line.faults
            for fault in line.faults:
                yield line.number, fault
    except OSError as error:
        yield None, Fault("$", "must be a file that can be read", str(error.strerror), "schema")
        return
    if report.traces + report.superseded == 0:
        yield None, Fault("$", "must hold a trace", "an empty file", "schema")


def _read_rewards(path: Path, report: _Report) -> Iterator[tuple[int | None, Fault]]:
    """Go through rewards that came late, which lie beside the traces of most folders."""
    for item in read_file(path):
        if isinstance(item, Bad):
            number = item.where.rpartition(":")[2]
            must, _, came = item.why.partition(", came ")
            line = int(number) if number.isdecimal() else None
            yield line, Fault("$", must, came or "none", "orchtrace")
        else:
            report.rewards += 1


def _document(reports: list[_Report]) -> dict[str, Any]:
    return {
        "ok": not any(report.faults for report in reports),
        "traces": sum(report.traces for report in reports),
        "sound": sum(report.sound for report in reports),
        "faults": _by_rule(reports),
        "files": [asdict(report) for report in reports],
    }


def _by_rule(reports: list[_Report]) -> dict[str, int]:
    counted = Counter(str(fault["rule"]) for report in reports for fault in report.faults)
    return {rule: counted[rule] for rule in _RULES}


def _summary(reports: list[_Report]) -> str:
    traces = sum(report.traces for report in reports)
    sound = sum(report.sound for report in reports)
    lines = [f"{counted(traces, 'trace')} in {counted(len(reports), 'file')}: {sound} sound"]
    old = sum(report.superseded for report in reports)
    if old:
        lines.append(f"  {counted(old, 'older revision')} left out: a newer one is there")
    late = sum(report.rewards for report in reports)
    if late:
        lines.append(f"  {counted(late, 'reward')} that came late: sound")
    for rule, number in _by_rule(reports).items():
        if number:
            lines.append(f"  {counted(number, 'fault')} [{rule}]: {_RULES[rule]}")
    return "\n".join(lines)
