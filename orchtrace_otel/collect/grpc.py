"""OTLP over gRPC: the trace and the logs service, on messages as they came.

Requests are taken undecoded: they go to the spool as they are, and gzip is undone by us,
within the bounds, which gRPC's own decompression knows nothing of. Metrics have no
service here, so gRPC itself answers UNIMPLEMENTED.

A call is counted before its message is read, which is why handlers are those of a stream of
one: gRPC reads the message of a plain call first, however many there are. Its own bound on
calls, `maximum_concurrent_rpcs`, refuses with RESOURCE_EXHAUSTED and no `RetryInfo`, after
which OTLP has senders give up what they sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from orchtrace_otel.collect import answers
from orchtrace_otel.collect.admission import RefusedError, check_token
from orchtrace_otel.collect.inflating import GZIP_MAGIC, Encoding
from orchtrace_otel.collect.intake import Intake, Signal

_SERVICES: Final[dict[Signal, str]] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
_CODES: Final[dict[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}
_FRAME: Final = 64 * 1024
"""Room for what gRPC puts around a message of the largest size."""

_STREAMS: Final = 100
"""Calls at once on a connection; senders keep further ones to themselves."""

_PENDING: Final = 20_000
"""Calls that gRPC may hold before we see them; it says CANCELLED to further ones."""


def server(intake: Intake, token: str | None) -> Any:
    """Make the server; ports are added and it is started by the caller.

    Args:
        intake: What takes requests.
        token: The bearer token that senders must have; None where everybody may send.
    """
    made = grpc.aio.server(
        options=[
            ("grpc.per_message_decompression", 0),
            ("grpc.max_receive_message_length", intake.bounds.request_bytes + _FRAME),
            ("grpc.so_reuseport", 0),
            # Off: it has gRPC take in megabytes of each message before it is asked for.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.max_concurrent_streams", _STREAMS),
            ("grpc.server.max_pending_requests", _PENDING),
            ("grpc.server.max_pending_requests_hard_limit", _PENDING),
        ]
    )
    as_handler: Any = grpc.stream_unary_rpc_method_handler
    # What a message says of its size is not told, so each may be of the largest.
    turns = asyncio.Semaphore(max(1, intake.bounds.in_flight_bytes // intake.bounds.request_bytes))
    for signal, service in _SERVICES.items():
        handler: Any = as_handler(_taking(signal, intake, token, turns))
        made.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {"Export": handler}),)
        )
    return made


def credentials(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """Read what the server proves itself with over TLS."""
    return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])


def _taking(
    signal: Signal, intake: Intake, token: str | None, turns: asyncio.Semaphore
) -> Callable[[Any, Any], Awaitable[bytes]]:
    async def taken(context: Any) -> bytes:
        check_token(_authorization(context), token)
        with intake.in_flight.request():
            data = await _message(context, turns, intake.bounds.body_s)
            with intake.in_flight.of(len(data)):
                encoding: Encoding = "gzip" if data.startswith(GZIP_MAGIC) else "identity"
                answer = await intake.take(signal, data, encoding=encoding)
        return answers.response(signal, answer)

    async def export(_: Any, context: Any) -> bytes:
        try:
            return await taken(context)
        except RefusedError as refusal:
            code, said = _CODES[answers.RPC_CODE[refusal.why]], refusal.message
            details = (("grpc-status-details-bin", answers.status_of(refusal)),)
        # When the refusal is gone, and with it the message: what aborts a call refers to
        # itself, and stays until Python looks for such garbage, which it does seldom here.
        await context.abort(code, said, trailing_metadata=details)
        raise AssertionError  # abort raised already

    return export


async def _message(context: Any, turns: asyncio.Semaphore, within_s: float) -> bytes:
    try:
        async with asyncio.timeout(within_s), turns:
            message: Any = await context.read()
    except TimeoutError:
        msg = f"a message must be here within {within_s:g} seconds"
        raise RefusedError(msg, "unavailable", 5) from None
    if not isinstance(message, bytes):
        msg = "a call must have a message, came none"
        raise RefusedError(msg, "invalid")
    return message


def _authorization(context: Any) -> str | None:
    for key, value in context.invocation_metadata():
        if key == "authorization":
            return str(value)
    return None
