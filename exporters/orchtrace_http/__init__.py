"""Finished traces and late rewards, pushed to a URL in batches.

`http:https://host/path` posts JSON lines, packed with gzip, from a thread of its own. What
is taken lies in a spool on disk until the URL has acknowledged it, so that neither a URL
that is down nor a killed process costs data: the next process sends it. docs/http.md
has the format, the headers and what is lost when.
"""

from __future__ import annotations

from orchtrace_http._exporter import HttpExporter, open_http
from orchtrace_http._target import Target

__all__ = ["HttpExporter", "Target", "open_http"]
