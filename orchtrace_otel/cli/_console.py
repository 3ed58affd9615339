"""Where the command line writes: colour in a terminal, plain text anywhere else.

Names and details in traces come from strangers. They are shown as text, never as
markup, and without characters that steer a terminal.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rich.console import Console, RenderableType
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST: Final = 200
_NARROWEST: Final = 40


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """End quietly: whoever read our output, such as `head`, has left."""
        _leave()


@cache
def console(*, stderr: bool = False) -> Console:
    """Return the console of this process; its width is that of the terminal, or 80.

    Nothing is drawn narrower than `_NARROWEST`: a narrower terminal wraps it, where numbers
    without their names would help nobody.
    """
    made = _Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    made.width = max(made.width, _NARROWEST)
    return made


def out(*parts: RenderableType) -> None:
    """Write lines to standard output; none is ever wrapped."""
    try:
        for part in parts:
            if isinstance(part, Text):
                part.rstrip()
            console().print(part, no_wrap=True, overflow="ellipsis", crop=True)
    except BrokenPipeError:
        _leave()


def tell(text: str) -> None:
    """Write lines to standard output whole, however long they are."""
    for line in text.splitlines():
        tell_text(Text(clean(line, longest=None)))


def tell_text(line: Text) -> None:
    """Write a line to standard output whole, however long it is."""
    try:
        console().print(line, soft_wrap=True)
    except BrokenPipeError:
        _leave()


def out_json(document: Any) -> None:
    """Write a document for a program to read."""
    tell(json.dumps(document, ensure_ascii=True, indent=2))


def print_error(message: str) -> None:
    """Write what went wrong to standard error."""
    text = Text.assemble(("error: ", "bold red"), clean(message, longest=None))
    console(stderr=True).print(text, soft_wrap=True)


def print_note(message: str) -> None:
    """Write what is worth knowing to standard error."""
    console(stderr=True).print(Text(clean(message, longest=None)), soft_wrap=True)


def note_unknown(what: str, name: str, known: Iterable[str]) -> None:
    """Say so where no run has what was named, such as `a reward`; nothing where none has any."""
    names = sorted(known)
    if names and name not in names:
        print_note(f"no run has {what} {name!r}; there are: {', '.join(names)}")


def can_draw() -> bool:
    """Whether the output can show more than ASCII."""
    return console().encoding.lower().startswith("utf")


def clean(text: object, longest: int | None = _LONGEST) -> str:
    """Return `text` without characters that move a cursor, colour or reorder what follows.

    Example:
        >>> clean("scout" + chr(27) + "[31m" + chr(0x202E))
        'scout[31m'
    """
    whole = str(text)
    shown = whole if longest is None else whole[:longest]
    kept = (" " if char in "\t\n\r" else char for char in shown)
    safe = "".join(char for char in kept if unicodedata.category(char)[0] != "C")
    return safe if len(shown) == len(whole) else f"{safe}..."


def _leave() -> NoReturn:
    # Python would complain once more when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
