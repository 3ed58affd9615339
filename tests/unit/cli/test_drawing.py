"""The chart and the outline fit their width, in Unicode and in ASCII."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchtrace_otel.cli._drawing import ASCII, UNICODE, Glyphs, Palette, chart, duration, tree
from orchtrace_otel.cli._outline import Item, outline
from orchtrace_otel.cli.show import draw
from orchtrace_otel.model import Trace
from tests.properties.strategies import documents, traces


def team() -> list[Item]:
    """Return a boss who waits for a scout with a tool, and a critic."""
    scout = Item("agent", "scout", "scout", 2, 6, "spawned", tokens=1200, turns=2)
    scout.inside.append(Item("tool", "map", "scout", 3, 5, status="error"))
    critic = Item("agent", "critic", "critic", 6, 9, "spawned", causes=("scout",))
    stop = Item("point", "stop", "boss", 10, says="quality_met -> done")
    return [Item("agent", "boss", "boss", 0, 10, "begun by user", inside=[scout, critic, stop])]


def test_the_chart_shows_work_tools_and_waiting() -> None:
    """Own work, a tool's work and waiting for others have characters of their own."""
    lines = [line.plain.rstrip() for line in chart(team(), 40, UNICODE, Palette())]
    assert lines == [
        "boss     ████──────────────██       10 s",
        "  scout      ██▒▒▒▒██                4 s",
        "  critic             ██████          3 s",
        "         0               10 s",
    ]


def test_the_outline_shows_nesting_causes_and_times() -> None:
    """Each line says what, from what, since when and how long."""
    lines = [line.plain.rstrip() for line in tree(team(), 72, ASCII, Palette())]
    assert lines == [
        "boss begun by user                                           0      10 s",
        "|- scout spawned - 2 turns - 1,200 tokens                 +2 s       4 s",
        "|  `- tool map error                                      +3 s       2 s",
        "|- critic spawned <- scout                                +6 s       3 s",
        "`- stop quality_met -> done                              +10 s",
    ]


def test_agents_without_stretches_show_their_events() -> None:
    """Of traces that have instants alone the chart shows the instants."""
    items = [Item("event", "e1", "a", 0), Item("event", "e2", "b", 4), Item("event", "e3", "a", 8)]
    lines = [line.plain.rstrip() for line in chart(items, 34, ASCII, Palette())]
    assert lines == ["a o                   o", "b           o", "  0                 8 s"]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_asked(glyphs: Glyphs, width: int) -> None:
    """Long names, deep nesting and wide characters are cut, never wrapped."""
    inner = Item("agent", "漢字" * 40, "漢字", 1, 2, "spawned", causes=("x" * 300,))
    for depth in range(30):
        inner = Item("agent", f"agent {depth} " + "y" * 30, "y", 0, 3, "spawned", inside=[inner])
    least = max(width, 40)
    assert all(line.cell_len <= least for line in tree([inner], least, glyphs, Palette()))
    assert all(line.cell_len <= least for line in chart([inner], least, glyphs, Palette()))


def test_a_run_that_took_no_time_is_drawn() -> None:
    """Where everything happened at once the chart does not divide by its length."""
    lines = list(chart([Item("agent", "a", "a", 0, 0)], 40, UNICODE, Palette()))
    assert lines[0].plain.startswith("a █ ")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (4e-9, "4 ns"),
        (1e-300, "1e-291 ns"),
        (0.0000123, "12.3 us"),
        (0.0421, "42.1 ms"),
        (0.9999, "1 s"),
        (59.94, "59.9 s"),
        (60, "1m 00s"),
        (7260, "2h 01m"),
        (200_000, "2d 07h"),
        (1e300, "1e+300 s"),
    ],
)
def test_durations_are_short(seconds: float, shown: str) -> None:
    """Three digits and a unit that fits."""
    assert duration(seconds) == shown


@given(documents() | traces().map(Trace.to_dict), st.sampled_from([UNICODE, ASCII]))
def test_every_trace_can_be_drawn(document: dict[str, object], glyphs: Glyphs) -> None:
    """Whatever the schema accepts is drawn, on clean lines, each event once at most."""
    trace = Trace.from_dict(document)
    lines = [line.plain for line in draw(trace, 80, glyphs, everything=True)]
    assert all("\x1b" not in line and "\n" not in line for line in lines)
    assert len(lines) > 5
    assert len(list(tree(outline(trace), 80, glyphs, Palette()))) <= len(trace.events)
