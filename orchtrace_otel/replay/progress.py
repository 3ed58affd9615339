"""Showing how far replays are: the caller's own function, or a bar."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from orchtrace_otel.errors import MissingDependencyError
from orchtrace_otel.replay.replays import Progress

Tell: TypeAlias = Callable[[Progress], None]


@contextmanager
def showing(progress: Tell | bool | None) -> Generator[Tell | None, None, None]:  # noqa: FBT001 - what users give
    """Give what is told of each replay: the caller's function, a bar for True, or None.

    Raises:
        MissingDependencyError: If a bar is asked for and rich is not installed.
    """
    if progress is not True:
        yield progress or None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - only who asks for a bar
        from rich.progress import Progress as Bar  # noqa: PLC0415 - as above
    except ImportError as error:
        msg = "progress=True needs rich; run: pip install 'orchtrace-otel[cli]'"
        raise MissingDependencyError(msg) from error
    columns = (
        TextColumn("replays"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[lost]} without a value"),
        TimeRemainingColumn(),
    )
    with Bar(*columns) as bar:
        task = bar.add_task("replays", total=None, lost=0)

        def tell(now: Progress) -> None:
            bar.update(task, completed=now.done, total=now.most, lost=now.without_value)

        yield tell
