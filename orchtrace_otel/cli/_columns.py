"""Rows in columns: a line each, or several where a terminal is narrower than the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from orchtrace_otel.cli._console import console

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_GAP: Final = "  "


def widths_of(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return how many cells of a terminal each column takes."""
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def aligned(cells: Sequence[str], widths: Sequence[int], right: Collection[int] = ()) -> str:
    """Write a row on one line.

    Args:
        cells: What stands in it.
        widths: How wide each column is.
        right: Places of the columns that stand to the right.

    Example:
        >>> aligned(["flow", "0.5"], [8, 6], right={1})
        'flow         0.5'
    """
    padded: list[str] = []
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        padding = " " * (width - cell_len(cell))
        padded.append(padding + cell if at in right else cell + padding)
    return _GAP.join(padded).rstrip()


def folded(
    rows: Sequence[Sequence[str]], *, indent: int, right: Collection[int] = ()
) -> list[list[str]]:
    """Lay rows out in columns; each comes as the lines that it takes, indented.

    That is one where no terminal is written to: programs and `grep` want whole lines. A line
    on which nothing would stand is left out.

    Args:
        rows: The rows, their head among them, with as many cells each.
        indent: Spaces before each line; what does not fit on the first stands further in.
        right: Places of the columns that stand to the right.
    """
    widths = widths_of(rows)
    room = console().width - indent if console().is_terminal else None
    bands = _bands(widths, room)

    def lines(row: Sequence[str]) -> Iterator[str]:
        for start, end in bands:
            shown = aligned(row[start:end], widths[start:end], {at - start for at in right})
            if start == 0 or shown:
                yield " " * indent + (_GAP if start else "") + shown

    return [list(lines(row)) for row in rows]


def _bands(widths: Sequence[int], room: int | None) -> list[tuple[int, int]]:
    """Part columns into those that fit beside each other.

    Example:
        >>> _bands([10, 6, 6, 6], 40), _bands([10, 6, 6, 6], 26), _bands([30, 6, 6], 40)
        ([(0, 4)], [(0, 3), (3, 4)], [(0, 1), (1, 3)])
    """
    if room is None or _across(widths) <= room:
        return [(0, len(widths))]
    # Beside a long name there would be room for a number or two, and none for the others.
    is_long = len(widths) > 1 and widths[0] > room // 2
    bands, start = ([(0, 1)], 1) if is_long else ([], 0)
    while start < len(widths):
        left = room - (len(_GAP) if bands else 0)
        end = start + 1
        while end < len(widths) and _across(widths[start : end + 1]) <= left:
            end += 1
        bands.append((start, end))
        start = end
    return bands


def _across(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)
