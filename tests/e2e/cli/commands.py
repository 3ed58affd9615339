"""Commands as processes of their own, and small files that they are given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from orchtrace_otel import schema

ROOT = Path(__file__).resolve().parents[3]

BARE = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("OTEL_", "ORCHTRACE_", "COLUMNS", "NO_COLOR", "FORCE_COLOR"))
}


def run(
    *arguments: object,
    stdin: str | bytes | None = None,
    cwd: Path | None = None,
    prefix: tuple[str, ...] = ("-m", "orchtrace_otel.cli"),
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command with nothing of this process's settings; no traceback may ever show."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        [sys.executable, *prefix, *map(str, arguments)],
        input=given,
        capture_output=True,
        cwd=cwd,
        env={**BARE, "PYTHONUTF8": "1", **environ},
        timeout=60,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in out + err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def document(**keys: Any) -> dict[str, Any]:
    """Return a trace of one event."""
    return {
        "trace_id": "r-1",
        "task_id": "q",
        "events": [{"id": "e1", "t": 0, "type": "spawn", "agent": "lead", "to": "scout"}],
        "edges": [],
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 1},
        **keys,
    }


def read(file: Path) -> list[schema.Line]:
    """Read a file of traces."""
    return list(schema.read_lines(file))
