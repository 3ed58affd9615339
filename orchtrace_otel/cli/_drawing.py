"""Lines of a chart of agents over time, and of an outline, for a given width.

Colours are only styles of the text: a console that shows none loses nothing, because
each difference is in the characters too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from orchtrace_otel.cli._console import clean
from orchtrace_otel.cli._outline import Item, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COLOURS: Final = ("cyan", "magenta", "green", "blue", "yellow", "bright_red", "bright_cyan")
_STATUS_STYLE: Final = {"error": "bold red", "cancelled": "yellow", "paused": "yellow"}
_LONGEST_LABEL: Final = 26
_TIME_WIDTH: Final = 10
_DEEPEST: Final = 12


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters that drawings are made of."""

    work: str
    tool: str
    wait: str
    point: str
    tee: str
    corner: str
    pipe: str
    cause: str
    arrow: str
    dot: str
    more: str


UNICODE: Final = Glyphs("█", "▒", "─", "◆", "├─ ", "└─ ", "│  ", "←", "→", "·", "…")
ASCII: Final = Glyphs("#", "=", "-", "o", "|- ", "`- ", "|  ", "<-", "->", "-", "...")


@dataclass(slots=True)
class Lane:
    """One row of the chart: everything that one instance of an agent did.

    Attributes:
        label: Name of the instance.
        agent: Name of the agent.
        depth: How deep inside other agents it worked.
        stretches: Its activations, each with what went on inside it.
        points: Times at which it did something that took none.
    """

    label: str
    agent: str
    depth: int = 0
    stretches: list[Item] = field(default_factory=list[Item])
    points: list[float] = field(default_factory=list[float])


class Palette:
    """A colour for each agent, the same everywhere in a drawing."""

    def __init__(self) -> None:
        self._colours: dict[str, str] = {}

    def of(self, agent: str) -> str:
        """Return the colour of `agent`."""
        return self._colours.setdefault(agent, _COLOURS[len(self._colours) % len(_COLOURS)])


def duration(value: float) -> str:
    """Write a duration for people, in at most 9 characters.

    Example:
        >>> [duration(t) for t in (0, 0.0000123, 0.0421, 1.5, 75, 7260, 200_000)]
        ['0 s', '12.3 us', '42.1 ms', '1.5 s', '1m 15s', '2h 01m', '2d 07h']
    """
    if value >= 10_000 * _DAY:
        return f"{value:.2g} s"
    for unit, size, smaller, part in _LONG:
        if value >= size:
            return f"{int(value // size)}{unit} {int(value % size // part):02}{smaller}"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 0.9995:  # noqa: PLR2004 - what three digits round up to 1
            return f"{value * scale:.3g} {unit}"
    return "0 s" if value == 0 else f"{value * 1e9:.2g} ns"


_DAY: Final = 86_400
_LONG: Final = (("d", _DAY, "h", 3_600), ("h", 3_600, "m", 60), ("m", 60, "s", 1))


def lanes(items: Sequence[Item]) -> list[Lane]:
    """Collect the rows of the chart, in the order in which agents appeared."""
    found: dict[str, Lane] = {}
    for row in rows(items):
        item = row.item
        if item.kind == "agent":
            lane = found.setdefault(item.name, Lane(item.name, item.agent, len(row.follows) - 1))
            lane.stretches.append(item)
    if found:
        return list(found.values())
    for row in rows(items):
        lane = found.setdefault(row.item.agent, Lane(row.item.agent, row.item.agent))
        lane.points.append(row.item.start)
    return list(found.values())


def chart(items: Sequence[Item], width: int, glyphs: Glyphs, palette: Palette) -> Iterator[Text]:
    """Draw agents over time; the last line is the scale."""
    drawn = lanes(items)
    longest = max((_last(row.item) for row in rows(items)), default=0.0)
    labels = {id(lane): "  " * min(lane.depth, _DEEPEST) + clean(lane.label) for lane in drawn}
    column = min(max(map(cell_len, labels.values()), default=0), _LONGEST_LABEL, width // 3)
    cells = max(width - column - _TIME_WIDTH - 2, 10)
    scale = _Scale(longest, cells)
    for lane in drawn:
        line = _fit(Text().append(labels[id(lane)], palette.of(lane.agent)), column, glyphs)
        line.append(" ")
        line.append(_bar(lane, scale, glyphs), style=palette.of(lane.agent))
        busy = sum(max(0.0, _last(item) - item.start) for item in lane.stretches)
        if lane.stretches:
            line.append(f" {duration(busy):>{_TIME_WIDTH}}", style="dim")
        yield line
    yield Text(" " * (column + 1) + scale.line(), style="dim")


def _last(item: Item) -> float:
    return item.start if item.end is None else max(item.start, item.end)


@dataclass(frozen=True, slots=True)
class _Scale:
    last: float
    cells: int

    def at(self, time: float) -> float:
        """Return where a time lies, in cells from the left."""
        return time / self.last * self.cells if self.last > 0 else 0.0

    def line(self) -> str:
        """Return the scale's own line."""
        start, end = "0", duration(self.last)
        middle = duration(self.last / 2)
        if self.cells < 40:  # noqa: PLR2004 - too narrow for three numbers
            return start + end.rjust(self.cells - 1)
        left = start + middle.rjust(self.cells // 2 - 1 + len(middle) // 2)
        return left + end.rjust(self.cells - len(left))


def _bar(lane: Lane, scale: _Scale, glyphs: Glyphs) -> str:
    """Paint each cell with what took most of it: own work, a tool, or waiting for others."""
    work, tool, wait = ([0.0] * scale.cells for _ in range(3))
    for item in lane.stretches:
        _cover(work, scale, item)
        for part in item.inside:
            if part.kind == "agent":
                _cover(wait, scale, part)
            elif part.kind == "tool":
                _cover(tool, scale, part)
    line: list[str] = []
    for own, tools, waits in zip(work, tool, wait, strict=True):
        rest = own - min(own, tools + waits)
        most = max(rest, tools, waits)
        if most == 0:
            line.append(" ")
        else:
            line.append(_glyph(most, tools, waits, glyphs))
    for time in lane.points:
        line[min(int(scale.at(time)), scale.cells - 1)] = glyphs.point
    return "".join(line)


def _glyph(most: float, tools: float, waits: float, glyphs: Glyphs) -> str:
    if most == waits:
        return glyphs.wait
    return glyphs.tool if most == tools else glyphs.work


def _cover(cells: list[float], scale: _Scale, item: Item) -> None:
    """Add how much of each cell an item covers; a short one covers a little of one cell."""
    low, high = scale.at(item.start), scale.at(_last(item))
    first, last = min(int(low), scale.cells - 1), min(int(high), scale.cells - 1)
    for cell in range(first, last + 1):
        part = min(high, cell + 1) - max(low, cell)
        if part > 0 or first == last:
            cells[cell] += max(part, 1e-9)


def tree_heading(width: int) -> str:
    """Name the columns on the right of `tree`."""
    return f"{'at':>{width - _TIME_WIDTH}}{'took':>{_TIME_WIDTH}}"


def tree(items: Sequence[Item], width: int, glyphs: Glyphs, palette: Palette) -> Iterator[Text]:
    """Draw an outline, with when each item began and how long it took on the right."""
    for row in rows(items):
        line = Text()
        above = row.follows[1:-1][-_DEEPEST:]
        line.append("".join(glyphs.pipe if more else "   " for more in above), style="dim")
        if len(row.follows) > 1:
            line.append(glyphs.tee if row.follows[-1] else glyphs.corner, style="dim")
        line.append(_said(row.item, glyphs, palette))
        room = width - 2 * _TIME_WIDTH
        line = _fit(line, room, glyphs)
        line.append(f"{_offset(row.item.start):>{_TIME_WIDTH}}", style="dim")
        if row.item.end is not None:
            took = duration(max(0.0, row.item.end - row.item.start))
            line.append(f"{took:>{_TIME_WIDTH}}")
        yield line


def _offset(start: float) -> str:
    return "0" if start == 0 else f"+{duration(start)}"


def _said(item: Item, glyphs: Glyphs, palette: Palette) -> Text:
    text = Text()
    says = clean(item.says.replace("->", glyphs.arrow))
    if item.kind == "agent":
        text.append(clean(item.name), style=f"bold {palette.of(item.agent)}")
        text.append(f" {says}", style="dim")
    elif item.kind == "tool":
        text.append("tool ", style="dim")
        text.append(clean(item.name))
    elif item.kind == "event":
        text.append(f"{clean(item.name)} ", style="dim")
        text.append(clean(item.agent), style=f"bold {palette.of(item.agent)}")
        text.append(f" {says}")
    else:
        text.append(clean(item.name), style="italic")
        text.append(f" {says}" if says else "")
    if item.status != "ok":
        text.append(f" {clean(item.status)}", style=_STATUS_STYLE.get(item.status, "bold"))
    if item.turns:
        text.append(f" {glyphs.dot} {item.turns} turn{'s' * (item.turns > 1)}", style="dim")
    if item.tokens:
        text.append(f" {glyphs.dot} {item.tokens:,.0f} tokens", style="dim")
    if item.causes:
        text.append(f" {glyphs.cause} {clean(', '.join(item.causes))}", style="dim")
    return text


def _fit(text: Text, width: int, glyphs: Glyphs) -> Text:
    """Cut or pad to exactly `width` cells."""
    if text.cell_len > width:
        text.truncate(max(width - cell_len(glyphs.more), 0))
        text.append(glyphs.more)
    text.pad_right(max(width - text.cell_len, 0))
    return text
