"""Finished spans to a Trace, the same bit for bit in any order of arrival.

Spans are taken as light records: integers and strings, nothing of the host's. When a
run closes they are put in canonical order (start, span id) and become events and
edges. The same function serves the process that made the spans and whoever received
them over OTLP.
"""

from __future__ import annotations

from orchtrace_otel.builder.building import build
from orchtrace_otel.builder.records import (
    Foreign,
    SpanRecord,
    distinct,
    foreign_attributes,
    is_ours,
)
from orchtrace_otel.builder.tree import above

__all__ = ["Foreign", "SpanRecord", "above", "build", "distinct", "foreign_attributes", "is_ours"]
