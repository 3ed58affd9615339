"""`orchtrace credit`: who is to thank for how a run ended, by method."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from orchtrace_otel.cli._columns import folded
from orchtrace_otel.cli._console import clean, tell, tell_text
from orchtrace_otel.cli._files import Traces
from orchtrace_otel.cli._outline import seconds
from orchtrace_otel.cli._reading import Reading
from orchtrace_otel.cli._summary import number_of, team_of
from orchtrace_otel.rewards import Facts
from orchtrace_otel.rewards.credit import assign, by_unit, why_absent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from orchtrace_otel.rewards.credit import Credit

_REASONS: Final = {
    "no_outcome": "nobody said what the run was worth: record a reward `task`, or only one "
    "of the team",
    "no_answer": "no answer is known: nothing that did not fail led to the stop",
    "cyclic": "its causes go round in a circle",
    "skewed": "an effect came before its cause, or a time is none",
    "duplicate_ids": "two of its events have one id",
}
_UNITS: Final = (("agent", "agents"), ("role", "roles"))


@click.command("credit", short_help="Divide what runs were worth over agents and events.")
@click.argument("files", type=Traces(), metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document a run and line.")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many events to list, those with most by `flow` first.",
)
def command(files: tuple[Path, ...], *, as_json: bool, top: int) -> int:
    """Divide the outcome of each run in FILE over what led to its answer.

    FILE is a file of traces, `-` for standard input, or a folder. Credit is computed again,
    whether or not the traces hold any: by reachability, dominators, flow and decay along
    causes, by the share of the critical path, and to the last writer. These are attributions
    from one trace, not effects: what would have been without an event only a replay can tell.
    """
    reading = Reading(files)
    for number, trace in enumerate(reading, 1):
        facts = Facts(trace)
        credit = assign(facts)
        if as_json:
            _tell_json(facts, credit)
        else:
            _tell_run(facts, credit, number, top)
    return int(reading.faults > 0)


def _tell_json(facts: Facts, credit: Credit | None) -> None:
    document: dict[str, Any] = {"trace_id": facts.trace.trace_id, "credit": {}}
    if credit is None:
        document["absent"] = why_absent(facts)
    else:
        document["credit"] = {method: credit.by_id(method) for method in credit.shares}
    tell(json.dumps(document, ensure_ascii=True))


def _tell_run(facts: Facts, credit: Credit | None, number: int, top: int) -> None:
    trace = facts.trace
    if number > 1:
        tell_text(Text())
    name = team_of(trace) if trace.events else trace.task_id
    head = Text.assemble(
        (f"{number}  {clean(name)}", "bold"), (f"  run {clean(trace.trace_id)}", "dim")
    )
    if credit is None:
        tell_text(head)
        why = why_absent(facts) or ""
        tell_text(Text(f"  no credit: {_REASONS.get(why, why)}", style="yellow"))
        return
    worth = f"  {clean(credit.outcome.component)} {number_of(credit.outcome.value)}"
    tell_text(head.append(worth + (" (provisional)" if credit.outcome.provisional else "")))
    methods = tuple(credit.shares)
    for unit, name in _UNITS:
        _tell_table(name, methods, list(_sums(facts, credit, unit)))
    _tell_table("events", methods, list(_most(credit, top)))


def _sums(facts: Facts, credit: Credit, unit: str) -> Iterator[tuple[str, list[float]]]:
    """A row for each target of a unit, and one for what none of them got."""
    divisions = [by_unit(facts, credit, method, unit) for method in credit.shares]
    for target in divisions[0].targets:
        yield target, [division.targets[target] for division in divisions]
    if divisions[0].targets and any(division.unassigned for division in divisions):
        yield "unassigned", [division.unassigned for division in divisions]


def _most(credit: Credit, top: int) -> Iterator[tuple[str, list[float]]]:
    """A row for each of the events that got most by flow, then by the order of the trace."""
    found = {method: credit.parts(method) for method in credit.shares}
    flow: Mapping[int, float] = found["flow"]
    places = sorted(flow, key=lambda place: (-abs(flow[place]), place))
    for place in places[:top]:
        event = credit.events[place]
        label = f"{event.verb} of {event.agent} at {number_of(seconds(event.t))} s  {event.id}"
        yield label, [parts.get(place, 0.0) for parts in found.values()]


def _tell_table(
    name: str, methods: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]
) -> None:
    """Write rows below their head; numbers stand to the right."""
    if not rows:
        return
    cells = [(clean(label), *map(number_of, numbers)) for label, numbers in rows]
    right = range(1, 1 + len(methods))
    head, *lines = folded([(name, *methods), *cells], indent=2, right=right)
    for part in head:
        tell_text(Text(part, style="dim"))
    for (label, *_), (first, *others) in zip(cells, lines, strict=True):
        text = Text(first)
        text.stylize("bold", 2, 2 + len(label))
        tell_text(text)
        for part in others:
            tell_text(Text(part))
