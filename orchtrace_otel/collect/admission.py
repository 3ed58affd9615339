"""Who gets in: the bounds, what is refused beyond them, and the bearer token.

Nothing is lost in silence: what a bound keeps out is refused to the sender's face, with
a time to come back where coming back helps, so that exporters keep it and send it again.
"""

from __future__ import annotations

import hmac
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Why: TypeAlias = Literal[
    "invalid", "unsupported", "too_large", "unauthenticated", "busy", "unavailable"
]
"""Kinds of refusals; senders try again after the last two."""

_SCHEME: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one collector takes, and what it keeps in memory.

    Attributes:
        request_bytes: Of one request, compressed and not.
        request_items: Spans or log records of one request, with what stands around them.
        span_bytes: Of one span, encoded; larger ones are rejected.
        span_attributes: Of one span; a span with more is rejected.
        span_links: Of one span; a span with more is rejected.
        body_s: Seconds that a body may take: it holds room that others wait for.
        in_flight: Requests being read and checked; further ones come back.
        in_flight_bytes: Of these; beyond it senders wait, or come back.
        waiting_bytes: Of spans acknowledged and not yet taken up, or waiting for a slow
            disk; beyond it senders wait.
        open_traces: OTel traces open at once; beyond it the one silent for longest closes.
        open_bytes: Of encoded spans of open traces; likewise.
        trace_spans: Spans of one OTel trace; further ones are rejected.
    """

    request_bytes: int = 32 * 2**20
    request_items: int = 200_000
    span_bytes: int = 2**20
    span_attributes: int = 2_000
    span_links: int = 5_000
    body_s: float = 30.0
    in_flight: int = 512
    in_flight_bytes: int = 128 * 2**20
    waiting_bytes: int = 64 * 2**20
    open_traces: int = 20_000
    open_bytes: int = 288 * 2**20
    trace_spans: int = 100_000


class RefusedError(Exception):
    """A request is refused as a whole.

    Attributes:
        message: What must hold, what came; sent to the sender.
        why: The kind of refusal.
        retry_s: Seconds after which it may come back; None where it would be in vain.
    """

    def __init__(self, message: str, why: Why, retry_s: int | None = None) -> None:
        super().__init__(message)
        self.why: Why = why
        self.message = message
        self.retry_s = retry_s


class InFlight:
    """How many requests are being read and checked, and how many bytes they have.

    Args:
        most: Requests.
        most_bytes: Bytes.

    Example:
        >>> room = InFlight(1, 10)
        >>> with room.request(), room.of(10):
        ...     room.count, room.held
        (1, 10)
        >>> room.count, room.held
        (0, 0)
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self.count = 0
        self.held = 0
        self._most = most
        self._most_bytes = most_bytes

    @contextmanager
    def request(self) -> Generator[None, None, None]:
        """Count a request, whatever its size.

        Raises:
            RefusedError: If there are as many as may be.
        """
        if self.count >= self._most:
            raise _too_many()
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    @contextmanager
    def of(self, size: int) -> Generator[None, None, None]:
        """Hold room for that many bytes.

        Raises:
            RefusedError: If there is none.
        """
        if self.held and self.held + size > self._most_bytes:
            raise _too_many()
        self.held += size
        try:
            yield
        finally:
            self.held -= size


def _too_many() -> RefusedError:
    return RefusedError("more requests came at once than the bounds allow", "busy", 1)


def check_token(given: str | None, wanted: str | None) -> None:
    """Check the value of an `Authorization` header, in time that tells nothing of the token.

    Args:
        given: The header, None where there is none.
        wanted: The token; None where everybody may send.

    Raises:
        RefusedError: If it is not `Bearer <token>`.

    Example:
        >>> check_token("Bearer abc", "abc")
        >>> check_token(None, None)
    """
    if wanted is None:
        return
    text = given or ""
    token = text[len(_SCHEME) :].strip() if text[: len(_SCHEME)].lower() == _SCHEME else ""
    if not hmac.compare_digest(token.encode("utf-8", "replace"), wanted.encode()):
        msg = (
            "a request must carry `Authorization: Bearer <token>` with the token of this collector"
        )
        raise RefusedError(msg, "unauthenticated")
