"""What both ways in share: a body is checked, spooled, and only then acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

from orchtrace_otel._guard import warn_once
from orchtrace_otel.collect import parts, spool, verdicts
from orchtrace_otel.collect.admission import Bounds, InFlight, RefusedError
from orchtrace_otel.collect.inflating import Encoding, inflate
from orchtrace_otel.collect.metrics import Metrics
from orchtrace_otel.collect.parts import Part, Rejected
from orchtrace_otel.collect.writing import Writer

Signal: TypeAlias = Literal["traces", "logs"]
Refuse: TypeAlias = Callable[[Part], str | None]
"""Says why the spans of an OTel trace can no longer be taken; None where they can."""


class Answer(NamedTuple):
    """What was taken of a request, and what was not.

    Attributes:
        rejected: How many spans or log records were not.
        message: Why; empty where all were taken.
    """

    rejected: int
    message: str


class Intake:
    """Takes requests.

    Args:
        bounds: What is taken at most.
        writer: What makes them durable.
        refuse: Which OTel traces take no more spans.
        metrics: Where to count.
        faults: What keeps the collector from taking anything, in words; empty where nothing.
    """

    def __init__(
        self,
        bounds: Bounds,
        writer: Writer,
        refuse: Refuse,
        metrics: Metrics,
        faults: Callable[[], list[str]],
    ) -> None:
        self.bounds = bounds
        self.in_flight = InFlight(bounds.in_flight, bounds.in_flight_bytes)
        self.is_ending = False
        self._reading = asyncio.Lock()
        self._asked = time.monotonic()
        self._writer = writer
        self._refuse = refuse
        self._metrics = metrics
        self._faults = faults

    def faults(self) -> list[str]:
        """Say why nothing is taken; empty where requests are."""
        return ["this collector is about to end"] if self.is_ending else self._faults()

    async def drain(self, quiet_s: float, most_s: float) -> None:
        """Finish what is under way, and tell whoever comes to come back, until nobody does.

        Args:
            quiet_s: Seconds without a request after which nobody is expected.
            most_s: Seconds that it may take, where they do come.
        """
        self.is_ending = True
        self._asked = began = time.monotonic()
        while (now := time.monotonic()) < began + most_s:
            if now >= self._asked + quiet_s and not self.in_flight.count:
                return
            await asyncio.sleep(quiet_s / 5)

    async def take(
        self, signal: Signal, body: bytes, *, encoding: Encoding = "identity", is_json: bool = False
    ) -> Answer:
        """Check a body, and return once what it holds is in the spool.

        Raises:
            RefusedError: If nothing of it was taken.
        """
        self._asked = time.monotonic()
        try:
            answer = await self._take(signal, body, encoding=encoding, is_json=is_json)
        except RefusedError as refusal:
            self._metrics.count("requests", f"{signal}:{refusal.why}")
            raise
        except Exception as error:
            self._metrics.count("requests", f"{signal}:failed")
            warn_once(
                f"collect:{type(error).__name__}",
                "orchtrace collect failed to take a request with %s; further ones are counted",
                type(error).__name__,
            )
            msg = f"this collector failed to take the request ({type(error).__name__})"
            raise RefusedError(msg, "unavailable", 5) from error
        self._metrics.count("requests", f"{signal}:accepted")
        return answer

    async def _take(
        self, signal: Signal, body: bytes, *, encoding: Encoding, is_json: bool
    ) -> Answer:
        for fault in self.faults():
            # The spool's own fault is found out by trying.
            if fault != self._writer.fault:
                raise RefusedError(fault, "unavailable", 2)
        sent = len(body)
        if encoding != "identity":
            body = inflate(body, encoding, self.bounds.request_bytes)
        rejected = Rejected()
        # Those in JSON wait for one another, whole.
        with self.in_flight.of(max(len(body) - sent, 0)):
            if is_json:
                body = await self._from_json(signal, body, rejected)
        take = self._traces if signal == "traces" else self._logs
        kind, payload, content = take(body, rejected)
        if content:
            await self._write(kind, payload, content)
        return Answer(rejected.count, rejected.message)

    def _traces(self, body: bytes, rejected: Rejected) -> tuple[int, bytes, list[Any]]:
        taken: list[Part] = []
        for part in parts.cut(body, self.bounds, rejected):
            why = self._refuse(part)
            if why is None:
                taken.append(part)
            else:
                rejected.add(why, len(part.marks))
        self._metrics.count("spans", "accepted", parts.span_count(taken))
        self._metrics.count("spans", "rejected", rejected.count)
        if rejected.count:
            body = b"".join(part.data for part in taken)
        self._metrics.count("bytes", by=len(body))
        return spool.SPANS, body, taken

    def _logs(self, body: bytes, rejected: Rejected) -> tuple[int, bytes, list[Any]]:
        found, body = verdicts.read(body, self.bounds, rejected)
        self._metrics.count("log_records", "accepted", len(found))
        self._metrics.count("log_records", "rejected", rejected.count)
        return spool.LOGS, body, found

    async def _from_json(self, signal: Signal, body: bytes, rejected: Rejected) -> bytes:
        """Read a body in JSON on another thread, for it takes long, and one at a time.

        It becomes ten times as large meanwhile, and several at once are read no faster.
        """
        from orchtrace_otel.collect import json_bodies  # noqa: PLC0415 - rarely sent

        read = json_bodies.read_traces if signal == "traces" else json_bodies.read_logs
        async with self._reading:
            return await asyncio.to_thread(
                lambda: read(body, rejected, self.bounds.request_items).SerializeToString()
            )

    async def _write(self, kind: int, payload: bytes, content: list[Any]) -> None:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()

        def settle(error: Exception | None) -> None:
            if written.cancelled():
                return
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

        def done(error: Exception | None) -> None:
            loop.call_soon_threadsafe(settle, error)

        self._writer.put(kind, payload, content, done)
        await written
