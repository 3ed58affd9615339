"""What the official exporters lack when a collector is down: few words and few waits.

They log every attempt, and they try each batch for as long as their timeout, so that a
process that ends would wait for one timeout after another.
"""

from __future__ import annotations

import logging
import threading
import time
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from orchtrace_otel.errors import without_password
from orchtrace_otel.forking import afresh_in_children
from orchtrace_otel.redirects import RedirectedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan

_logger = logging.getLogger("orchtrace_otel")

_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 30.0

_exporting = threading.local()


@cache
def steady(kind: type[SpanExporter], logger: str) -> type[Any]:
    """Return a subclass of the official exporter `kind` that keeps calm.

    Args:
        kind: The official exporter.
        logger: Name of the logger to which it tells each attempt.
    """
    logging.getLogger(logger).addFilter(_tells)
    return type(kind.__name__, (Steady, kind), {"__doc__": kind.__doc__})


def _tells(record: logging.LogRecord) -> bool:
    """Let through what others say, and what ours says where DEBUG is asked for."""
    is_ours = getattr(_exporting, "now", False)
    if is_ours:
        _exporting.why = _reason(record.args) or getattr(_exporting, "why", "")
    return not is_ours or logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


def _reason(said: object) -> str:
    """Return the status or the error's class among what was said; texts may hold a password.

    Example:
        >>> _reason(("spans", 401, "Unauthorized")), _reason(("spans", None, OSError("x")))
        ('status 401', 'OSError')
    """
    for one in cast("tuple[object, ...]", said) if isinstance(said, tuple) else ():
        if isinstance(one, Enum):  # of gRPC
            return one.name
        if isinstance(one, RedirectedError):
            return str(one)
        if isinstance(one, int):
            return f"status {one}"
        if isinstance(one, BaseException):
            return type(one).__name__
    return ""


class Steady(SpanExporter):
    """Warns once when spans cannot be delivered, counts them, and then tries less often.

    After a batch was lost, further ones are given up at once for a while: 5 seconds,
    doubled with each loss up to 30.

    Attributes:
        lost: Spans that did not reach the collector.
    """

    lost: int = 0
    _pause: float = _FIRST_PAUSE_S
    _again: float = 0.0
    _over: bool = False

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        afresh_in_children(self)

    def start_afresh(self) -> None:
        """Count anew in the child of a fork."""
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans, unless the collector was out of reach a moment ago."""
        if time.monotonic() < self._again:
            self.lost += len(spans)
            return SpanExportResult.FAILURE
        _exporting.now, _exporting.why = True, ""
        try:
            result = super().export(spans)
        except Exception as error:
            # 1.40 does raise; the SDK would log each one with its traceback.
            _logger.debug("the OTLP exporter failed", exc_info=error)
            _exporting.why = _reason((error,))
            result = SpanExportResult.FAILURE
        finally:
            _exporting.now = False
        if result is SpanExportResult.SUCCESS:
            self._pause = _FIRST_PAUSE_S
            return result
        if self.lost == 0:
            _logger.warning(
                "the OTLP collector at %s takes no spans%s; the application goes on without; "
                "how many were lost is told at shutdown, and each attempt at DEBUG",
                self._where(),
                f" ({_exporting.why})" if _exporting.why else "",
            )
        self.lost += len(spans)
        self._again = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_S)
        return result

    def _where(self) -> str:
        """Name the collector, without a password that its URL may hold."""
        return without_password(str(getattr(self, "_endpoint", "its endpoint")))

    def shutdown(self) -> None:
        """Let go of the connection, and say what was lost."""
        if self._over:
            return
        self._over = True
        super().shutdown()
        if self.lost:
            _logger.warning("%d spans did not reach the OTLP collector", self.lost)
