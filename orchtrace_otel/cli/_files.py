"""Which files a verb's arguments mean."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

STDIN: Final = Path("/dev/stdin")


# click's parameter types are generic for type checkers only, until its newest releases.
if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType


class Traces(_ParamType):
    """A file of traces, `-` for standard input, or a folder as `jsonl:` writes it."""

    name = "file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Path, ...]:
        """Return the files, oldest first, or fail as a wrong usage."""
        if value == "-":
            return (STDIN,)
        path = Path(str(value))
        if not path.exists():
            self.fail(f"there is no {str(path)!r}; `orchtrace demo` makes a first file", param, ctx)
        if not path.is_dir():
            return (path,)
        found = sorted(path.glob("*.jsonl"), key=_by_age)
        files = tuple(file for file in found if not file.stem.endswith(("rewards", "losses")))
        if not files:
            self.fail(f"no *.jsonl in the folder {str(path)!r}", param, ctx)
        return files


def _by_age(file: Path) -> tuple[str, bool, str]:
    """Sort `traces.000001.jsonl` before `traces.jsonl`, which is the one in use."""
    stem, _, number = file.stem.partition(".")
    return stem, not number, number


def shown(path: Path) -> str:
    """Return the name of a file as people read it."""
    return "<stdin>" if path == STDIN else str(path)
