"""`--engine ray`: the seam on Ray Data, on this machine or a cluster.

Ray is given tables of whole runs of whole tasks, a block each, and calls
`engine.records` on them with `map_batches`; nothing is shuffled. It joins the cluster
that `RAY_ADDRESS` names, or the one that the program joined, or else starts one here,
which ends with the export. Workers need this package, the content store, and nothing
else of ours.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.datasets import engine
from orchtrace_otel.datasets.writer import open_writer
from orchtrace_otel.errors import MissingDependencyError

if TYPE_CHECKING:
    from orchtrace_otel.datasets.job import Job

_WINDOW_BYTES: Final = 256 * 2**20
"""Bytes of tables that are with Ray at a time, so that this process's memory stays bounded."""


def ray() -> Any:
    """Return Ray.

    Raises:
        MissingDependencyError: If Ray Data is not installed.
    """
    try:
        import_module("ray.data")
        return import_module("ray")
    except ImportError as error:
        msg = "--engine ray needs Ray Data; run: pip install 'orchtrace-otel[ray]'"
        raise MissingDependencyError(msg) from error


def run(tables: Iterable[Any], job: Job) -> Iterator[Any]:
    """Make records of tables of whole groups, as `exporting.local` does, in the same order.

    Args:
        tables: Of `engine.input_schema`; all runs of each task that is in one.
        job: What is asked for.

    Returns:
        Tables of `engine.output_schema`.

    Raises:
        ConfigError: If there is no such format.
        MissingDependencyError: If Ray Data is not installed.
    """
    lib = ray()
    open_writer(job.format, job)
    given = {"job": from_anywhere(job), "export": uuid.uuid4().hex}
    with cluster(lib):
        for window in windows(tables, _WINDOW_BYTES):
            blocks = lib.data.from_arrow(window)
            # None: a batch is a block, and so a group is never parted.
            made = blocks.map_batches(
                records, fn_kwargs=given, batch_size=None, batch_format="pyarrow"
            )
            yield from made.iter_batches(batch_size=None, batch_format="pyarrow")


_now: str = ""


def records(table: Any, job: Job, export: str) -> Any:
    """Call the seam on a worker, which may have worked for another export before."""
    global _now  # noqa: PLW0603 - a worker has one export at a time
    if export != _now:
        engine.begin()
        _now = export
    return engine.records(table, job)


def from_anywhere(job: Job) -> Job:
    """Return a job whose content store is the same from a worker's folder."""
    return job if job.content is None else replace(job, content=absolute(job.content))


def absolute(place: str) -> str:
    """Return a folder by its whole path, a URL as it is.

    Example:
        >>> absolute("s3://bucket/runs")
        's3://bucket/runs'
    """
    return place if "://" in place else str(Path(place).expanduser().absolute())


def windows(tables: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Gather tables until they have `most` bytes."""
    held: list[Any] = []
    size = 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size >= most:
            yield held
            held, size = [], 0
    if held:
        yield held


@contextmanager
def cluster(lib: Any) -> Generator[None]:
    """Have Ray up, keep blocks in order, and hear warnings only; as it was afterwards."""
    is_ours = not lib.is_initialized()
    if is_ours:
        lib.init(log_to_driver=False, logging_level="warning")
    logger = logging.getLogger("ray.data")
    level = logger.level
    logger.setLevel(logging.WARNING)
    context = lib.data.DataContext.get_current()
    before = (context.execution_options.preserve_order, context.enable_progress_bars)
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False
    try:
        yield
    finally:
        context.execution_options.preserve_order, context.enable_progress_bars = before
        logger.setLevel(level)
        if is_ours:
            lib.shutdown()
