"""Spans over OTLP, by the official exporters, which honour `OTEL_EXPORTER_OTLP_*`.

`otlp:http://collector:4318` speaks protobuf over HTTP, `otlp-grpc:http://collector:4317`
speaks gRPC. Without a target the endpoint comes from the environment. Headers, timeout,
compression and certificates always do. A collector that is down costs the spans, one
warning and, at the end of the process, at most one timeout (`OTEL_EXPORTER_OTLP_TIMEOUT`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from orchtrace_otel.errors import ConfigError, MissingDependencyError
from orchtrace_otel.redirects import refuse_redirects
from orchtrace_otlp._steady import steady

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["open_grpc", "open_http"]

_TRACES_PATH: Final = "v1/traces"
_HOW_TO_INSTALL: Final = (
    "OTLP needs the official exporters, which are not installed; "
    "run: pip install 'orchtrace-otel[otlp]'"
)


def open_http(target: str = "") -> SpanExporter:
    """Make the official exporter of OTLP over HTTP.

    Args:
        target: URL of the collector. `/v1/traces` is added where it has no path; a path
            is taken as it is. Empty: `OTEL_EXPORTER_OTLP_*` decides.

    Raises:
        ConfigError: If the target is no http or https URL.
        MissingDependencyError: If the exporter is not installed.
    """
    endpoint = _checked(target, "otlp", 4318)
    try:
        # Loaded when asked for, so that the extra stays optional.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
    except ImportError as error:
        raise MissingDependencyError(_HOW_TO_INSTALL) from error
    if endpoint is not None and urlsplit(endpoint).path in {"", "/"}:
        endpoint = f"{endpoint.rstrip('/')}/{_TRACES_PATH}"
    logger = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    exporter: SpanExporter = steady(OTLPSpanExporter, logger)(endpoint=endpoint)
    refuse_redirects(exporter)
    return exporter


def open_grpc(target: str = "") -> SpanExporter:
    """Make the official exporter of OTLP over gRPC.

    Args:
        target: URL of the collector; `http` means no encryption, `https` means TLS.
            Empty: `OTEL_EXPORTER_OTLP_*` decides.

    Raises:
        ConfigError: If the target is no http or https URL.
        MissingDependencyError: If the exporter is not installed.
    """
    endpoint = _checked(target, "otlp-grpc", 4317)
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
    except ImportError as error:
        raise MissingDependencyError(_HOW_TO_INSTALL) from error
    logger = "opentelemetry.exporter.otlp.proto.grpc.exporter"
    exporter: SpanExporter = steady(OTLPSpanExporter, logger)(endpoint=endpoint)
    return exporter


def _checked(target: str, name: str, port: int) -> str | None:
    target = target.strip()
    if not target:
        return None
    try:
        parts = urlsplit(target)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
        # Reading the port is what checks it.
        valid = valid and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        msg = (
            f"{name}: takes an http:// or https:// URL, got {target!r}; "
            f"say for example {name}:http://localhost:{port}"
        )
        raise ConfigError(msg)
    return target
