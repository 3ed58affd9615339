"""OTLP over gRPC: the trace and the logs service, on messages as they came.

Requests are taken undecoded: they go to the spool as they are, and gzip is undone by us,
within the bounds, which gRPC's own decompression knows nothing of. Metrics have no
service here, so gRPC itself answers UNIMPLEMENTED.
"""

from __future__ import annotations

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
        ]
    )
    as_handler: Any = grpc.unary_unary_rpc_method_handler
    for signal, service in _SERVICES.items():
        handler: Any = as_handler(_taking(signal, intake, token))
        made.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {"Export": handler}),)
        )
    return made


def credentials(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """Read what the server proves itself with over TLS."""
    return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])


def _taking(
    signal: Signal, intake: Intake, token: str | None
) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def export(data: bytes, context: Any) -> bytes:
        try:
            check_token(_authorization(context), token)
            with intake.in_flight.of(len(data)):
                encoding: Encoding = "gzip" if data.startswith(GZIP_MAGIC) else "identity"
                answer = await intake.take(signal, data, encoding=encoding)
            return answers.response(signal, answer)
        except RefusedError as refusal:
            details = answers.status_of(refusal)
            await context.abort(
                _CODES[answers.RPC_CODE[refusal.why]],
                refusal.message,
                trailing_metadata=(("grpc-status-details-bin", details),),
            )
            raise  # abort raised already

    return export


def _authorization(context: Any) -> str | None:
    for key, value in context.invocation_metadata():
        if key == "authorization":
            return str(value)
    return None
