"""Open runs: the spans that came of each OTel trace, and when they are worth building.

An OTel trace holds one run mostly, several where the host opened a span around them. It
closes when every run seen in it has its root (or, where none says so, when a span without a
parent came) and a grace has passed; when nothing came for the idle time, or one of its runs
has its root for that long while others go on; or when a bound asks for room. Times are the
receiver's own monotonic clock: what senders say of time, such as a span from the future,
moves nothing. A trace that closed is open again when more of it comes, with all that came
before.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchtrace_otel.collect.parts import Part

Reason: TypeAlias = Literal["root", "idle", "bounds", "end"]


@dataclass(frozen=True, slots=True)
class Closing:
    """When OTel traces close, in seconds.

    Attributes:
        grace_s: After the roots of all of its runs; exporters of other processes send
            every few seconds.
        idle_s: After the last span, where a root is missing.
    """

    grace_s: float = 10.0
    idle_s: float = 600.0


class OpenTrace:
    """The spans of one OTel trace, encoded.

    Attributes:
        trace_id: 32 hexadecimal digits.
        parts: Encoded requests, each with spans of this trace alone.
        size: Bytes of these.
        marks: A number for each span, to know resends.
        kept: How many of the parts the archive has already.
        segments: Segments of the spool that hold some of it.
        is_news: Whether the store does not know all of it yet.
        deadline: When it is due.
    """

    __slots__ = (
        "_first_root_at",
        "_has_top",
        "_last",
        "_root_at",
        "_roots",
        "_runs",
        "deadline",
        "is_news",
        "kept",
        "marks",
        "parts",
        "segments",
        "size",
        "trace_id",
    )

    def __init__(self, trace_id: str, now: float) -> None:
        self.trace_id = trace_id
        self.parts: list[bytes] = []
        self.size = 0
        self.marks: set[int] = set()
        self.kept = 0
        self.segments: set[int] = set()
        self.is_news = False
        self.deadline = math.inf
        self._runs: set[str] = set()
        self._roots: set[str] = set()
        self._has_top = False
        self._last = now
        self._root_at: float | None = None
        self._first_root_at: float | None = None

    def take(self, part: Part, now: float) -> int:
        """Take a part; return how many of its spans are new.

        A part of which some spans are known is taken whole: the builder takes each once.
        """
        before = len(self.marks)
        self.marks.update(part.marks)
        new = len(self.marks) - before
        if new:
            self.parts.append(part.data)
            self.size += len(part.data)
            self._last = now
            self._runs |= part.runs
            if not part.roots <= self._roots or (part.has_top and not self._has_top):
                self._roots |= part.roots
                self._has_top = self._has_top or part.has_top
                self._root_at = now
                if self._first_root_at is None:
                    self._first_root_at = now
        return new

    @property
    def is_whole(self) -> bool:
        """Whether the roots of all runs that are known of are here."""
        return self._runs <= self._roots and (bool(self._roots) or self._has_top)

    def due(self, closing: Closing) -> float:
        """Say when it closes if nothing more comes."""
        # A host whose one span is around ever more runs does not keep the first ones for ever.
        since = self._last if self._first_root_at is None else self._first_root_at
        latest = min(self._last, since) + closing.idle_s
        if self.is_whole and self._root_at is not None:
            return min(self._root_at + closing.grace_s, latest)
        return latest


class OpenRuns:
    """All OTel traces that are open.

    Args:
        closing: When they close.
        most: How many may be open.
        most_bytes: Bytes of encoded spans that they may hold together.
    """

    def __init__(self, closing: Closing, most: int, most_bytes: int) -> None:
        self.size = 0
        self._closing = closing
        self._most = most
        self._most_bytes = most_bytes
        self._open: OrderedDict[str, OpenTrace] = OrderedDict()
        self._leaving: dict[str, OpenTrace] = {}
        self._deadlines: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenTrace]:
        return iter(list(self._open.values()))

    def get(self, trace_id: str) -> OpenTrace | None:
        """Return an OTel trace that is open."""
        return self._open.get(trace_id)

    def held(self, trace_id: str) -> OpenTrace | None:
        """Return an OTel trace that is open, or closed and not committed; on any thread."""
        # It may go from one to the other and back meanwhile.
        for place in (self._open, self._leaving, self._open):
            found = place.get(trace_id)
            if found is not None:
                return found
        return None

    def committed(self) -> None:
        """Say that what was taken out is in the store."""
        self._leaving.clear()

    def open(self, trace_id: str, now: float) -> OpenTrace:
        """Open an OTel trace that is not."""
        opened = self._open[trace_id] = OpenTrace(trace_id, now)
        return opened

    def take(self, opened: OpenTrace, part: Part, now: float) -> int:
        """Take a part into an open trace; return how many of its spans are new."""
        size = opened.size
        new = opened.take(part, now)
        self.size += opened.size - size
        if new:
            self._open.move_to_end(opened.trace_id)
        self.wait_for(opened, opened.due(self._closing))
        return new

    def wait_for(self, opened: OpenTrace, deadline: float) -> None:
        """Have a trace close at `deadline`, unless something comes."""
        # A deadline that moved back is found out when the earlier one has come.
        if deadline < opened.deadline:
            heapq.heappush(self._deadlines, (deadline, opened.trace_id))
        opened.deadline = deadline

    def due(self, now: float) -> Iterator[tuple[OpenTrace, Reason]]:
        """Take out what is to be closed: what is due, and what is too much."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, trace_id = heapq.heappop(self._deadlines)
            opened = self._open.get(trace_id)
            if opened is None:
                continue
            if opened.deadline > now:
                heapq.heappush(self._deadlines, (opened.deadline, trace_id))
                continue
            self._take_out(opened)
            yield opened, "root" if opened.is_whole else "idle"
        while len(self._open) > self._most or self.size > self._most_bytes:
            opened = next(iter(self._open.values()))
            self._take_out(opened)
            yield opened, "bounds"

    def rest(self) -> Iterator[OpenTrace]:
        """Take out what has its roots, at the end of the process; the spool keeps the others."""
        for opened in self:
            if opened.is_whole:
                self._take_out(opened)
                yield opened

    def put_back(self, opened: OpenTrace, deadline: float) -> None:
        """Take in again what could not be closed, to be tried again at `deadline`."""
        self._open[opened.trace_id] = opened
        self._open.move_to_end(opened.trace_id, last=False)
        self._leaving.pop(opened.trace_id, None)
        self.size += opened.size
        opened.deadline = math.inf
        self.wait_for(opened, deadline)

    def next_deadline(self) -> float | None:
        """Say when to look again; None where nothing is open."""
        return self._deadlines[0][0] if self._deadlines else None

    def _take_out(self, opened: OpenTrace) -> None:
        self._leaving[opened.trace_id] = opened
        del self._open[opened.trace_id]
        self.size -= opened.size
