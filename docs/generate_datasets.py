# ruff: noqa: INP001 - a script beside the page that it writes
"""Write the generated end of docs/datasets.md: `python docs/generate_datasets.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchtrace_otel.datasets import known_writers, open_writer
from orchtrace_otel.datasets.reasons import REASONS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).with_name("datasets.md")
START = "<!-- From here on made by docs/generate_datasets.py; edit nothing below. -->"


def lines() -> Iterator[str]:
    """The generated part, line by line."""
    yield from (START, "", "## Formats", "", "| format | for | needs |", "|---|---|---|")
    known = known_writers().items()
    ours = sorted(name for name, entry in known if entry.dist.name == "orchtrace-otel")
    writers = [open_writer(name) for name in ours]
    for writer in writers:
        needs = ", ".join(sorted(writer.needs)) or "nothing"
        yield f"| `{writer.name}` | {writer.about} | {needs} |"
    yield from ("", "What they have no place for, and their settings (`-s NAME=VALUE`):", "")
    for writer in writers:
        loses = "; ".join(writer.loses) or "nothing"
        settings = "".join(f" `{name}`: {what}." for name, what in writer.settings.items())
        yield f"- `{writer.name}` loses {loses}.{settings}"
    yield from ("", "## Why something is left out", "", "| reason | it is, and what to do |")
    yield "|---|---|"
    yield from (f"| `{name}` | {meaning} |" for name, meaning in REASONS.items())


def render(page: str) -> str:
    """The page with its generated end made anew."""
    head = page.partition(START)[0].rstrip("\n")
    return head + "\n\n" + "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
