"""A data set made in a test, read back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchtrace_otel.datasets import Job, Report, export
from orchtrace_otel.model import Trace
from tests.recorded import write

Json = dict[str, Any]


def exported(
    folder: Path, store: object, traces: Sequence[Trace], **choices: Any
) -> tuple[Report, list[Json]]:
    """Export everything into one split; return the report and the rows."""
    job = Job(**{"content": str(store), "validation": 0.0, **choices})
    number = len(list(folder.iterdir()))
    source = write(folder / f"in-{number}", traces)
    report = export(job, [str(source)], folder / f"out-{number}")
    file = folder / f"out-{number}" / "train.jsonl"
    return report, rows(file) if file.exists() else []


def rows(file: Path) -> list[Json]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def lineage(folder: Path) -> list[Json]:
    """Read the lineage of the last data set of a folder."""
    latest = max(folder.glob("out-*"), key=lambda path: int(path.name.removeprefix("out-")))
    return rows(latest / "lineage.jsonl")
