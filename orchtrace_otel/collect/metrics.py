"""The collector's own numbers, as Prometheus text at `/metrics`.

Text to be fetched, and not OTLP to be sent: it needs no second destination, no library and
no thread, works while everything else is down, and every Collector can scrape it
(`prometheus` receiver) where OTLP is wanted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

_PREFIX: Final = "orchtrace_collect_"

_COUNTERS: Final = {
    "requests": "Requests, by signal and how they were answered",
    "spans": "Spans, by what became of them",
    "rewards": "Late rewards, by what became of them",
    "log_records": "Log records, by what became of them",
    "runs": "Runs written to the store, by whether they were new or amended",
    "closed": "OTel traces closed, by why",
    "failures": "Failures, by what failed",
    "bytes": "Bytes of spans acknowledged",
    "moved": "Bytes of the spool written anew, of runs that are open for long",
}
_GAUGES: Final = {
    "open_traces": "OTel traces open",
    "open_bytes": "Bytes of encoded spans of open traces",
    "waiting_bytes": "Bytes acknowledged or about to be, and not taken up yet",
    "spool_bytes": "Bytes of the spool on disk",
    "ready": "Whether requests are taken",
}


class Metrics:
    """Counters by name and label, and gauges that are read when they are asked for.

    Example:
        >>> metrics = Metrics()
        >>> metrics.count("spans", "accepted", 3)
        >>> metrics.get("spans", "accepted")
        3
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._gauges: dict[str, Callable[[], float]] = {}
        self._lock = threading.Lock()

    def count(self, name: str, what: str = "", by: int = 1) -> None:
        """Add to a counter; `what` is the value of its label."""
        if by:
            with self._lock:
                self._counts[name, what] += by

    def get(self, name: str, what: str = "") -> int:
        """Return a counter."""
        return self._counts[name, what]

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Have a gauge read by `read`."""
        self._gauges[name] = read

    def text(self) -> str:
        """Return all of them in Prometheus' text format."""
        lines: list[str] = []
        with self._lock:
            counts = sorted(self._counts.items())
        for name, about in _COUNTERS.items():
            lines += [
                f"# HELP {_PREFIX}{name}_total {about}.",
                f"# TYPE {_PREFIX}{name}_total counter",
            ]
            for (of, what), number in counts:
                if of == name:
                    label = f'{{what="{what}"}}' if what else ""
                    lines.append(f"{_PREFIX}{name}_total{label} {number}")
        for name, about in _GAUGES.items():
            if name in self._gauges:
                lines += [f"# HELP {_PREFIX}{name} {about}.", f"# TYPE {_PREFIX}{name} gauge"]
                lines.append(f"{_PREFIX}{name} {self._gauges[name]():g}")
        return "\n".join(lines) + "\n"
