"""`orchtrace show`: one run, drawn in the terminal."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import click
from rich.cells import cell_len
from rich.text import Text

from orchtrace_otel.cli._console import can_draw, clean, console, out
from orchtrace_otel.cli._drawing import (
    ASCII,
    UNICODE,
    Glyphs,
    Palette,
    chart,
    duration,
    tree,
    tree_heading,
)
from orchtrace_otel.cli._files import Traces
from orchtrace_otel.cli._outline import outline, seconds
from orchtrace_otel.cli._reading import Reading
from orchtrace_otel.cli._summary import (
    Summary,
    counted,
    number_of,
    stop_style,
    summarise,
    table,
    team_of,
)
from orchtrace_otel.rewards.records import is_builtin_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from orchtrace_otel.model import Trace

_SHORTEST_ID: Final = 8
_MOST_LANES: Final = 40
"""Lines of the chart, and of rewards."""
_MOST_LINES: Final = 200
_MOST_RUNS: Final = 20
_WIDEST: Final = 140


@click.command("show", short_help="Draw a run: agents over time, causes, rewards, the stop.")
@click.argument("files", type=Traces(), metavar="FILE")
@click.option(
    "--run",
    "wanted",
    metavar="ID|N",
    help="Which run: its number in FILE, from 1 or, counted from the end, from -1; or how its "
    "id begins. The last one unless given.",
)
@click.option("--all", "everything", is_flag=True, help="Draw every line, however many there are.")
def command(files: tuple[Path, ...], *, wanted: str | None, everything: bool) -> int:
    """Draw one run of FILE, a file of traces, `-` for standard input, or a folder of files.

    Where FILE holds several runs they are listed first, each by its newest revision and with
    the rewards that came after it. In the chart of agents over time a solid bar is an agent's
    own work, a shaded one a tool's, a line waiting for others. In the outline below, what
    happened inside something is indented under it, and an arrow names what led to it.
    Exit code 1: some of FILE is no trace.
    """
    summaries: list[Summary] = []
    reading = Reading(files)
    found = _find(reading, wanted, summaries)
    if found is None:
        return 1
    glyphs = UNICODE if can_draw() else ASCII
    width = min(console().width, _WIDEST)
    if wanted is None and len(summaries) > 1:
        out(*table(summaries[-_MOST_RUNS:], width), "")
        hint = f"The last of {len(summaries)} runs; another one: --run N"
        out(Text(hint, style="dim"), "")
    out(*draw(found, width, glyphs, everything=everything))
    return int(reading.faults > 0)


def _find(reading: Reading, wanted: str | None, summaries: list[Summary]) -> Trace | None:
    """Return the wanted trace and sum up all; keeps no more traces than it needs."""
    index = -1 if wanted is None else _index(wanted)
    last: deque[Trace] = deque(maxlen=-index if index is not None and index < 0 else 1)
    found: dict[str, Trace] = {}
    for trace in reading:
        summaries.append(summarise(trace, len(summaries) + 1))
        last.append(trace)
        if index == len(summaries) or (index is None and trace.trace_id.startswith(wanted or "")):
            found[trace.trace_id] = trace
    if index is not None and index < 0 and len(last) == -index:
        found = {last[0].trace_id: last[0]}
    if not summaries:
        return None
    if len(found) != 1:
        how = "is the beginning of several ids" if found else "is none of them"
        msg = f"{wanted!r} {how}; the file has {len(summaries)}, counted from 1, each with an id"
        raise click.BadParameter(msg, param_hint="--run")
    return found.popitem()[1]


def _index(wanted: str) -> int | None:
    """Read the number of a run; None for what must be an id."""
    digits = wanted.removeprefix("-")
    is_number = digits.isdecimal() and len(digits) < _SHORTEST_ID
    return int(wanted) if is_number else None


def draw(trace: Trace, width: int, glyphs: Glyphs, *, everything: bool = False) -> Iterator[Text]:
    """Draw a run, line by line."""
    palette = Palette()
    items = outline(trace)
    yield from _head(trace, glyphs)
    yield Text()
    legend = f"{glyphs.work} working  {glyphs.tool} in a tool  {glyphs.wait} waiting"
    if not any(item.kind == "agent" for item in items):
        legend = f"{glyphs.point} an event"
    yield _title("Agents over time", legend)
    lines = list(chart(items, width, glyphs, palette))
    yield from _most(lines[:-1], _MOST_LANES, everything=everything)
    yield lines[-1]
    yield Text()
    lines = list(tree(items, width, glyphs, palette))
    yield _title("What happened", f"{glyphs.cause} what led to it", tree_heading(width))
    yield from _most(lines, _MOST_LINES, everything=everything)
    yield from _numbers(trace, width, everything=everything)


def _title(name: str, legend: str = "", right: str = "") -> Text:
    text = Text.assemble((name, "bold"), "   ", (legend, "dim"))
    return text.append(right[text.cell_len :], style="dim")


def _most(lines: list[Text], most: int, *, everything: bool) -> Iterator[Text]:
    if everything or len(lines) <= most:
        yield from lines
        return
    yield from lines[:most]
    yield Text(f"and {counted(len(lines) - most, 'line')} more: --all", style="dim")


def _head(trace: Trace, glyphs: Glyphs) -> Iterator[Text]:
    summary = summarise(trace, 1)
    dot = f" {glyphs.dot} "
    task = None if trace.task_id == trace.trace_id else f"task {trace.task_id}"
    about = [trace.system, trace.topology, task]
    yield Text.assemble(
        (clean(team_of(trace)), "bold"),
        (dot + dot.join(clean(part) for part in about if part), "dim"),
    )
    yield Text(f"run {clean(trace.trace_id)}", style="dim")
    yield _stop(trace)
    sizes = (
        counted(summary.events, "event"),
        counted(summary.agents, "agent"),
        counted(summary.edges, "edge"),
        f"{number_of(summary.tokens)} token{'s' * (summary.tokens != 1)}",
        duration(seconds(trace.costs.get("wall_clock_s"))),
    )
    yield Text(dot.join(sizes))
    if trace.flags:
        yield Text(f"flags: {clean(', '.join(map(str, trace.flags)))}", style="bold yellow")


def _stop(trace: Trace) -> Text:
    stop = trace.stop
    if stop is None:
        return Text("the trace does not say why it stopped", style="dim")
    reason = str(stop.get("stop_reason", "unknown"))
    line = Text.assemble("stopped: ", (clean(reason), stop_style(reason)))
    detail = stop.get("stop_detail")
    if isinstance(detail, str) and detail:
        line.append(f" ({clean(detail)})")
    return line


def _numbers(trace: Trace, width: int, *, everything: bool) -> Iterator[Text]:
    rewards = list(_rewards(trace))
    if rewards:
        yield Text()
        yield _title("Rewards", "what the run tells by itself: orchtrace rewards FILE")
        column = max(cell_len(name) for name, _, _ in rewards)
        lines = [
            Text.assemble(
                f"  {name}{' ' * (column - cell_len(name))}  {value:>10}", (f"  {about}", "dim")
            )
            for name, value, about in rewards
        ]
        yield from _most(lines, _MOST_LANES, everything=everything)
    if trace.metrics:
        yield Text()
        yield _title("Measures")
        cells = [(clean(name), number_of(value)) for name, value in trace.metrics.items()]
        yield from _columns(cells, width)


def _rewards(trace: Trace) -> Iterator[tuple[str, str, str]]:
    """Say the name, value and kind of each reward that somebody gave.

    Those without a record by their number alone; the built-in ones have a verb of their own.
    """
    seen: set[object] = set()
    for record in trace.reward_records:
        seen.add(record.component)
        if is_builtin_id(record.id, trace.trace_id):
            continue
        kind = [record.family, record.unit, record.target, record.estimator]
        kind += ["provisional"] if record.provisional else []
        about = " ".join(clean(part, longest=40) for part in kind if part)
        yield clean(record.component), number_of(record.value), about
    for name, value in trace.rewards.items():
        if name not in seen:
            yield clean(name), number_of(value), ""


def _columns(cells: list[tuple[str, str]], width: int) -> Iterator[Text]:
    """Lay names and numbers out in as many columns as fit."""
    name_width = max(len(name) for name, _ in cells)
    value_width = max(len(value) for _, value in cells)
    across = max((width - 2) // (name_width + value_width + 6), 1)
    down = -(-len(cells) // across)
    for row in range(down):
        line = Text("  ")
        for name, value in cells[row::down]:
            line.append(f"{name:<{name_width}}  {value:>{value_width}}    ")
        line.rstrip()
        yield line
