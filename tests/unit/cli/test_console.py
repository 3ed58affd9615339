"""Text of strangers is shown as text, and nothing in it steers a terminal."""

from __future__ import annotations

import pytest

from orchtrace_otel.cli._console import clean, console


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢字", "plain ü 漢字"),
        ("[red]alarm[/red]", "[red]alarm[/red]"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("a\nb\tc\rd", "a b c d"),
        ("\x9b2J\x07bell\x00", "2Jbell"),
        ("abc\u202edcba\u2066", "abcdcba"),
        ("half \ud800 pair", "half  pair"),
        (12, "12"),
    ],
)
def test_what_steers_a_terminal_is_taken_out(text: object, shown: str) -> None:
    """Escape sequences, line feeds and marks that reorder text do not come through."""
    assert clean(text) == shown


def test_a_long_text_is_cut() -> None:
    """One name cannot fill the screen, unless the whole is asked for."""
    assert clean("x" * 300) == "x" * 200 + "..."
    assert clean("x" * 300, longest=None) == "x" * 300


@pytest.mark.parametrize(("columns", "width"), [("5", 40), ("39", 40), ("40", 40), ("133", 133)])
def test_nothing_is_drawn_too_narrow_to_be_read(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal of a few columns wraps what is drawn for forty."""
    monkeypatch.setenv("COLUMNS", columns)
    console.cache_clear()
    assert console().width == width
    console.cache_clear()
