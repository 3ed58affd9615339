"""Processes that export runs and are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from typing import Any

_DYING = """
    import os, signal, sys
    from dataclasses import replace
    from orchtrace_otel.testing._samples import own_traces
    from orchtrace_http import open_http
    exporter = open_http({target!r})
    for trace in own_traces({count}):
        trace = replace(trace, trace_id=f"{{trace.trace_id}} of {{os.getpid()}}")
        exporter.export(trace)
        print(trace.to_json(), flush=True)
    {last}
    os.kill(os.getpid(), signal.SIGKILL)
"""


def dying(target: str, count: int, last: str) -> str:
    """Code that exports some runs, prints their documents, does a last thing and is killed."""
    return textwrap.dedent(_DYING).format(target=target, count=count, last=last)


def killed(target: str, count: int = 5, last: str = "pass") -> list[Any]:
    """Export some runs in a process that is killed thereafter; return their documents."""
    code = dying(target, count, last)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
