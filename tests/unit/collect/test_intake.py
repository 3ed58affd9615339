"""Many bodies at once: what they become is within the bounds, and none is lost without a word."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from orchtrace_otel.collect import json_bodies
from orchtrace_otel.collect.admission import Bounds, RefusedError
from orchtrace_otel.collect.intake import Intake
from orchtrace_otel.collect.metrics import Metrics

if TYPE_CHECKING:
    import pytest


def test_bodies_in_json_are_read_one_at_a_time_and_hold_room_for_what_they_become(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small ones that are large once decompressed would else hold any memory that there is."""
    body = b'{"resourceSpans": []}' + b" " * 100_000
    reading: list[int] = []
    seen: list[tuple[int, int]] = []
    read: Any = json_bodies.read_traces

    def slowly(*given: Any) -> Any:
        reading.append(threading.get_ident())
        time.sleep(0.01)  # so that a second one would come meanwhile
        seen.append((len(reading), intake.in_flight.held))
        found = read(*given)
        reading.pop()
        return found

    monkeypatch.setattr(json_bodies, "read_traces", slowly)
    writer: Any = SimpleNamespace(fault=None)
    unused: Any = None
    bounds = Bounds(in_flight_bytes=250_000)
    intake = Intake(bounds, writer, unused, Metrics(), list)

    async def all_at_once() -> list[Any]:
        packed = gzip.compress(body)
        calls = [intake.take("traces", packed, encoding="gzip", is_json=True) for _ in range(4)]
        return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(all_at_once())
    refused = [one.why for one in answers if isinstance(one, RefusedError)]
    assert (len(answers) - len(refused), refused) == (2, ["busy", "busy"])
    assert [count for count, _ in seen] == [1, 1]
    assert max(held for _, held in seen) <= bounds.in_flight_bytes
    assert intake.in_flight.held == 0
