"""The way in for `opentelemetry-instrument`: tracing without a line of code.

A module of its own because the base class is slow to import and nobody else needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

# mypy sees nothing in that module: it opens with a `type: ignore` of its own.
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from orchtrace_otel import configuration
from orchtrace_otel.adapter import Instrumented
from orchtrace_otel.errors import OrchtraceError

_logger = logging.getLogger("orchtrace_otel")


class OrchtraceInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Puts in the adapters of all installed frameworks, as `orchtrace.instrument()` does.

    Takes the keywords that instrumentors take: `tracer_provider`, `logger_provider` and
    `meter_provider`. Without them the global providers are used.
    """

    _handle: Instrumented | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Name no framework: which ones are installed is for the adapters to find out."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        known = ("tracer_provider", "logger_provider", "meter_provider")
        given = {name: kwargs[name] for name in known if kwargs.get(name) is not None}
        try:
            if given:
                configuration.configure(**given)
            self._handle = configuration.instrument()
        except OrchtraceError as error:
            # Whoever starts us without a line of code wants the application to run.
            _logger.error("orchtrace traces nothing: %s", error)  # noqa: TRY400 - no traceback helps

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - the base class's signature
        if self._handle is not None:
            self._handle.uninstrument()
            self._handle = None
