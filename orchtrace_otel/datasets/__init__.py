"""Data sets from finished runs: the contract of a format, and all that formats share.

A format is a `Writer`, found by its entry point in the group `orchtrace.dataset`. The
rest is here once: reading and grouping runs, filters, splits without leakage, lineage,
checks, files, the data card. `engine.records` is the seam for engines of other machines.
docs/add-a-dataset.md shows a writer, docs/datasets.md what users get.
"""

from __future__ import annotations

from orchtrace_otel.datasets.check import Check
from orchtrace_otel.datasets.exporting import Report, export
from orchtrace_otel.datasets.job import Job
from orchtrace_otel.datasets.labels import Label
from orchtrace_otel.datasets.runs import Call, Dropped, Group, Record, Run, of_call
from orchtrace_otel.datasets.writer import Need, Outcome, Writer, known_writers, open_writer

__all__ = [
    "Call",
    "Check",
    "Dropped",
    "Group",
    "Job",
    "Label",
    "Need",
    "Outcome",
    "Record",
    "Report",
    "Run",
    "Writer",
    "export",
    "known_writers",
    "of_call",
    "open_writer",
]
