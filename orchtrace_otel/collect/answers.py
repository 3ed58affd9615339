"""What senders are told: OTLP's responses, and `google.rpc.Status` for what is refused."""

from __future__ import annotations

from typing import Any, Final

import orjson
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from orchtrace_otel.collect.admission import RefusedError, Why
from orchtrace_otel.collect.intake import Answer, Signal

INVALID_ARGUMENT: Final = 3
RESOURCE_EXHAUSTED: Final = 8
UNIMPLEMENTED: Final = 12
UNAVAILABLE: Final = 14
UNAUTHENTICATED: Final = 16

HTTP_STATUS: Final[dict[Why, int]] = {
    "invalid": 400,
    "unauthenticated": 401,
    "too_large": 413,
    "unsupported": 415,
    "busy": 429,
    "unavailable": 503,
}

RPC_CODE: Final[dict[Why, int]] = {
    "invalid": INVALID_ARGUMENT,
    "unauthenticated": UNAUTHENTICATED,
    # Without a RetryInfo, which it never has, senders do not try again.
    "too_large": RESOURCE_EXHAUSTED,
    "unsupported": INVALID_ARGUMENT,
    "busy": UNAVAILABLE,
    "unavailable": UNAVAILABLE,
}


def response(signal: Signal, answer: Answer) -> bytes:
    """Return the response to a request that was taken, as protobuf."""
    message: Any
    if signal == "traces":
        message = ExportTraceServiceResponse()
        if answer.message:
            partial = ExportTracePartialSuccess(
                rejected_spans=answer.rejected, error_message=answer.message
            )
            message.partial_success.CopyFrom(partial)
    else:
        message = ExportLogsServiceResponse()
        if answer.message:
            of_logs = ExportLogsPartialSuccess(
                rejected_log_records=answer.rejected, error_message=answer.message
            )
            message.partial_success.CopyFrom(of_logs)
    data: bytes = message.SerializeToString()
    return data


def response_json(signal: Signal, answer: Answer) -> bytes:
    """Return the response to a request that was taken, as JSON; 64 bits are a text there."""
    if not answer.message:
        return b"{}"
    count = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
    partial = {count: str(answer.rejected), "errorMessage": answer.message}
    return orjson.dumps({"partialSuccess": partial})


def status(code: int, message: str, retry_s: int | None = None) -> bytes:
    """Return a `google.rpc.Status`, with a `RetryInfo` where coming back helps."""
    made = Status(code=code, message=message)
    if retry_s is not None:
        packed = AnyMessage()
        packed.Pack(RetryInfo(retry_delay=Duration(seconds=retry_s)))
        made.details.append(packed)
    data: bytes = made.SerializeToString()
    return data


def status_json(code: int, message: str) -> bytes:
    """Return a `google.rpc.Status` as JSON."""
    return orjson.dumps({"code": code, "message": message})


def status_of(refusal: RefusedError) -> bytes:
    """Return what is said of a refusal, as protobuf."""
    return status(RPC_CODE[refusal.why], refusal.message, refusal.retry_s)
