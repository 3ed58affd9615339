"""What it costs to hand a finished trace to a file, and to the spool of a URL.

CPU time of the calling thread, beside making the JSON alone; what the exporter's own thread
spends on packing and sending is the rest of the process, with the receiving server in it.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.measure import alternate, ratio, report
from orchtrace_otel import schema
from orchtrace_otel.exporter import open_exporter
from orchtrace_otel.testing import capture
from tests.collecting import research

TRACES = 300
ROUNDS = 9


class Taking(BaseHTTPRequestHandler):
    """Takes what is posted, and says that it did."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def thread_cpu(call: Callable[[Any], object], trace: Any) -> float:
    """Return the CPU seconds a trace that the calling thread spends."""
    before = time.thread_time()
    for _ in range(TRACES):
        call(trace)
    return (time.thread_time() - before) / TRACES


def main() -> None:
    with capture(deterministic=False) as captured:
        research(2)
    trace = captured.trace
    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sending: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{server.server_address[1]}/runs#spool={folder}/spool"
        pushed = open_exporter(f"http:{url}")
        lines = open_exporter(f"jsonl:{Path(folder) / 'traces'}/")

        def push() -> float:
            whole, here = time.process_time(), time.thread_time()
            spent = thread_cpu(pushed.export, trace)
            pushed.flush(60)
            own = time.thread_time() - here
            sending.append((time.process_time() - whole - own) / TRACES)
            return spent

        samples = alternate(
            {
                "json": lambda: thread_cpu(schema.dump, trace),
                "jsonl": lambda: thread_cpu(lines.export, trace),
                "http": push,
            },
            ROUNDS,
        )
        pushed.shutdown()
        lines.shutdown()
    server.shutdown()
    rows = [
        (f"{name}, us a trace on this machine", statistics.median(samples[name]) * 1e6, "")
        for name in samples
    ]
    rows += [
        ("jsonl, ratio to making the JSON", ratio(samples, "jsonl", "json"), ""),
        ("http, ratio to making the JSON", ratio(samples, "http", "json"), ""),
        ("packing and sending, us a trace", statistics.median(sending) * 1e6, ""),
    ]
    size = len(schema.dump(trace))
    report(f"Handing over a trace of {len(trace.events)} events and {size:,} bytes", rows)


if __name__ == "__main__":
    main()
