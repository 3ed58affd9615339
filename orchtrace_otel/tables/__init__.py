"""Finished runs as six tables: runs, events, edges, turns, rewards, decisions.

`rows_of` puts a trace into rows and `trace_of` gives it back, equal; neither needs
anything but the standard library. `arrow.py` makes Arrow tables of rows, `reading.py`
goes through files of traces of any kind, and `spool.py` keeps what was read on disk,
of several revisions of a run the highest. docs/tables.md tells each column.
"""

from __future__ import annotations

from orchtrace_otel.tables.columns import TABLES, VERSION, Column
from orchtrace_otel.tables.restore import trace_of
from orchtrace_otel.tables.rows import Rows, rows_of

__all__ = ["TABLES", "VERSION", "Column", "Rows", "rows_of", "trace_of"]
