"""Runs pushed to a server, and what is left of them on disk."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from orchtrace_http import HttpExporter
from orchtrace_http._pace import Pace
from orchtrace_http._target import read_target
from orchtrace_otel.model import Trace
from orchtrace_otel.schema import dump


def unused_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Quick(Pace):
    """Tries again at once, and remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float | None] = []

    def failed(self, asked_s: float | None = None) -> float:
        self.asked.append(asked_s)
        return 0.001


def exporter_to(
    url: str, folder: Path, options: str = "", pace: Pace | None = None
) -> HttpExporter:
    """An exporter with its spool in a folder."""
    exporter = HttpExporter(
        read_target(f"{url}#spool={folder}&every=0.01{options}"), pace or Quick()
    )
    exporter.check()
    return exporter


def push(exporter: HttpExporter, *traces: Trace) -> None:
    """Export some runs, send them, and end."""
    for trace in traces:
        exporter.export(trace)
    exporter.flush(10)
    exporter.shutdown()


def documents(traces: list[Trace]) -> list[Any]:
    """Traces as they arrive."""
    return [json.loads(dump(trace)) for trace in traces]


def by_id(found: list[Any]) -> list[Any]:
    """Documents in one order."""
    return sorted(found, key=lambda one: str(one["trace_id"]))


def files(folder: Path) -> list[Path]:
    """What lies in a spool, locks aside."""
    return sorted(path for path in folder.rglob("*.jsonl"))
