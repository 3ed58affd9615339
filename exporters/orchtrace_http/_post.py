"""One batch, one request, and what its answer means."""

from __future__ import annotations

import gzip
import hashlib
import os
import ssl
import time
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from opentelemetry.instrumentation.utils import suppress_instrumentation

from orchtrace_otel.errors import MissingDependencyError

if TYPE_CHECKING:
    from orchtrace_http._target import Target

Fate: TypeAlias = Literal["taken", "later", "refused", "too_large"]

_CONNECT_S: Final = 5.0
_MOST_READ: Final = 65_536
"""Bytes of an answer's body that are read, to keep the connection; they say nothing to us."""
_MOST_REDIRECTS: Final = 3
_LATER: Final = frozenset({408, 425, 429})
_TOO_LARGE: Final = 413
_SAME_METHOD: Final = frozenset({307, 308})


class Answer(NamedTuple):
    """What became of a batch.

    Attributes:
        fate: `taken`, `later` (keep it and try again), `refused` (for good), or `too_large`.
        why: The status, or the class of the error and the system's words; no content.
        after_s: Seconds after which the server wants to be asked again, if it said so.
    """

    fate: Fate
    why: str = ""
    after_s: float | None = None


def httpx() -> Any:
    """Return httpx.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    try:
        return import_module("httpx")  # needs the extra
    except ModuleNotFoundError as error:
        msg = "http: needs httpx, which is not installed; run: pip install 'orchtrace-otel[http]'"
        raise MissingDependencyError(msg) from error


class Post:
    """Posts batches to one URL over one connection, without a trace or a log line of its own.

    Args:
        target: The URL, its headers and its timeout.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client: Any = None
        self._headers = {
            "user-agent": f"orchtrace-otel/{version('orchtrace-otel')}",
            **target.headers,
            "content-type": "application/x-ndjson",
            "content-encoding": "gzip",
        }

    def send(self, body: bytes) -> Answer:
        """Post some lines.

        The key for idempotency is a hash of the lines: whoever sends them again, a retry
        or the process after a crash, sends the same key.
        """
        packed = gzip.compress(body, compresslevel=5, mtime=0)
        headers = {**self._headers, "idempotency-key": hashlib.sha256(body).hexdigest()[:32]}
        with suppress_instrumentation():
            answer, further = self._ask(httpx().URL(self._target.url), packed, headers)
            for _ in range(_MOST_REDIRECTS):
                if further is None:
                    break
                answer, further = self._ask(further, packed, headers)
        return answer

    def close(self) -> None:
        """Let go of the connection."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def start_afresh(self) -> None:
        """Leave the connection to the process that opened it."""
        self._client = None

    def _opened(self) -> Any:
        if self._client is None:
            lib = httpx()
            seconds = self._target.timeout_s
            timeout = lib.Timeout(seconds, connect=min(seconds, _CONNECT_S))
            self._client = lib.Client(timeout=timeout, follow_redirects=False)
        return self._client

    def _ask(self, url: Any, packed: bytes, headers: dict[str, str]) -> tuple[Answer, Any]:
        """Send one request; return what it means, and where to go instead, if anywhere."""
        lib = httpx()
        try:
            client = self._opened()
            with client.stream("POST", url, content=packed, headers=headers) as response:
                answer = _meaning(response.status_code, response.headers.get("retry-after"))
                further = _redirect(url, response)
                with suppress(lib.HTTPError):
                    self._read(response)
        except Exception as error:  # noqa: BLE001 - the thread must go on, and the batch is kept
            return Answer("later", _reason(error)), None
        return answer, further

    def _read(self, response: Any) -> None:
        end = time.monotonic() + self._target.timeout_s
        size = 0
        for chunk in response.iter_raw():
            size += len(chunk)
            if size > _MOST_READ or time.monotonic() > end:
                return


def _meaning(status: int, retry_after: str | None) -> Answer:
    if 200 <= status < 300:  # noqa: PLR2004 - as HTTP has it
        return Answer("taken")
    why = f"status {status}"
    if status in _LATER or status >= 500:  # noqa: PLR2004
        return Answer("later", why, seconds_of(retry_after))
    return Answer("too_large" if status == _TOO_LARGE else "refused", why)


def _redirect(url: Any, response: Any) -> Any:
    """Return where a redirect leads that keeps the method and stays on the server.

    Elsewhere would get the headers, and data that was not meant for it.
    """
    where = response.headers.get("location")
    if response.status_code not in _SAME_METHOD or where is None:
        return None
    with suppress(httpx().InvalidURL):
        to = url.join(where)
        if (to.scheme, to.host, to.port) == (url.scheme, url.host, url.port):
            return to
    return None


def seconds_of(retry_after: str | None, now: datetime | None = None) -> float | None:
    """Read `Retry-After`: seconds, or a date; None where it is neither.

    Example:
        >>> seconds_of("120"), seconds_of("soon"), seconds_of(None)
        (120.0, None, None)
        >>> seconds_of("Sun, 29 Nov 2026 12:00:30 GMT", datetime(2026, 11, 29, 12, tzinfo=UTC))
        30.0
    """
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after[:9])
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max((at - (now or datetime.now(UTC))).total_seconds(), 0.0)


def _reason(error: BaseException) -> str:
    """Name an error by its class and the system's words; its own text may hold the URL."""
    kind = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"{kind}: TLS, {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"{kind}: TLS, {cause.reason or 'no agreement'}"
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno > 0:
            return f"{kind}: {os.strerror(cause.errno)}"
        cause = cause.__cause__ or cause.__context__
    return kind
