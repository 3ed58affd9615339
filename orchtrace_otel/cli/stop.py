"""`orchtrace stop`: learn when another step is worth its price, and ask what was learned."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from orchtrace_otel.cli._columns import folded
from orchtrace_otel.cli._console import (
    clean,
    note_unknown,
    out_json,
    print_note,
    tell,
    tell_text,
)
from orchtrace_otel.cli._files import Target, Traces, can_write
from orchtrace_otel.cli._reading import Reading
from orchtrace_otel.rewards.stopping.model import StopValue
from orchtrace_otel.rewards.stopping.points import Course, Point, read_course

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from orchtrace_otel.rewards.stopping.evaluation import Estimate, Evaluation, Gain, Row

_UNKNOWN: Final = "-"
_TOLD: Final = 3
"""Features that `explain` names for each point."""

_FILES: Final = Traces()
_MODEL: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_outcome = click.option(
    "--outcome",
    metavar="REWARD",
    help="Reward of the team, 0 to 1, that grades the answer a run gave: its last decision "
    "point has it where it has no answer_now.",
)


@click.group("stop", short_help="Learn when another step is worth its price.")
def command() -> None:
    """Learn from logged runs when to stop, and ask what was learned.

    Runs need decision points: events with `features`, graded with `answer_now` where somebody
    knows what stopping there would have been worth. `orchtrace.advise` writes the features.
    """


@command.command("fit", short_help="Fit a stopping value.")
@click.argument("files", nargs=-1, required=True, type=_FILES, metavar="TRAIN...")
@click.option(
    "--cost",
    required=True,
    type=float,
    metavar="LAMBDA",
    help="Price of a step, in successes: 0.05 says that twenty steps are worth one success.",
)
@click.option(
    "--out",
    "target",
    required=True,
    type=Target(dir_okay=False, path_type=Path),
    metavar="MODEL",
    help="Where the model is written, as JSON.",
)
@click.option("--sweeps", type=int, default=4, show_default=True, help="Rounds of learning.")
@click.option(
    "--most-premature",
    type=float,
    metavar="SHARE",
    help="Share of runs that may stop before their best point; v_stop gets a margin.",
)
@_outcome
def fit(  # noqa: PLR0913 - one parameter an option
    files: tuple[tuple[Path, ...], ...],
    *,
    cost: float,
    target: Path,
    sweeps: int,
    most_premature: float | None,
    outcome: str | None,
) -> int:
    """Fit a stopping value to the runs in TRAIN, and write it to MODEL.

    Points that nobody graded are censored: they count as steps, and teach nothing of what
    stopping there is worth.
    """
    from orchtrace_otel.rewards.stopping.fit import fit_stop_value  # noqa: PLC0415 - the extra

    if not target.absolute().parent.is_dir():
        msg = f"needs a folder that is there, got {str(target.parent)!r}"
        raise click.BadParameter(msg, param_hint="--out")
    if not can_write(target):
        msg = f"needs a file that can be written, got {str(target)!r}"
        raise click.BadParameter(msg, param_hint="--out")
    reading = _Reading(files, outcome)
    courses = list(reading)
    reading.say_what_is_missing()
    model = fit_stop_value(courses, cost=cost, sweeps=sweeps, most_premature=most_premature)
    model.save(target)
    facts = model.facts
    tell(
        f"{model.version}: {facts['runs']} runs of {facts['tasks']} tasks, "
        f"{facts['points']} decision points, {facts['graded']} graded"
    )
    tell(
        f"  q by {facts['q_learner']}, {facts['q_calibration']}, Brier {facts['q_brier']:.4f}; "
        f"gain by {facts['gain_learner']}; on tasks left out worth "
        f"{facts['value_left_out']:.4f} a run at {model.cost:g} a step"
    )
    if facts["left_out"]:
        print_note(f"left out, since some decision points lack them: {facts['left_out']}")
    verb = f"orchtrace stop eval {quote(str(target))}"
    tell(f"Written to {target}. Runs that it has not seen say more: {verb}")
    return int(reading.faults > 0)


@command.command("eval", short_help="Say what the policy would have been worth, beside baselines.")
@click.argument("model", type=_MODEL, metavar="MODEL")
@click.argument("files", nargs=-1, required=True, type=_FILES, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
@_outcome
def evaluate(
    model: Path, files: tuple[tuple[Path, ...], ...], *, as_json: bool, outcome: str | None
) -> int:
    """Say what MODEL's policy and each baseline would have been worth in the runs of FILE.

    A policy that stops no later than the log did, where that stop is graded, is worth what the
    grades say. One that goes on past the log's stop gets a number only where the log stopped by
    chance (`stop_probability`). All else is absent. Baselines were tuned with MODEL.
    """
    from orchtrace_otel.rewards.stopping import evaluation  # noqa: PLC0415 - the extra

    value = StopValue.load(model)
    reading = _Reading(files, outcome)
    courses = list(reading)
    reading.say_what_is_missing()
    found = evaluation.evaluate(value, courses)
    if as_json:
        out_json(found.to_dict())
    else:
        _tell_evaluation(found)
    return int(reading.faults > 0)


@command.command("explain", short_help="Say for each decision point why.")
@click.argument("model", type=_MODEL, metavar="MODEL")
@click.argument("files", type=_FILES, metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document a run and line.")
def explain(model: Path, files: tuple[Path, ...], *, as_json: bool) -> int:
    """Say what MODEL advises at each decision point of the runs in FILE, and why.

    v_stop is what going on is worth beside stopping: go on while it is above 0. Behind it stand
    the features that moved it most.
    """
    value = StopValue.load(model)
    reading = _Reading((files,), None)
    for course in reading:
        rows = [_point(value, point) for point in course.points]
        if as_json:
            document = {"trace_id": course.run, "model": value.version, "points": rows}
            tell(json.dumps(document, ensure_ascii=True))
        else:
            _tell_course(course, rows)
    if reading.read and not reading.found:
        print_note("no run has decision points: events with features, as orchtrace.advise writes")
    return int(reading.faults > 0)


class _Reading:
    """The courses in files, of each run's newest revision."""

    def __init__(self, files: Sequence[Sequence[Path]], outcome: str | None) -> None:
        self._traces = Reading([file for group in files for file in group])
        self._outcome = outcome
        self._rewards: set[str] = set()
        self.found = 0

    @property
    def faults(self) -> int:
        """Documents that were no traces, so far; told as they come."""
        return self._traces.faults

    @property
    def read(self) -> int:
        """Traces so far."""
        return self._traces.read

    def __iter__(self) -> Iterator[Course]:
        for trace in self._traces:
            self._rewards.update(trace.rewards)
            course = read_course(trace, self._outcome)
            if course.points:
                self.found += 1
                yield course

    def say_what_is_missing(self) -> None:
        """Say so where the outcome that was named is the reward of no run."""
        if self._outcome is not None:
            note_unknown("a reward", self._outcome, self._rewards)


def _point(model: StopValue, point: Point) -> dict[str, Any]:
    row: dict[str, Any] = {
        "event": point.event,
        "step": point.step,
        "t": point.t,
        "answer_now": point.answer_now,
    }
    if point.features is None:
        return {**row, "advice": None, "why": []}
    shares = model.why(point.features)
    return {
        **row,
        "advice": dict(model.advise(point.features)),
        "why": [
            {"feature": name, "value": point.features.get(name), "adds": adds}
            for name, adds in shares
            if adds
        ],
    }


def _tell_course(course: Course, rows: Sequence[dict[str, Any]]) -> None:
    about = f"run {course.run}, task {course.task}, stopped: {course.reason or 'unknown'}"
    tell_text(Text(clean(about, longest=None), style="bold"))
    table: list[tuple[str, ...]] = [("step", "t", "q", "g", "v_stop", "sd", "graded", "advice")]
    for row in rows:
        said: dict[str, Any] = row["advice"] or {}
        table.append(
            (
                str(row["step"]),
                f"{row['t']:.3f} s",
                *(_number(said.get(key)) for key in ("q", "g", "v_stop", "sd")),
                _number(row["answer_now"]),
                f"{said['reason']}: {_because(row['why'])}" if said else "no features: no advice",
            )
        )
    _tell_table(table)


def _because(why: Sequence[dict[str, Any]]) -> str:
    told = [
        f"{one['feature']}"
        + ("" if one["value"] is None else f" {one['value']:g}")
        + f" {one['adds']:+.3f}"
        for one in why[:_TOLD]
    ]
    return ", ".join(told) or "no feature tells"


def _tell_evaluation(found: Evaluation) -> None:
    tell(
        f"{found.model}, {found.cost:g} a step: {found.runs} runs of {found.tasks} tasks, "
        f"{found.points} decision points, {found.graded} graded"
    )
    heads = ("policy", "alone", "95 %", "ESS", "censored", "beside the log's stop", "95 %")
    table: list[tuple[str, ...]] = [(*heads, "fitted gains", "95 %", "in runs", "")]
    table += [_cells(row) for row in found.rows]
    _tell_table(table)
    _tell_seen(found.rows)


def _cells(row: Row) -> tuple[str, ...]:
    if row.alone is None or row.beside_log is None:
        return (row.name, *[_UNKNOWN] * 9, f"absent: {row.says}")
    return (
        row.name,
        *_estimate(row.alone),
        f"{row.alone.ess:.1f}",
        f"{row.alone.censored:.1%}",
        *_estimate(row.beside_log),
        *_estimate(row.gain),
        _UNKNOWN if row.gain is None else f"{row.gain.runs} of {row.alone.runs}",
        row.says,
    )


def _tell_seen(rows: Sequence[Row]) -> None:
    """Say why values are absent, and what was seen of the other runs."""
    for row in rows:
        for where, one in (("alone", row.alone), ("beside the log's stop", row.beside_log)):
            if one is not None and one.why is not None:
                seen = "" if one.seen is None else f"; the other runs alone have {one.seen:.4f}"
                tell(f"  {row.name}, {where}: absent, {one.why}{seen}")


def _estimate(one: Estimate | Gain | None) -> tuple[str, str]:
    if one is None or one.value is None:
        return (_UNKNOWN, _UNKNOWN)
    if one.low is None or one.high is None:
        return (_number(one.value), "one task")
    return (_number(one.value), f"{one.low:.4f} to {one.high:.4f}")


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.4f}"


def _tell_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Write rows in columns; the first row is the head."""
    cells = [[clean(cell, longest=None) for cell in row] for row in rows]
    for number, lines in enumerate(folded(cells, indent=2)):
        for part in lines:
            tell_text(Text(part, style="dim" if number == 0 else ""))
