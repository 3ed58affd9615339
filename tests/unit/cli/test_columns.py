"""Rows in columns: whole for programs, within the width of a terminal for people."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from orchtrace_otel.cli import _columns
from orchtrace_otel.cli._columns import folded

HEAD = ("event", "reachability", "flow")
ROW = ("decide of newsroom at 0.2 s", "1", "0.5")


class Writing:
    """What is written to, as far as columns ask."""

    def __init__(self) -> None:
        self.width = 80
        self.is_terminal = True


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Writing:
    """Write to a terminal of eighty columns, unless the test says otherwise."""
    one = Writing()
    monkeypatch.setattr(_columns, "console", lambda: one)
    return one


@pytest.mark.parametrize(("width", "is_terminal"), [(80, True), (20, False)])
def test_a_row_that_fits_or_is_piped_is_a_line(
    width: int, is_terminal: bool, writing: Writing
) -> None:
    """Numbers stand to the right, below their heads."""
    writing.width, writing.is_terminal = width, is_terminal
    assert folded([HEAD, ROW], indent=2, right={1, 2}) == [
        ["  event                        reachability  flow"],
        ["  decide of newsroom at 0.2 s             1   0.5"],
    ]


def test_a_row_that_does_not_fit_goes_on_further_in(writing: Writing) -> None:
    """A long name has a line of its own, and its numbers stand together below it."""
    writing.width = 40
    assert folded([HEAD, ROW], indent=2, right={1, 2}) == [
        ["  event", "    reachability  flow"],
        ["  decide of newsroom at 0.2 s", "               1   0.5"],
    ]


def test_a_line_on_which_nothing_stands_is_left_out(writing: Writing) -> None:
    """Such as a remark that most rows have none of."""
    writing.width = 20
    rows = [("policy", "worth", ""), ("fitted", "0.5", "the best of all here")]
    assert folded(rows, indent=0) == [
        ["policy  worth"],
        ["fitted  0.5", "  the best of all here"],
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_nothing_is_lost_and_no_line_is_wider_than_it_must(
    writing: Writing, data: st.DataObject
) -> None:
    """Each cell is there once, in order; only a cell that is wider by itself goes beyond."""
    writing.width = data.draw(st.integers(10, 60))
    indent = data.draw(st.sampled_from([0, 2, 4]))
    columns = data.draw(st.integers(1, 8))
    cell = st.text("ab\u6f22", min_size=1, max_size=25)
    row = st.lists(cell, min_size=columns, max_size=columns)
    rows = data.draw(st.lists(row, min_size=1, max_size=4))
    right = data.draw(st.sets(st.integers(0, columns - 1)))
    for cells, lines in zip(rows, folded(rows, indent=indent, right=right), strict=True):
        assert [part for line in lines for part in line.split()] == cells
        for line in lines:
            assert cell_len(line) <= writing.width or len(line.split()) == 1
