"""Senders that do not send: the room that they hold is given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from orchtrace_otel.collect import http
from orchtrace_otel.collect.admission import Bounds, InFlight
from orchtrace_otel.collect.metrics import Metrics


class Room:
    """What a body is read into, of an intake that is never asked."""

    bounds = Bounds(body_s=0.05)
    in_flight = InFlight(1, bounds.request_bytes)


@pytest.mark.parametrize("length", [b"100", b""])
def test_a_sender_that_stops_in_the_middle_holds_no_room_for_ever(
    length: bytes,
) -> None:
    """It is told to come back; until then others are told that there is no room."""
    room: Any = Room()
    held: list[int] = []
    told: list[Any] = []

    async def receive() -> Any:
        if held:
            await asyncio.Event().wait()
        held.append(room.in_flight.held)
        return {"type": "http.request", "body": b"half", "more_body": True}

    async def send(message: Any) -> None:
        told.append(message)

    headers = [(b"content-type", b"application/x-protobuf"), (b"content-length", length)]
    scope = {"type": "http", "method": "POST", "path": "/v1/traces", "headers": headers}
    application: Any = http.application(room, Metrics(), None)
    asyncio.run(application({**scope, "query_string": b""}, receive, send))
    assert held == [int(length) if length else Room.bounds.request_bytes]
    assert (room.in_flight.count, room.in_flight.held) == (0, 0)
    assert told[0]["status"] == 503
    assert (b"retry-after", b"5") in told[0]["headers"]
    assert b"came 4 bytes of it" in told[1]["body"]
