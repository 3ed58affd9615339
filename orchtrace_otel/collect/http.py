"""OTLP over HTTP, and what people and orchestrators ask: health, readiness, metrics.

`/v1/metrics` is answered with 404 and UNIMPLEMENTED, as the protocol asks of who does not
take a signal: a sender hears of it, and does not try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from orchtrace_otel.collect import answers
from orchtrace_otel.collect.admission import Bounds, RefusedError, check_token
from orchtrace_otel.collect.inflating import Encoding
from orchtrace_otel.collect.intake import Intake, Signal
from orchtrace_otel.collect.metrics import Metrics

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


def application(intake: Intake, metrics: Metrics, token: str | None) -> Starlette:
    """Make the ASGI application.

    Args:
        intake: What takes requests.
        metrics: What `/metrics` shows.
        token: The bearer token that senders must have; None where everybody may send.
    """

    async def health(_: Request) -> Response:
        return PlainTextResponse("alive\n")

    async def ready(_: Request) -> Response:
        faults = intake.faults()
        return PlainTextResponse("\n".join(faults or ["ready"]) + "\n", 503 if faults else 200)

    async def show_metrics(_: Request) -> Response:
        return PlainTextResponse(metrics.text(), media_type=_PROMETHEUS)

    async def no_metrics(request: Request) -> Response:
        msg = "this collector takes traces and logs, no metrics"
        return _refused(_is_json(request), 404, answers.UNIMPLEMENTED, msg)

    made = Starlette(
        routes=[
            Route("/v1/traces", _taking("traces", intake, token), methods=["POST"]),
            Route("/v1/logs", _taking("logs", intake, token), methods=["POST"]),
            Route("/v1/metrics", no_metrics, methods=["POST"]),
            Route("/healthz", health),
            Route("/readyz", ready),
            Route("/metrics", show_metrics),
        ]
    )
    # Official exporters take a redirect for success: a path with a slash behind it is an error.
    made.router.redirect_slashes = False
    return made


def _taking(
    signal: Signal, intake: Intake, token: str | None
) -> Callable[[Request], Awaitable[Response]]:
    async def take(request: Request) -> Response:
        is_read = False
        is_json = _is_json(request)

        def told(answer: Response) -> Response:
            # Not where a body is on its way: closing would reset the connection.
            if is_read and intake.is_ending:
                answer.headers["connection"] = "close"
            return answer

        try:
            check_token(request.headers.get("authorization"), token)
            _check_type(_content_type(request))
            encoding = _encoding(request)
            size = _length(request, intake.bounds.request_bytes)
            with intake.in_flight.request(), intake.in_flight.of(size):
                body = await _body(request, intake.bounds)
                is_read = True
                answer = await intake.take(signal, body, encoding=encoding, is_json=is_json)
        except RefusedError as refusal:
            return told(_answer(refusal, is_json=is_json))
        except ClientDisconnect:
            return Response(status_code=400)
        if is_json:
            return told(Response(answers.response_json(signal, answer), media_type=JSON))
        return told(Response(answers.response(signal, answer), media_type=PROTOBUF))

    return take


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_type(kind: str) -> None:
    if kind not in {PROTOBUF, JSON}:
        msg = f"a body must be {PROTOBUF} or {JSON}, came {kind[:80]!r}"
        raise RefusedError(msg, "unsupported")


def _is_json(request: Request) -> bool:
    return _content_type(request) == JSON


def _encoding(request: Request) -> Encoding:
    match request.headers.get("content-encoding", "").strip().lower():
        case "" | "identity":
            return "identity"
        case "gzip":
            return "gzip"
        case "deflate":
            return "deflate"
        case other:
            msg = f"a body must have the encoding gzip, deflate or none, came {other[:80]!r}"
            raise RefusedError(msg, "unsupported")


def _length(request: Request, most: int) -> int:
    """Return the room that a body needs, which is all there may be where it does not say."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return most
    if int(length) > most:
        raise _too_large(most)
    return int(length)


async def _body(request: Request, bounds: Bounds) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(bounds.body_s):
            async for piece in request.stream():
                size += len(piece)
                if size > bounds.request_bytes:
                    raise _too_large(bounds.request_bytes)
                pieces.append(piece)
    except TimeoutError:
        msg = f"a body must be here within {bounds.body_s:g} seconds, came {size} bytes of it"
        raise RefusedError(msg, "unavailable", 5) from None
    return b"".join(pieces)


def _too_large(most: int) -> RefusedError:
    msg = f"a body must have at most {most} bytes; send smaller batches"
    return RefusedError(msg, "too_large")


def _answer(refusal: RefusedError, *, is_json: bool) -> Response:
    made = _refused(
        is_json, answers.HTTP_STATUS[refusal.why], answers.RPC_CODE[refusal.why], refusal.message
    )
    if refusal.retry_s is not None:
        made.headers["retry-after"] = str(refusal.retry_s)
    if refusal.why == "unauthenticated":
        made.headers["www-authenticate"] = "Bearer"
    return made


def _refused(is_json: bool, code: int, rpc_code: int, message: str) -> Response:  # noqa: FBT001 - one of two shapes
    if is_json:
        return Response(answers.status_json(rpc_code, message), code, media_type=JSON)
    return Response(answers.status(rpc_code, message), code, media_type=PROTOBUF)
