"""Many calls at once over gRPC: few are read, the others wait or come back, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from orchtrace_otel.collect import grpc as over_grpc
from orchtrace_otel.collect.admission import Bounds, InFlight
from orchtrace_otel.collect.intake import Answer
from tests.collecting import GRPC_TRACES


class Held:
    """An intake that takes what it is given once it may."""

    def __init__(self, **bounds: Any) -> None:
        self.bounds = Bounds(**bounds)
        self.in_flight = InFlight(self.bounds.in_flight, self.bounds.in_flight_bytes)
        self.may = asyncio.Event()
        self.taken: list[bytes] = []
        self.most = 0

    async def take(self, _: str, data: bytes, **__: Any) -> Answer:
        """Wait, and keep what was sent."""
        self.most = max(self.most, self.in_flight.held)
        await self.may.wait()
        self.taken.append(data)
        return Answer(0, "")


def calling(intake: Held, calls: Callable[[Any], Awaitable[None]]) -> None:
    """Have `calls` call a server in front of an intake."""

    async def call() -> None:
        untyped: Any = intake
        server = over_grpc.server(untyped, None)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await calls(channel)
        finally:
            await server.stop(None)

    asyncio.run(asyncio.wait_for(call(), 30))


async def code(call: Any) -> Any:
    """Return the status of a call; senders must be told when to come back, or not to."""
    found = await call.code()
    pairs: Any = await call.trailing_metadata()
    metadata = dict(list(pairs))
    if found is not grpc.StatusCode.OK:
        status = Status.FromString(metadata["grpc-status-details-bin"])
        may_retry = any(detail.Is(RetryInfo.DESCRIPTOR) for detail in status.details)
        assert may_retry == (found is grpc.StatusCode.UNAVAILABLE)
    return found


def test_calls_beyond_the_bound_come_back_and_none_is_lost() -> None:
    """UNAVAILABLE with RetryInfo before their messages are read; what was let in is taken."""
    intake = Held(in_flight=5)
    sent = [b"%d" % number for number in range(40)]

    async def calls(channel: Any) -> None:
        export = channel.unary_unary(GRPC_TRACES)
        waiting = {body: export(body) for body in sent}
        refused = asyncio.Event()

        def count(_: Any) -> None:
            if sum(call.done() for call in waiting.values()) == len(sent) - 5:
                refused.set()

        for call in waiting.values():
            call.add_done_callback(count)
        await refused.wait()
        assert intake.in_flight.count == 5
        intake.may.set()
        while waiting:
            codes = {body: await code(call) for body, call in waiting.items()}
            assert set(codes.values()) <= {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
            again = [body for body in codes if codes[body] is not grpc.StatusCode.OK]
            waiting = {body: export(body) for body in again}

    calling(intake, calls)
    assert sorted(intake.taken) == sorted(sent)
    assert (intake.in_flight.count, intake.in_flight.held) == (0, 0)


def test_what_is_read_at_once_is_within_the_bound() -> None:
    """Large messages wait for one another, whoever sends them, and all are taken."""
    intake = Held(request_bytes=2**20, in_flight_bytes=2**21)
    intake.may.set()

    async def calls(channel: Any) -> None:
        export = channel.unary_unary(GRPC_TRACES)
        made = [export(bytes(2**20)) for _ in range(60)]
        assert {await code(call) for call in made} == {grpc.StatusCode.OK}

    calling(intake, calls)
    assert len(intake.taken) == 60
    assert 0 < intake.most <= 2**21


@pytest.mark.parametrize(
    ("is_ended", "expected"),
    [(False, grpc.StatusCode.UNAVAILABLE), (True, grpc.StatusCode.INVALID_ARGUMENT)],
)
def test_a_call_without_a_message_holds_nothing(
    is_ended: bool,
    expected: grpc.StatusCode,
) -> None:
    """One that does not come is waited for no longer than a body over HTTP; none is no request."""
    intake = Held(body_s=0.05)

    async def calls(channel: Any) -> None:
        async def none() -> AsyncIterator[bytes]:
            if not is_ended:
                await asyncio.Event().wait()
            return
            yield b""

        call = channel.stream_unary(GRPC_TRACES)(none())
        assert await code(call) is expected

    calling(intake, calls)
    assert (intake.in_flight.count, intake.taken) == (0, [])
