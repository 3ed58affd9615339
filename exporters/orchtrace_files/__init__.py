"""Finished traces in files: JSON lines, or Parquet.

`jsonl:traces/` writes `traces/traces.jsonl`, `jsonl:runs.jsonl` writes that file.
`parquet:runs/` writes the six tables of docs/tables.md, to a folder or any URL that fsspec
knows. Any number of processes may write the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchtrace_files._exporter import JsonlExporter, open_jsonl
from orchtrace_otel.lines import LineFile

if TYPE_CHECKING:
    from orchtrace_files._compaction import Compacted, compact
    from orchtrace_files._parquet import ParquetExporter, open_parquet

__all__ = [
    "Compacted",
    "JsonlExporter",
    "LineFile",
    "ParquetExporter",
    "compact",
    "open_jsonl",
    "open_parquet",
]

# Who writes JSON lines need not wait for the tables to be loaded.
_LATER = {
    "Compacted": "_compaction",
    "ParquetExporter": "_parquet",
    "compact": "_compaction",
    "open_parquet": "_parquet",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module  # noqa: PLC0415 - only for what comes later

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
