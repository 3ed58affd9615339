"""Finished traces as JSON lines in a file or a folder.

`jsonl:traces/` writes `traces/traces.jsonl`, `jsonl:runs.jsonl` writes that file.
Any number of processes may write the same place.
"""

from orchtrace_files._exporter import JsonlExporter, open_jsonl
from orchtrace_files._lines import LineFile

__all__ = ["JsonlExporter", "LineFile", "open_jsonl"]
