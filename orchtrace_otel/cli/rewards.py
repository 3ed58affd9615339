"""`orchtrace rewards`: what runs were worth, component by component, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from orchtrace_otel.cli._columns import folded
from orchtrace_otel.cli._console import clean, tell, tell_text
from orchtrace_otel.cli._files import Traces
from orchtrace_otel.cli._reading import Reading
from orchtrace_otel.cli._reward_rows import Row, gathered, names_of, rows
from orchtrace_otel.cli._summary import number_of, stop_style, team_of
from orchtrace_otel.rewards import score
from orchtrace_otel.rewards.explaining import EXPLAINED, Explanation, Part, explain
from orchtrace_otel.rewards.explaining.topology import explain_kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from orchtrace_otel.model import Trace

_MOST_PARTS: Final = 40
_MOST_ALIKE: Final = 10
_HEADS: Final = ("component", "value", "family", "unit", "target", "estimator")


@click.command("rewards", short_help="Say what runs were worth, component by component.")
@click.argument("files", type=Traces(), metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document a run and line.")
@click.option(
    "--explain",
    "component",
    metavar="COMPONENT",
    help="Say how this reward or measure, or `topology`, came about: its formula with the run's "
    "values, and the events that made it.",
)
@click.option(
    "--all", "everything", is_flag=True, help="List every event and reward, however many."
)
def command(
    files: tuple[Path, ...], *, as_json: bool, component: str | None, everything: bool
) -> int:
    """Say what the runs in FILE were worth: a file of traces, `-` for standard input, or a folder.

    What a trace tells by itself is computed again, whether or not it was scored; what users
    recorded is carried. What cannot be known is absent: the flags of a run say why. Credit
    for agents and events has a verb of its own.
    """
    if as_json and component is not None:
        msg = "--json and --explain exclude each other"
        raise click.UsageError(msg)
    reading = Reading(files)
    seen: set[str] = set()
    explained = 0
    for number, trace in enumerate(reading, 1):
        scored = score(trace)
        if as_json:
            _tell_json(scored)
        elif component is None:
            _tell_run(scored, number, everything=everything)
        else:
            seen |= names_of(scored)
            explained += _explain(scored, number, component, everything=everything)
    if component is not None and not explained and reading.read:
        known = ", ".join(sorted({*seen, *EXPLAINED}))
        msg = f"no run has a number called {component!r}; there are {known}; and `orchtrace credit`"
        raise click.BadParameter(msg, param_hint="--explain")
    return int(reading.faults > 0)


def _tell_json(trace: Trace) -> None:
    document: dict[str, Any] = {
        "trace_id": trace.trace_id,
        "rewards": dict(trace.rewards),
        "metrics": dict(trace.metrics or {}),
    }
    tell(json.dumps(document, ensure_ascii=True))


def _tell_run(trace: Trace, number: int, *, everything: bool) -> None:
    _tell_head(trace, number)
    found = rows(trace) if everything else gathered(rows(trace), _MOST_ALIKE)
    _tell_table([row for row in found if row.family], _HEADS)
    _tell_table([row for row in found if not row.family], ("measure", "value"))


def _tell_head(trace: Trace, number: int) -> None:
    stop = trace.stop
    reason = "unknown" if stop is None else str(stop.get("stop_reason", "unknown"))
    if number > 1:
        tell_text(Text())
    tell_text(
        Text.assemble(
            (f"{number}  {clean(team_of(trace))}", "bold"),
            (f"  run {clean(trace.trace_id)}  stopped ", "dim"),
            (clean(reason), stop_style(reason)),
        )
    )
    if trace.flags:
        tell_text(Text(f"   flags: {clean(', '.join(map(str, trace.flags)))}", style="yellow"))


def _tell_table(found: Sequence[Row], heads: Sequence[str]) -> None:
    """Write rows below their heads; a column that says nothing is left out."""
    if not found:
        return
    columns = list(zip(*(row.cells() for row in found), strict=True))
    kept = [at for at, head in enumerate(heads) if head and any(columns[at])]
    heads = [heads[at] for at in kept]
    cells = [tuple(clean(row.cells()[at]) for at in kept) for row in found]
    head, *lines = folded([heads, *cells], indent=2, right={1})
    for part in head:
        tell_text(Text(part, style="dim"))
    for row, (first, *others) in zip(found, lines, strict=True):
        texts = [Text(first), *map(Text, others)]
        texts[0].stylize("bold", 2, 2 + len(clean(row.component)))
        if row.note:
            texts[-1].append(f"  {row.note}", style="dim")
        for text in texts:
            tell_text(text)


def _explain(trace: Trace, number: int, component: str, *, everything: bool) -> bool:
    """Explain a number of a run, or its topology; False where it has none of that name."""
    if component == "topology":
        _tell_head(trace, number)
        tell_text(Text.assemble("  ", ("topology", "bold"), f" = {trace.topology}"))
        _tell_explanation(explain_kind(trace), everything=everything)
        return True
    found = [row for row in rows(trace) if row.component == component]
    if not everything:
        found = gathered(found, _MOST_ALIKE)
    if not found and component not in EXPLAINED:
        return False
    _tell_head(trace, number)
    if not found:
        tell_text(Text(f"  {clean(component)} is absent: this trace does not tell", style="dim"))
        return True
    for row in found:
        said = " ".join(part for part in row.cells()[2:] if part)
        text = Text.assemble("  ", (clean(component), "bold"), f" = {row.cells()[1]}")
        tell_text(text.append(f"  {clean(said)}  {row.note}".rstrip(), style="dim"))
    explained = explain(trace, component)
    if explained is None:
        whose = (
            "the trace came with it, and does not tell it by itself"
            if component in EXPLAINED
            else "recorded by the user, or a user's function"
        )
        tell_text(Text(f"  {whose}; nothing to fill in"))
        return True
    _tell_explanation(explained, everything=everything)
    return True


def _tell_explanation(explained: Explanation, *, everything: bool) -> None:
    tell_text(Text(f"  {explained.formula}", style="dim"))
    tell_text(Text(f"  = {clean(explained.filled, longest=None)}"))
    _tell_parts(explained.parts, everything=everything)


def _tell_parts(parts: Sequence[Part], *, everything: bool) -> None:
    shown_parts = parts if everything else parts[:_MOST_PARTS]
    if not shown_parts:
        return
    lines = [
        (clean(one.what), f"{number_of(one.t)} s", clean(one.counts), clean(one.event))
        for one in shown_parts
    ]
    for parted in folded(lines, indent=4, right={1}):
        for part in parted:
            tell_text(Text(part))
    if len(lines) < len(parts):
        tell_text(Text(f"    and {len(parts) - len(lines):,} more: --all", style="dim"))
