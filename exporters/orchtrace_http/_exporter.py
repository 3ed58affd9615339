"""The exporter: traces and late rewards as lines, lines into the outbox, the sender behind it."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final

import orjson

from orchtrace_http._outbox import Outbox
from orchtrace_http._pace import Pace
from orchtrace_http._post import Post, httpx
from orchtrace_http._sender import Sender
from orchtrace_http._target import Target, read_target
from orchtrace_otel._guard import warn_once
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.schema import dump
from orchtrace_otel.tables.spool import revision_of

if TYPE_CHECKING:
    from orchtrace_otel.model import Reward, Trace

_TO_SAY_S: Final = 1.0
"""What is left of a flush to say what waits, and to end the thread: whoever waits for both may
end the process, and takes for lost what is safe in the spool where they are not done in time."""
_LAST_FLUSH_S: Final = 5.0


class HttpExporter:
    """Pushes finished traces and late rewards to a URL.

    What was exported is in the spool when `export` returns, and stays there until the URL
    acknowledged it: a killed process loses nothing of it, and the next one that has the
    same URL and spool sends it. A record may arrive twice, under the same key.

    Args:
        target: Where to, and within which bounds.
        pace: When to try again.

    Attributes:
        dropped: What was lost after `export` had returned, by kind; `losses()` adds it up.
    """

    def __init__(self, target: Target, pace: Pace | None = None) -> None:
        self.target = target
        self.dropped: Counter[str] = Counter()
        self._outbox = Outbox(target, self._lose, self._note)
        self._sender = Sender(self._outbox, Post(target), pace or Pace(), self._lose, self._note)
        self._begin()
        afresh_in_children(self)

    def _begin(self) -> None:
        self._is_flushed = True
        self._is_shut = False
        self._told = 0

    def start_afresh(self) -> None:
        """Leave to the parent of a fork what it had taken, and its connection."""
        self._outbox.start_afresh()
        self._sender.start_afresh()
        self.dropped.clear()
        self._begin()

    def check(self) -> None:
        """Open the spool.

        Raises:
            OSError: If it cannot be written.
        """
        self._outbox.spool.check()

    def export(self, trace: Trace) -> None:
        """Take a trace; it is sent within the time that a batch takes."""
        key = orjson.dumps(f"{trace.trace_id}:{revision_of(trace)}")
        self._put(b'{"type":"trace","key":%s,"trace":%s}\n' % (key, dump(trace)))

    def amend(self, run_id: str, reward: Reward) -> None:
        """Take a reward that came after its run was exported."""
        record = {
            "type": "reward",
            "key": f"{run_id}:{reward.id}",
            "run_id": run_id,
            "reward": reward.to_dict(),
        }
        self._put(orjson.dumps(record) + b"\n")

    def flush(self, timeout_s: float = 30.0) -> None:
        """Send what waits, and what dead processes left, within `timeout_s` seconds.

        It ends early after three tries that failed, or where the URL asks for a longer
        pause: what is in the spool is safe there.

        Raises:
            OSError: If something was lost since the last flush.
        """
        self._is_flushed = True
        is_sent = self._sender.flush(max(timeout_s - _TO_SAY_S, timeout_s / 2))
        if not is_sent and not self._sender.failures:  # of which each was told
            self._note("waits", f"it does not answer; what is sent waits in {self.target.folder}")
        lost, self._told = self.dropped.total() - self._told, self.dropped.total()
        if lost:
            kinds = ", ".join(f"{kind}: {count}" for kind, count in self.dropped.items())
            msg = f"{lost} records on their way to {self.target.shown} were lost ({kinds})"
            raise OSError(msg)

    def shutdown(self) -> None:
        """Send what waits, for five seconds at most, and leave the rest in the spool.

        Raises:
            OSError: If something was lost since the last flush.
        """
        if self._is_shut:
            return
        self._is_shut = True
        try:
            if not self._is_flushed:
                self.flush(_LAST_FLUSH_S)
        finally:
            self._sender.stop()
            self._outbox.close()

    def complaints(self) -> list[str]:
        """Say what was lost here and what waits in the spool, for `orchtrace doctor`."""
        told = [f"{count} records were lost ({kind})" for kind, count in self.dropped.items()]
        waiting = self._outbox.spool.bytes()
        if waiting:
            told.append(
                f"{waiting:,} bytes wait in {self.target.folder} for {self.target.shown}; "
                "the next process that exports there sends them"
            )
        return told

    def _put(self, line: bytes) -> None:
        if self._is_shut:
            msg = f"the exporter to {self.target.shown} was shut down; open another one"
            raise OSError(msg)
        self._is_flushed = False
        self._sender.has_thread()
        self._outbox.put(line, self._sender.is_working)

    def _lose(self, kind: str, count: int, why: str) -> None:
        self.dropped[kind] += count
        warn_once(
            f"{kind}:{self.target.shown}",
            "orchtrace lost data on its way to %s (%s, %s); further losses are counted",
            self.target.shown,
            kind,
            why,
        )

    def _note(self, kind: str, what: str) -> None:
        warn_once(
            f"http:{kind}:{self.target.shown}",
            "orchtrace cannot deliver finished runs to %s now: %s",
            self.target.shown,
            what,
        )


def open_http(target: str) -> HttpExporter:
    """Open what stands behind `http:` in a list of exporters.

    Args:
        target: An http:// or https:// URL, so that a list says `http:https://host/path`. Its
            query is the server's; behind `#` stand options of ours: `spool=FOLDER`,
            `spool_mib`, `batch_kib`, `every` and `timeout` (seconds). Headers come from
            `ORCHTRACE_HTTP_HEADERS`, a bearer's token from `ORCHTRACE_HTTP_TOKEN`.

    Raises:
        ConfigError: If the target or a variable says something else, or the spool cannot
            be written.
        MissingDependencyError: If httpx is not installed.
    """
    found = read_target(target)
    httpx()
    exporter = HttpExporter(found)
    try:
        exporter.check()
    except OSError as error:
        why = error.strerror or os.strerror(error.errno or 0)
        msg = (
            f"http: must be able to write its spool {str(found.folder)!r}, got {why!r}; "
            "name another folder with #spool= or ORCHTRACE_HTTP_SPOOL"
        )
        raise ConfigError(msg) from error
    return exporter
